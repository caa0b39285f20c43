"""What `detection: on` costs the engine: in the quiet, and when hundreds of machines fall silent at once.

Every node has a machine that answers (machines.py), with a pod on each of those that die. The engine runs three times: with
detection off, with it on, and on with a binding that acts on lost nodes (`actOn: lost`), which reads the Leases as soon as a
machine is silent. A machine that dies takes the renewals of its Lease with it. Kubernetes calls no node NotReady
meanwhile (grace), and more machines are quiet than may be for any to count as lost: nothing is to be deleted.

No metric says how late the engine's loop is, and /livez is answered by another thread. So the thread of the loop is looked at
from outside every few milliseconds (/proc): as long as it runs, or waits for a core, without having slept once, no
timer may be served, and it cannot be later than that. What asking for the metrics costs is told beside the storm.
"""

import http.client
import re
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from e2e.engine import QUARANTINE_RULES
from e2e.kube import wait_for
from e2e.policies import PolicyMap
from e2e.workloads import Workloads, node_ready

from .crowd import Crowd
from .figures import Block, Table
from .footprint import LEASE, STATUS, cpu_seconds, megabytes, wait_calm
from .machines import FarStage, address, answer_to

SPACE = "far"  # of the pods
ENGINE = "system:serviceaccount:moonfence:moonfence"
EVERY, GLANCE = 0.5, 0.004  # seconds between two looks at /metrics, and at the loop
ASKED = 20  # seconds over which the asking itself is measured
FIRST, WHOLE = 30, 45  # seconds of the storm: over which CPU is measured, and until it is over
LIMITS = {"cpu": 4, "memory": 40, "writes": 0, "late": 100}
WORDS = ("answers", "unsure", "silent", "not_observable")


@dataclass(frozen=True)
class Way:
    name: str
    detection: str
    lost: bool = False

    def settings(self) -> str:
        return f"quarantine: missing\ndetection: {self.detection}"

    def bindings(self) -> str:
        binding = f"- policy: noobaa\n  namespaces: [{SPACE}]\n  mode: enforce\n"
        return "api: 1\nmode: enforce\nbindings:\n" + binding + (f"{binding}  actOn: lost\n  after: 12s\n" if self.lost else "")


WAYS = (Way("off", "off"), Way("on", "on"), Way("on, actOn: lost", "on", True))


def samples(engine) -> dict:
    """{(name, labels): number} of /metrics."""
    with urllib.request.urlopen(f"http://127.0.0.1:{engine.metrics_port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {(name, labels or ""): float(value) for name, labels, value in re.findall(r"(?m)^(\w+)(?:\{(.*)\})? (\S+)$", text)}


def kernels(found: dict) -> dict:
    return {word: int(found.get(("moonfence_detection_nodes", f'kernel="{word}"'), 0)) for word in WORDS}


def requests(found: dict) -> dict:
    """{method: requests to the API server so far}."""
    counts: dict = {}
    for (name, labels), value in found.items():
        if name == "rest_client_requests_total":
            method = re.search(r'method="(\w+)"', labels)[1]
            counts[method] = counts.get(method, 0) + int(value)
    return counts


def less(after: dict, before: dict) -> dict:
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def interrupts() -> float:
    """Seconds that all cores spent in soft interrupts, where the kernel keeps connections alive."""
    return int(Path("/proc/stat").read_text().split("\n", 1)[0].split()[7]) / 100


@dataclass
class Watching:
    """Looks at the engine while it is entered: how the machines are, and how long its loop is at work without a pause."""

    engine: object
    began: float = 0.0
    looks: list = field(default_factory=list)  # (seconds since the beginning, {word: nodes}, open descriptors)
    busy: list = field(default_factory=list)   # (seconds since the beginning, at work, and waiting for a core) without a pause
    failed: list = field(default_factory=list)

    def __enter__(self) -> "Watching":
        self.began = time.monotonic()
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=each, daemon=True) for each in (self._ask, self._glance)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()

    def _ask(self):
        while not self.ended.wait(EVERY):
            now = time.monotonic()
            try:
                found = samples(self.engine)
                self.looks.append((now - self.began, kernels(found), int(found[("process_open_fds", "")])))
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(f"{type(error).__name__}: {error}")

    def _glance(self):
        """What it worked and waited from the last glance at which it slept, or had slept since the one before, to the next
        such one. If we ourselves look late, that is more than it was without a pause, never less."""
        thread = Path(f"/proc/{self.engine.pid}/task/{self.engine.pid}")
        with open(thread / "status", "rb", buffering=0) as status, open(thread / "schedstat", "rb", buffering=0) as spent:
            before, ran, waited = b"", 0, 0
            while not self.ended.wait(GLANCE):
                status.seek(0)
                spent.seek(0)
                text = status.read(4096)
                now_ran, now_waited = map(int, spent.read(100).split()[:2])
                slept = text[text.index(b"\nvoluntary_ctxt"):].split(None, 2)[1]
                if slept != before or b"State:\tS" in text:
                    if before:
                        self.busy.append((time.monotonic() - self.began, (now_ran - ran) / 1e9, (now_waited - waited) / 1e9))
                    before, ran, waited = slept, now_ran, now_waited

    def now(self) -> dict:
        return self.looks[-1][1] if self.looks else {}

    def late(self) -> list:
        """Milliseconds at most: all, and of them at work."""
        _, ran, waited = max(self.busy, key=lambda each: each[1] + each[2], default=(0, 0, 0))
        return [1000 * (ran + waited), 1000 * ran]

    def slowest(self) -> list:
        """The ten longest: when, and milliseconds at work and waiting."""
        longest = sorted(self.busy, key=lambda each: -each[1] - each[2])[:10]
        return [[round(at, 2), round(1000 * ran, 1), round(1000 * waited, 1)] for at, ran, waited in longest]

    def first(self, condition) -> float:
        """Seconds until a look found it so; NaN: none did."""
        return next((at for at, words, _ in self.looks if condition(words)), float("nan"))


