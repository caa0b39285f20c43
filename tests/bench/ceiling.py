"""Deleting every pod of a node, and of many nodes at once, against the API server's own ceiling.

The ceiling is a bare parallel client (bare.py) with the same DELETE requests: grace 0, UID preconditions, the engine's
token; once with connections that are open already and once with such that it has to open. All start when the nodes are
NotReady and tainted, and are timed by the API server's audit log: from the first request received to the last one
answered. They take turns in one run.
"""

import math
from statistics import median

from e2e.kube import wait_for

from .bare import BareClient, pod_deletions
from .figures import Block, Table, growth, with_range
from .stage import UNBRAKED, Pair, Stage
from .storm import Storm

WIDTHS = (32, 64, 128, 200)  # as many writes does a server without priority and fairness take
AGENT = "raw-ceiling"
MARKER = "system:serviceaccount:kube-system:node-controller"  # who sets the taint
TAINT = ("node.kubernetes.io/not-ready", "NoSchedule")
LIMIT, SERIAL_LIMIT = 1.15, 2.0  # of the ceiling at most; and so much faster than one after another
TUNED_WITH = 400


def span(entries: list, count: int) -> float:
    if len(entries) != count:
        raise RuntimeError(f"{len(entries)} deletions in the audit log instead of {count}")
    return max(e.staged for e in entries) - min(e.received for e in entries)


def raw(stage: Stage, pair, width: int, protocol: str = "1.1", warm: bool = True) -> float:
    """`pair` is a Pair or a Storm."""
    pods = pair.doomed_pods()
    client = BareClient(stage, AGENT, pod_deletions(pods), width, protocol, warm)
    try:
        audit = stage.audit()
        pair.fail()
        wait_for("the taints", lambda: pair.tainted(TAINT), 60, every=0.005)
        client.go()
    finally:
        client.close()
    took = span(audit.deletes(agent=AGENT, resource="pods"), len(pods))
    pair.swap()
    return took


def fenced(stage: Stage, pair) -> tuple:
    """Seconds from the first deletion, and from the last node's taint, to the last deletion's answer."""
    count = len(pair.doomed_pods())
    with stage.engine(pair.namespace):
        audit = stage.audit()
        pair.fail()
        pair.wait_fled()
        deletes = audit.deletes(agent="moonfence", resource="pods")
    took = span(deletes, count)
    first: dict = {}  # what the node controller wrote to each first: the taint that the engine waits for
    for entry in audit.find(verb="patch,update", resource="nodes", by=MARKER):
        if entry.name in pair.failing_nodes():
            first.setdefault(entry.name, entry.staged)
    since_taint = max(d.staged for d in deletes) - max(first.values()) if first else math.nan
    pair.swap()
    return took, since_taint


class Trial:
    """Turns of the engine, of the bare client, and of the bare client with one call after another."""

    def __init__(self, stage: Stage, pair, rounds: int, way: tuple):
        self.ours, self.since_taint, self.bare, self.cold, self.serial = [], [], [], [], []
        for _ in range(rounds):
            took, since_taint = fenced(stage, pair)
            self.ours.append(took)
            self.since_taint.append(since_taint)
            self.bare.append(raw(stage, pair, *way))
            self.cold.append(raw(stage, pair, *way, warm=False))
            self.serial.append(raw(stage, pair, 1))
            print(f"    moonfence {self.ours[-1]:7.4f}   bare client {self.bare[-1]:7.4f}   cold {self.cold[-1]:7.4f}   "
                  f"one after another {self.serial[-1]:7.4f}", flush=True)

    def ratio(self, to: str) -> float:
        return median(self.ours) / median(getattr(self, to))

    def row(self, what: str) -> list:
        took = (self.ours, self.since_taint, self.bare, self.cold, self.serial)
        return [what, *map(with_range, took), f"{self.ratio('bare'):.2f}", f"{self.ratio('cold'):.2f}",
                f"{1 / self.ratio('serial'):.2f}"]

    def figures(self) -> dict:
        return {"ours": self.ours, "bare": self.bare, "cold": self.cold, "serial": self.serial, "since_taint": self.since_taint}


