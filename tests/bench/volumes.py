"""What the volumes of a failed node's pods cost: the reads that policies need, and deleting all of it.

needs      250 pods with 3 volumes each, judged by a policy that skips them: the calls of the pass are counted in the API
           server's audit log.
volumes    400 pods with a volume each: pods and attachments are deleted until none is left. Beside it a bare parallel
           client (curl) sends the same deletions, the pods' before the attachments'; the two take turns in one run, and the
           medians and their ratio are what counts. All is timed by the API server's audit log. "Gone" is when the stand-in
           attacher has taken its finalizer off the last attachment.
"""

from collections import Counter
from dataclasses import dataclass
from statistics import median

from e2e.kube import wait_for

from .bare import BareClient, deletion, pod_deletions
from .figures import Block, Table, with_range
from .loaded import Loaded
from .stage import Stage

AGENT = "raw-volumes"
WIDTH = 128
SKIP = 'fence.skip("a measurement")'
DELETE = 'fence.delete_pod_and_attachments("a measurement")'
LIMIT = 2.0  # seconds that 400 pods and their attachments may take
VERBS = {"get": "single reads of", "list": "lists of", "patch": "patches of", "delete": "deletions of",
         "create": "creations of", "watch": "watches of", "update": "updates of"}


def table_of(calls: list, title: str = "") -> Table:
    rows = [[f"{VERBS.get(verb, verb)} {resource}", count] for (verb, resource), count in sorted(
        Counter((e.verb, e.resource) for e in calls).items())]
    return Table(["calls", "count"], [*rows, ["all", len(calls)]], title)


# --- needs

def needs(stage: Stage, pods: int = 250, each: int = 3) -> Block:
    loaded = Loaded(stage, "needs", pods, each)
    engine = loaded.engine(SKIP)
    try:
        audit = stage.audit()
        loaded.fail()
        wait_for("all pods are judged", lambda: sum(r["kind"] == "verdict" for r in engine.records()) >= pods, 180)
        memory = resident_peak(engine.pid)
    finally:
        engine.end()
    wanted = {"pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments"}
    calls = [e for e in audit.find(agent="moonfence", verb="get,list") if e.resource in wanted]
    took = max(e.staged for e in calls) - min(e.received for e in calls)
    how = (f"What {pods} pods of one node with {each} volumes each cost a policy that needs their volumes and skips them, by the API "
           "server's audit log.")
    results = [f"{len(calls)} calls for {pods * each} volumes, {took:.3f} s from the first request received to the last answered; the "
               f"engine's resident memory was {memory * 1024 / 1e6:.1f} MB at most."]
    return Block(how, [table_of(calls)], results, {"calls": dict(Counter(f"{e.verb} {e.resource}" for e in calls)), "took": took})


def resident_peak(pid: int) -> float:
    """KiB."""
    with open(f"/proc/{pid}/status") as status:
        return float(next(line for line in status if line.startswith("VmHWM")).split()[1])


# --- volumes

@dataclass(frozen=True)
class Span:
    """Seconds."""
    read: float      # from the first request for the node's pods to the first deletion; 0 without one
    pods: float      # from the first deletion to the last pod's answer
    gone: float      # from the first deletion to the last attachment's end
    whole: float     # from the first request to the last attachment's end

    def text(self) -> str:
        return (f"reads {self.read:6.3f}   first deletion to last pod {self.pods:6.3f}   to last attachment {self.gone:6.3f}   "
                f"in all {self.whole:6.3f}")