class Spent:
    """CPU, as share of a core, since it was made."""

    def __init__(self, engine):
        self.engine, self.before, self.began, self.kernel = engine, cpu_seconds(engine.pid), time.monotonic(), interrupts()

    def share(self) -> float:
        return 100 * (cpu_seconds(self.engine.pid) - self.before) / (time.monotonic() - self.began)

    def of_interrupts(self) -> float:
        return 100 * (interrupts() - self.kernel) / (time.monotonic() - self.began)


@dataclass
class Field:
    """Who takes part: the nodes whose machines die, and the others."""

    stage: FarStage
    doomed: Crowd
    others: Crowd
    lease: float
    status: float

    @property
    def nodes(self) -> int:
        return self.doomed.nodes + self.others.nodes

    def dying(self) -> list:
        return [address(number) for number in range(self.doomed.nodes)]

    def ready(self) -> int:
        """Of those whose machines die, by the API server."""
        return sum(node_ready(node) == "True" for node in self.stage.client.list("nodes", labels=f"bench={self.doomed.label}"))

    def pods(self) -> set:
        """The UIDs of those that are not being deleted."""
        return {pod["metadata"]["uid"] for pod in self.stage.client.list("pods", SPACE)
                if "deletionTimestamp" not in pod["metadata"] and pod["spec"].get("nodeName")}


def fill(stage: FarStage, nodes: int, silent: int, lease: float, status: float) -> Field:
    doomed = Crowd(stage, "doomed-", "doomed", address)
    others = Crowd(stage, "crowd-", "crowd", lambda index: address(silent + index))
    doomed.add_nodes(silent)
    rate = others.add_nodes(nodes - silent)
    print(f"  {nodes} nodes, made at {rate:.0f} a second; calm after {wait_calm(stage):.0f} s", flush=True)
    field_ = Field(stage, doomed, others, lease, status)
    for crowd in (doomed, others):
        crowd.start_heartbeats(lease, status)
    Workloads(stage.client, SPACE, node_labels={"bench": doomed.label}).create_namespace().deployment("noobaa", replicas=silent)
    wait_for("the pods are bound", lambda: len(field_.pods()) == silent, 300, every=2)
    print(f"  {silent} pods bound to those that will die; calm after {wait_kept(stage):.0f} s", flush=True)
    return field_


def wait_kept(stage: FarStage) -> float:
    """Each Lease has been renewed more than once: until then the heartbeats create them."""
    began = time.monotonic()
    wait_for("the Leases are there", lambda: len(stage.client.list("leases", "kube-node-lease")) > 0, 60, every=1)
    time.sleep(15)
    return time.monotonic() - began


def kinds(audit) -> dict:
    """{verb and resource: writes of the engine}."""
    return dict(Counter(f"{entry.verb} {entry.resource}" for entry in audit.writes(by=ENGINE)))


def quiet(field_: Field, engine, settle: float, seconds: float, way: Way) -> dict:
    if way.detection == "on":
        wait_for("every machine answers", lambda: kernels(samples(engine))["answers"] == field_.nodes, 60, every=0.5)
    time.sleep(settle)
    audit, before = field_.stage.audit(), samples(engine)
    spent, packets = Spent(engine), field_.stage.machines.packets()
    time.sleep(seconds)
    found = {"cpu": spent.share(), "interrupts": spent.of_interrupts(),
             "packets": (field_.stage.machines.packets() - packets) / seconds}
    after = samples(engine)
    written = kinds(audit)
    return {**found, "requests": less(requests(after), requests(before)), "writes": sum(written.values()),
            "written": written,
            "memory": megabytes(engine.pid, "VmRSS"), "own": megabytes(engine.pid, "RssAnon"),
            "files": int(after[("process_open_fds", "")]), "most_files": int(after[("process_max_fds", "")]),
            "kernels": kernels(after)}