def tune(stage: Stage, pods: int) -> tuple:
    """The width and protocol with which the bare client is fastest."""
    pair = Pair(stage, "tune", pods)
    found = {}
    for way in [(width, protocol) for protocol in ("1.1", "2") for width in WIDTHS]:
        found[way] = median(raw(stage, pair, *way) for _ in range(2))
        print(f"    bare client, {way[0]:3} at once, HTTP/{way[1]:3} {found[way]:7.4f}", flush=True)
    pair.remove()
    return min(found, key=found.get), found


def measure(stage: Stage, sizes: tuple = (1, 10, 100, 400, 1000), rounds: int = 3, nodes: tuple = (50, 10, 120)) -> Block:
    print("\nDeleting all pods of one node", flush=True)
    best, tuned = tune(stage, min(TUNED_WITH, max(sizes)))
    trials = {}
    for size in sizes:
        pair = Pair(stage, f"ceiling-{size}", size)
        print(f"  {size} pods", flush=True)
        trials[size] = Trial(stage, pair, rounds * max(1, min(3, 100 // size)), best)
        pair.remove()
    failing, each, crowd = nodes
    print(f"  {failing} nodes of {crowd} with {each} pods each", flush=True)
    storm = Storm(stage, "storm", failing, each, crowd)
    stormy = Trial(stage, storm, rounds, best)
    storm.remove()
    return block(trials, stormy, nodes, best, tuned)


def block(trials: dict, stormy: Trial, nodes: tuple, best: tuple, tuned: dict) -> Block:
    failing, each, crowd = nodes
    rows = [t.row(f"{size} pods of one node") for size, t in trials.items()]
    rows.append(stormy.row(f"{failing} nodes × {each} pods, of {crowd} nodes"))
    table = Table(["seconds", "moonfence", "from the taint", "bare client", "its connections cold", "one after another",
                   "ratio to the bare client", "to the cold one", "times faster than one after another"], rows)
    sizes = sorted(trials)
    medians = {name: [median(getattr(trials[s], name)) for s in sizes] for name in ("ours", "bare", "serial")}
    results = [
        f"The bare client: {best[0]} at once over HTTP/{best[1]}, the fastest of {len(tuned)} ways (seconds, mean of two): "
        + ", ".join(f"{width} over HTTP/{protocol} {took:.3f}" for (width, protocol), took in tuned.items()) + ".",
        f"Growth with the number of pods: moonfence {growth(sizes, medians['ours'])}; bare client "
        f"{growth(sizes, medians['bare'])}.",
        f"{failing} nodes at once: {with_range(stormy.since_taint)} s from the last of them being tainted to the last answer."]
    if 400 in trials:
        results.append(f"Goal at 400 pods: at most {LIMIT} × the ceiling, at least {SERIAL_LIMIT:g} × faster than one "
                       f"after another; measured {trials[400].ratio('bare'):.2f} and "
                       f"{1 / trials[400].ratio('serial'):.2f}.")
    how = ("Seconds from the first DELETE received to the last one answered, by the API server's audit log; median and range, in "
           "turns; of moonfence also from the last node's taint, which it waits for, and after which it reads, decides, records and "
           "opens connections. The bare client sends the same DELETEs over connections that are open and warm, or opens them "
           "meanwhile (cold). The replacements are made, "
           "scheduled and started meanwhile, on the same cores, in all cases. "
           f"Limits of the brake: `{UNBRAKED}`.")
    return Block(how, [table], results, {
        "sizes": sizes, "trials": {str(s): t.figures() for s, t in trials.items()}, "storm": stormy.figures(),
        "nodes": list(nodes), "best": list(best), "ways": [[*way, took] for way, took in tuned.items()]})