def span(loaded: Loaded, audit, agent: str, pods: set, attachments: set) -> Span:
    of_pods = [e for e in audit.deletes(agent=agent, resource="pods") if e.name in pods and e.status < 300]
    of_attachments = [e for e in audit.deletes(agent=agent, resource="volumeattachments") if e.name in attachments]
    if len({e.name for e in of_pods}) < len(pods):
        raise RuntimeError(f"{len(of_pods)} pods were deleted instead of {len(pods)}")
    first = min(e.received for e in of_pods)
    ends = [e.staged for e in audit.find(by="hollow-attacher", verb="patch", resource="volumeattachments")
            if e.name in attachments and e.staged > first and e.status < 300]
    reads = [e.received for e in audit.find(agent=agent, verb="list", resource="pods") if e.received <= first]
    begin, last = min([*reads, first]), max([*ends, *(e.staged for e in of_attachments)])
    return Span(first - begin, max(e.staged for e in of_pods) - first, last - first, last - begin)


def wait_empty(loaded: Loaded, pods: set):
    """Of the pods and attachments that were there; replacements wait for the node."""
    wait_for("all is gone", lambda: not loaded.attachments() and not pods & {
        p["metadata"]["uid"] for p in loaded.stage.client.list("pods", loaded.name)}, 120, every=0.2)


def names(items: list) -> set:
    return {item["metadata"]["name"] for item in items}


def raw(loaded: Loaded, token: str) -> Span:
    pods, attachments = loaded.pods(), loaded.attachments()
    audit = loaded.stage.audit()
    loaded.fail()
    loaded.wait_down()
    calls = pod_deletions(pods) + [deletion("volumeattachments", a) for a in attachments]
    client = BareClient(loaded.stage, AGENT, calls, WIDTH, token=token)
    try:
        client.go()
    finally:
        client.close()
    wait_empty(loaded, {p["metadata"]["uid"] for p in pods})
    found = span(loaded, audit, AGENT, names(pods), names(attachments))
    loaded.heal()
    return found


def fenced(loaded: Loaded) -> tuple:
    """What it took, and the calls that it made."""
    pods, attachments = loaded.pods(), loaded.attachments()
    engine = loaded.engine(DELETE)
    try:
        audit = loaded.stage.audit()
        loaded.fail()
        wait_empty(loaded, {p["metadata"]["uid"] for p in pods})
    finally:
        engine.end()
    found = span(loaded, audit, "moonfence", names(pods), names(attachments))
    calls = [e for e in audit.find(agent="moonfence", verb="get,list,delete,patch,create")
             if e.resource in ("pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments", "configmaps", "nodes")]
    loaded.heal()
    return found, calls


def measure(stage: Stage, pods: int = 400, rounds: int = 3) -> Block:
    loaded = Loaded(stage, "volumes", pods)
    token = loaded.account.token()
    print(f"\nDeleting {pods} pods of one node and their {pods} attachments, seconds", flush=True)
    ours, bare, calls = [], [], []
    for _ in range(rounds):
        found, calls = fenced(loaded)
        ours.append(found)
        print(f"  moonfence    {found.text()}", flush=True)
        bare.append(raw(loaded, token))
        print(f"  bare client  {bare[-1].text()}", flush=True)
    mine, theirs = ([s.whole for s in spans] for spans in (ours, bare))
    first = [[s.gone for s in spans] for spans in (ours, bare)]
    rows = [["first read to the last attachment's end", with_range(mine), with_range(theirs), f"{median(mine) / median(theirs):.2f}"],
            ["first deletion to the last attachment's end", *map(with_range, first), f"{median(first[0]) / median(first[1]):.2f}"]]
    how = (f"{pods} pods of one node and their {pods} attachments are deleted until none is left, beside a bare client that "
           "sends the same deletions "
           f"({WIDTH} at once, no reads, connections open), in turns, by the API server's audit log; seconds, median and "
           "range. Gone is when the "
           "stand-in attacher has taken its finalizer off.")
    tables = [Table(["seconds", "moonfence", "bare client", "ratio"], rows), table_of(calls, "The engine's calls in its last round")]
    return Block(how, tables, [f"Goal: at most 1.3 × the ceiling of the same number of calls, at most {LIMIT:g} s."],
                 {"ours": mine, "bare": theirs, "gone": first})