def asked(engine) -> dict:
    """What the asking itself costs, in the quiet."""
    with Watching(engine) as watching:
        spent = Spent(engine)
        time.sleep(ASKED)
        cpu = spent.share()
    return {"cpu": cpu, "late": watching.late(), "slowest": watching.slowest(), "failed": len(watching.failed)}


def storm(field_: Field, engine, way: Way) -> dict:
    machines, dying = field_.stage.machines, field_.dying()
    audit, before, pods = field_.stage.audit(), samples(engine), field_.pods()
    Path(f"/proc/{engine.pid}/clear_refs").write_text("5")  # the peak of its memory is counted anew from here
    try:
        with Watching(engine) as watching:
            spent = Spent(engine)
            machines.kill(dying)
            killing = time.monotonic() - watching.began
            field_.doomed.end_heartbeats()
            said = (answer_to(dying[0]), answer_to(dying[-1]), answer_to(address(field_.nodes - 1)))
            time.sleep(watching.began + FIRST - time.monotonic())
            cpu = spent.share()
            time.sleep(watching.began + WHOLE - time.monotonic())
            later = (spent.share() * WHOLE - cpu * FIRST) / (WHOLE - FIRST)
        found = {"killing": killing, "cpu": cpu, "cpu_later": later, **told(watching, field_),
                 "memory": megabytes(engine.pid, "VmHWM"), "files": max((files for _, _, files in watching.looks), default=0),
                 "requests": less(requests(samples(engine)), requests(before)), "deletions": len(audit.deletes(by=ENGINE)),
                 "writes": sum((written := kinds(audit)).values()), "written": written,
                 "gone": len(pods - field_.pods()), "ready": field_.ready()}
    finally:
        machines.revive(dying)
        field_.doomed.start_heartbeats(field_.lease, field_.status)
    if said != ("silent", "silent", "open"):
        raise RuntimeError(f"two dead machines and a living one answered: {', '.join(said)}")
    if way.detection == "on":
        wait_for("every machine answers again", lambda: kernels(samples(engine))["answers"] == field_.nodes, 120, every=0.5)
    if found["deletions"] or found["gone"] or found["ready"] != field_.doomed.nodes:
        raise RuntimeError(f"something was deleted, or a node is not Ready any more: {found}")
    return found


def told(watching: Watching, field_: Field) -> dict:
    dead = field_.doomed.nodes
    return {"silent_after": watching.first(lambda words: words["silent"] == dead),
            "fewest_answers": min((words["answers"] for _, words, _ in watching.looks), default=0),
            "most_unsure": max((words["unsure"] for _, words, _ in watching.looks), default=0),
            "last": watching.now(), "late": watching.late(), "failed": len(watching.failed),
            "looks": [[round(at, 2), *words.values(), files] for at, words, files in watching.looks],
            "slowest": watching.slowest()}


def one(field_: Field, policies: PolicyMap, way: Way, settle: float, seconds: float) -> dict:
    policies.write(data={"moonfence.yaml": way.bindings()})
    wait_kept(field_.stage)  # those that died before are back
    with field_.stage.engine("", policies="moonfence", settings=way.settings()) as engine:
        found = {"name": way.name, "ready_in": engine.ready_in, "quiet": quiet(field_, engine, settle, seconds, way),
                 "asked": asked(engine), "storm": storm(field_, engine, way)}
    calm, rough = found["quiet"], found["storm"]
    print(f"  {way.name}: CPU {calm['cpu']:.2f} %, asked {found['asked']['cpu']:.2f} %, storm {rough['cpu']:.1f} %; "
          f"{calm['memory']:.1f} MB; writes {calm['writes']}; "
          f"silent after {rough['silent_after']:.1f} s; loop late {rough['late'][0]:.0f} ms at most, "
          f"in the quiet {found['asked']['late'][0]:.0f} ms", flush=True)
    return found


