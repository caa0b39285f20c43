"""What `scripts/run --real` shows: a node with real containers loses its power, and beside it Kubernetes alone.

Two clusters of machines are up side by side, with the same workload; one of them has moonfence. Everything that is
started ends with this program, whether it succeeds, fails or is interrupted.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import time
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import Optional

from cluster.bed import Bed
from cluster.needs import Unfit
from cluster.settings import FAST
from e2e.control_plane import REPO
from e2e.engine import RULES, Account
from e2e.growing_file import whole_lines
from e2e.kube import ApiError, wait_for
from e2e.processes import free_port
from e2e.workloads import WORKLOAD, Workloads

from .chronicle import Chronicle
from .stage import OBEYS, pod_spec

SPACE, ACCOUNT, NODE, NODES = "noobaa", "moonfence", "node-1", 3
CORE, DATABASE, ENDPOINT = "noobaa-core", "noobaa-db-pg", "noobaa-endpoint"
PODS = 4
UNREACHABLE = "node.kubernetes.io/unreachable"
POLICY = REPO / "policies" / "noobaa" / "policy.lua"
LIMIT = 180  # seconds until the pods run elsewhere; a bound, not a wait
SETTLED = 0.3  # what happened longer ago than this many seconds can no longer be overtaken
COLUMN = 72  # where the cluster without moonfence begins


def say(text=""):
    print(text, flush=True)


def fact(name: str, text: str):
    say(textwrap.fill(text, 104, initial_indent=f"  {name:<11} ", subsequent_indent=" " * 14))


def of(pod: dict) -> str:
    return pod["metadata"]["labels"][WORKLOAD]


class Side:
    """One of the two clusters, and what is seen of it."""

    def __init__(self, folder: Path):
        self.bed = Bed(folder, settings=FAST, audited=False)
        self.old: dict = {}  # uid: the pod, as it was on the node that fails
        self.seen: Optional[Chronicle] = None

    def start(self):
        self.bed.up(NODES, ready=False)
        self.client = self.bed.client

    def fill(self):
        """All on the first node: the others take none before these run."""
        self.workloads = Workloads(self.client, SPACE)
        self.workloads.create_namespace()
        self.cordon(True)
        more = {"labels": {"app": "noobaa"}, "toleration_seconds": None, "pod_spec": pod_spec(OBEYS)}
        self.workloads.stateful_set(CORE, **more)
        self.workloads.stateful_set(DATABASE, **more)
        self.workloads.deployment(ENDPOINT, 2, **more)

    def wait_filled(self):
        pods = self.workloads.wait_all_running("noobaa", PODS)
        self.old = {pod["metadata"]["uid"]: pod for pod in pods}
        self.cordon(False)
        self.bed.wait_ready()

    def cordon(self, closed: bool):
        for node in self.bed.nodes:
            if node.name != NODE:
                self.client.patch("nodes", node.name, {"spec": {"unschedulable": closed}})

    def strike(self):
        self.seen = Chronicle(self.bed.control_plane.client(timeout=30), SPACE)
        self.bed.node(NODE).power_off()

    @property
    def not_ready(self) -> Optional[float]:
        return self.seen.not_ready.get(NODE)

    def running(self, workload: str = "") -> list:
        """[(since when, pod)] of those that run in place of others."""
        found = [(at, pod) for uid, (at, pod) in self.seen.running.items() if uid not in self.old]
        return sorted((each for each in found if workload in ("", of(each[1]))), key=lambda each: each[0])

    def evicted_after(self) -> int:
        """So many seconds after its taint Kubernetes takes the pods off the node, by their tolerations."""
        (seconds,) = {each["tolerationSeconds"] for pod in self.old.values() for each in pod["spec"]["tolerations"]
                      if each["key"] == UNREACHABLE}
        return seconds


class Timeline:
    """Prints what happened in its order, though it is learnt of in another."""

    def __init__(self, zero: float):
        self.zero, self.waiting = zero, []

    def add(self, at: float, text: str):
        self.waiting.append((at, len(self.waiting), text))

    def show(self, until: float = float("inf")):
        due = sorted(each for each in self.waiting if each[0] <= until)
        self.waiting = [each for each in self.waiting if each[0] > until]
        for at, _, text in due:
            say(f"  {at - self.zero:+7.2f} s  {text}")


def told(record: dict) -> str:
    """A record of the audit in the words of `moonfence simulate`; "" when another one says more."""
    pod = f"{record.get('namespace', '')}/{record.get('pod', '')}"
    why = record["reason"] + (f": {record['text']}" if record.get("text") else "")
    words = {"incident_opened": f"looks at {record['node']}: {why}",
             "incident_held": f"waits before it acts on {record['node']}: {why}", "verdict": f"judges {pod}: {why}",
             "refusal": f"does not touch {pod}: {why}", "replacement": f"replacement of {pod}: {why}",
             "outcome": f"deleted {pod}" if record["reason"] == "done" else f"tried to delete {pod}: {why}"}
    return words.get(record["kind"], "")


class Demo:
    def __init__(self, binary: Path, folder: Path):
        self.binary, self.folder = binary, folder
        self.sides = [Side(folder / "with"), Side(folder / "without")]
        self.mine, self.alone = self.sides

    # --- the stage

    def prepare(self):
        for act in (Side.start, lambda side: side.bed.wait_ready(), Side.fill, Side.wait_filled):
            for side in self.sides:
                act(side)
        version = self.mine.client.get("nodes", NODE)["status"]["nodeInfo"]["kubeletVersion"].removeprefix("v")
        fact("Cluster", f"{NODES} nodes with kubelet, containerd and containers, on this computer; Kubernetes {version}")
        fact("Settings", f"a node is given up after {FAST.grace} s without a sign of life (Kubernetes by default: 50 s), "
             f"its Lease lasts {FAST.lease} s (40 s), it tells its status every {FAST.status} s (10 s)")
        fact("Workload", f"StatefulSets {CORE} and {DATABASE}, 1 pod each, and Deployment {ENDPOINT}, 2 pods, "
             f"in {SPACE}, all on {NODE}, without volumes")
        self.start_engine()
        fact("Compare", "the same cluster without moonfence, shown after '|'")

    def start_engine(self):
        bed = self.mine.bed
        Workloads(self.mine.client, ACCOUNT).create_namespace()
        account = Account(bed, ACCOUNT, ACCOUNT).create(RULES)
        kubeconfig = bed.control_plane.token_kubeconfig(ACCOUNT, account.token(), ACCOUNT)
        health, self.records = free_port(), self.folder / "audit.jsonl"
        words = ["run", "--policy", str(POLICY.relative_to(REPO)), "--policy-namespace", SPACE, "--mode", "enforce"]
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        bed.processes.start("moonfence", [
            self.binary, *words[:2], POLICY, *words[3:], "--kubeconfig", kubeconfig, "--namespace", ACCOUNT,
            "--audit-log", self.records, "--metrics-bind-address", "0", "--status-bind-address", "0",
            "--health-probe-bind-address", f"127.0.0.1:{health}"], env)

        def ready():
            self.check_alive()
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5) as answer:
                return answer.status == 200
        wait_for("moonfence is ready", ready, 60)
        fact("moonfence", "moonfence " + " ".join(words))

    def check_alive(self):
        processes = self.mine.bed.processes
        if not processes.alive("moonfence"):
            raise RuntimeError("moonfence ended:\n" + processes.log_tail("moonfence"))

    # --- the play

    def play(self):
        say()
        self.alone.strike()  # no later than the other one
        self.zero, self.wall = time.monotonic(), time.time()
        self.mine.strike()
        self.line, self.told = Timeline(self.zero), {"records": 0}
        self.deleted, self.replaced = set(), set()
        self.line.add(self.zero, f"machine    {NODE}: power off, on both sides")
        over = False
        while not over:
            if time.monotonic() > self.zero + LIMIT:
                self.line.show()
                raise RuntimeError(f"the pods do not run elsewhere after {LIMIT} s:\n" +
                                   self.mine.bed.processes.log_tail("moonfence"))
            self.check_alive()
            over = self.is_over()
            self.see()
            self.line.show(until=time.monotonic() - SETTLED)
            time.sleep(0.05)
        self.line.show()
        self.sum_up()

    def is_over(self) -> bool:
        """moonfence has seen what replaces the pods that it deleted, and both sides know that the node is gone."""
        moved = len(self.replaced) == len(self.mine.running()) == PODS - 1
        return moved and all(side.not_ready for side in self.sides)

    def see(self):
        """What is new since the last look."""
        text = f"Kubernetes {NODE}: Ready is no longer True"
        if self.mine.not_ready:
            self.tell_once("mine", self.mine.not_ready, text)
        if self.alone.not_ready:
            self.tell_once("alone", self.alone.not_ready, f"{'':<{COLUMN}} | {text}")
        lines = whole_lines(self.records)
        for record in map(json.loads, lines[self.told["records"]:]):
            if told(record):
                at = datetime.fromisoformat(record["time"].replace("Z", "+00:00")).timestamp()
                self.line.add(at - self.wall + self.zero, f"moonfence  {told(record)}")
            if record["kind"] == "outcome" and record["reason"] == "done":
                self.deleted.add(record["pod_uid"])
            if record["kind"] == "replacement" and record["reason"] == "replacement_ready":
                self.replaced.add(record["pod_uid"])
        self.told["records"] = len(lines)
        for at, pod in self.mine.running():
            text = f"pod        {SPACE}/{pod['metadata']['name']} is Running on {pod['spec']['nodeName']}"
            self.tell_once(pod["metadata"]["uid"], at, f"{text:<{COLUMN}} | {self.state_alone(of(pod))}")

    def tell_once(self, key: str, at: float, text: str):
        if key not in self.told:
            self.told[key] = at
            self.line.add(at, text)

    def state_alone(self, workload: str) -> str:
        running = self.alone.running(workload)
        return f"on {running[0][1]['spec']['nodeName']}" if running else f"still on {NODE}"

    # --- the end

    def sum_up(self):
        say(f"\n{NODE} lost its power. Kubernetes called it not Ready {self.after(self.mine.not_ready)} later. "
            "Time from the failure until the pod runs again:\n")
        rows = [("pod", "with moonfence", "Kubernetes alone")]
        moved = {workload: self.mine.running(workload) for workload in (CORE, ENDPOINT)}
        for uid, pod in sorted(self.mine.old.items(), key=lambda each: each[1]["metadata"]["name"]):
            if uid in self.deleted:
                at, fresh = moved[of(pod)].pop(0)
                how = f"{self.after(at)}, on {fresh['spec']['nodeName']}"
            else:
                how = "left alone, as its policy says"
            rows.append((f"{SPACE}/{pod['metadata']['name']}", how, self.state_alone(of(pod))))
        widths = [max(len(row[column]) for row in rows) + 2 for column in (0, 1)]
        for name, mine, alone in rows:
            say(f"  {name:<{widths[0]}}{mine:<{widths[1]}}{alone}")
        seconds = self.alone.evicted_after()
        say()
        say(textwrap.fill(
            f"Kubernetes alone lets {seconds} s pass before it marks these pods for deletion (tolerationSeconds of the "
            f"taint {UNREACHABLE}). Then the Deployment gets others. Those of the StatefulSets stay Terminating, and none "
            f"comes in their place, until {NODE} is back or somebody deletes them by force.", 104))
        say(f"\nmoonfence deleted {len(self.deleted)} pods in 1 incident.")

    def after(self, at: float) -> str:
        return f"{at - self.zero:.1f} s"

    def end(self):
        for side in self.sides:
            if side.seen:
                side.seen.end()
            side.bed.down()


def interrupted(number, _frame):
    raise SystemExit(128 + number)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=REPO / "build" / "release" / "moonfence")
    parser.add_argument("--dir", type=Path, default=REPO / "build" / "demo", help="where its folder is made")
    arguments = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, interrupted)
    arguments.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=arguments.dir))
    demo, keep = Demo(arguments.binary.absolute(), folder), False
    try:
        say("\na node loses its power; pods of StatefulSets and of a Deployment ran on it\n")
        demo.prepare()
        demo.play()
        return 0
    except Unfit as unfit:
        for line in unfit.lines:
            print(f"demo: {line}", file=sys.stderr)
        return 1
    except (RuntimeError, TimeoutError, OSError, ApiError) as error:
        keep = True
        print(f"demo: {error}\ndemo: logs are in {folder}", file=sys.stderr)
        return 1
    finally:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts the cleaning up
        demo.end()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            say("\nEverything that was started has ended.")


if __name__ == "__main__":
    sys.exit(main())