def grant(stage: FarStage):
    """What `quarantine` needs, without which a lost node would wait for a taint."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/"
    stage.client.request("POST", rbac + "clusterroles", {
        "metadata": {"name": "moonfence-quarantine"}, "rules": [*QUARANTINE_RULES]})
    stage.client.request("POST", rbac + "clusterrolebindings", {
        "metadata": {"name": "moonfence-quarantine"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "moonfence-quarantine"},
        "subjects": [{"kind": "ServiceAccount", "name": "moonfence", "namespace": "moonfence"}]})


def measure(stage: FarStage, nodes: int = 5000, silent: int = 500, seconds: float = 60, settle: float = 20,
            lease: float = LEASE, status: float = STATUS) -> Block:
    """`stage` is one of its own, with footprint.GRACE."""
    print("\nDetection", flush=True)
    grant(stage)
    field_ = fill(stage, nodes, silent, lease, status)
    try:
        found = [one(field_, PolicyMap(stage.client, "moonfence"), way, settle, seconds) for way in WAYS]
        beats = field_.others.heartbeats()
    finally:
        for crowd in (field_.doomed, field_.others):
            crowd.end_heartbeats()
    return block(found, nodes, silent, seconds, lease, status, beats)


def counted(counts: dict) -> str:
    return ", ".join(f"{count} {method}" for method, count in sorted(counts.items())) or "none"


def storm_row(found: dict) -> list:
    rough = found["storm"]
    machines = [f"{rough['silent_after']:.1f}", rough["fewest_answers"], rough["most_unsure"]]
    return [found["name"], f"{rough['cpu']:.2f}", f"{rough['cpu_later']:.2f}", f"{found['asked']['cpu']:.2f}",
            *("{:.0f} ({:.0f})".format(*part["late"]) for part in (rough, found["asked"])), f"{rough['memory']:.1f}",
            f"{rough['files']:,}", *(machines if any(rough["last"].values()) else [""] * 3),
            counted(rough["requests"]), rough["writes"], rough["deletions"]]


def block(found: list, nodes: int, silent: int, seconds: float, lease: float, status: float, beats: dict) -> Block:
    off = found[0]["quiet"]
    calm = Table(["detection", "CPU, % of a core", "resident, MB", "more than off, MB", "own data, MB", "open descriptors",
                  "requests", "writes", "packets a second", "soft interrupts, % of a core"],
                 [[f["name"], f"{q['cpu']:.2f}", f"{q['memory']:.1f}", f"{q['memory'] - off['memory']:.1f}", f"{q['own']:.1f}",
                   f"{q['files']:,}", counted(q["requests"]), q["writes"], f"{q['packets']:,.0f}", f"{q['interrupts']:.1f}"]
                  for f in found for q in [f["quiet"]]], f"The quiet, over {seconds:g} s")
    rough = Table(["detection", f"CPU of the first {FIRST} s, %", f"of the next {WHOLE - FIRST} s, %", "of asking in the quiet, %",
                   "loop late at most, ms (at work)", "in the quiet", "peak of memory, MB", "most open descriptors",
                   f"all {silent} silent, s", "fewest answers", "most unsure", "requests", "writes", "deletions"],
                  [storm_row(f) for f in found], f"{silent} of {nodes:,} machines fall silent at once")
    results = [f"Goals: CPU at most {LIMITS['cpu']} % of a core, at most {LIMITS['memory']} MB more than without, "
               f"{LIMITS['writes']} writes in the quiet, the loop less than {LIMITS['late']} ms late.",
               f"In the storms nothing was deleted, and all {silent} nodes stayed Ready in the API. Nodes that answer and were not "
               "said to: " + ", ".join(f"{max(0, nodes - silent - f['storm']['fewest_answers'])} ({f['name']})" for f in found[1:]) + ".",
               f"The machines died within {1000 * max(f['storm']['killing'] for f in found):.0f} ms. The engine may open "
               f"{off['most_files']:,} descriptors.",
               f"Heartbeats sent a second (of the wanted), late, failed: {beats['rate']:.0f} ({(nodes - silent) / lease:.0f} + "
               f"{(nodes - silent) / status:.1f}), {beats['late']}, {beats['failed']}.",
               "Written in the storms: " + "; ".join(f"{f['name']}: {counted(f['storm'].get('written', {}))}" for f in found) + ".",
               *([f"Questions to the engine that failed: {failed}."] if (failed := sum(
                   f[part]["failed"] for f in found for part in ("asked", "storm"))) else [])]
    how = (f"{nodes:,} nodes with 50 images and 10 conditions, each with a machine of its own address that answers on port 10250, in a "
           f"network namespace beside that of the engine. Each renews its Lease every {lease:g} s and posts its status every {status:g} s. "
           "Soft interrupts are those of all cores and of both ends of the connections, and of everything else on this machine. In the storm "
           f"whatever comes for {silent} machines is dropped, and their Leases stop. The engine is asked for "
           f"`/metrics` every {EVERY:g} s, which shows the machines as they were a second ago at most. The loop cannot be later than "
           f"its thread was at work, and waited for a core, without a pause: looked at every {1000 * GLANCE:g} ms.")
    return Block(how, [calm, rough], results, {"ways": found, "nodes": nodes, "silent": silent})
