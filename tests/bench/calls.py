"""What an incident costs the API server in calls, counted by its audit log, at three sizes, with and without volumes.

Not counted are what runs all the time whether a node fails or not: watches, the heartbeat (not audited) and the
engine's own Lease. An incident is counted until its last look at what it deleted.
"""

import time
from collections import Counter

from e2e.kube import wait_for

from .figures import Block, Table, growth
from .loaded import Loaded
from .stage import Pair, Stage
from .volumes import DELETE

LOOKS = 22  # seconds that an incident goes on looking after its last deletion (docs/life-of-an-incident.md), and some


def counted(entries: list) -> Counter:
    return Counter(f"{e.verb} {e.resource}" for e in entries if e.verb != "watch" and e.resource != "leases"
                   or e.namespace == "kube-node-lease")


def settle(engine_audit, seconds: float = LOOKS) -> Counter:
    """Of the engine since the mark, once it has asked for nothing new for some seconds."""
    time.sleep(seconds)
    return counted(engine_audit.find(agent="moonfence"))


def without_volumes(stage: Stage, size: int) -> Counter:
    pair = Pair(stage, f"calls-{size}", size)
    with stage.engine(pair.namespace):
        audit = stage.audit()
        pair.fail()
        pair.wait_fled()
        calls = settle(audit)
    pair.swap()
    pair.remove()
    return calls


def with_volumes(stage: Stage, size: int) -> Counter:
    loaded = Loaded(stage, f"calls-volumes-{size}", size)
    pods = {p["metadata"]["uid"] for p in loaded.pods()}
    engine = loaded.engine(DELETE)
    try:
        audit = stage.audit()
        loaded.fail()
        wait_for("all is gone", lambda: not loaded.attachments() and not pods & {
            p["metadata"]["uid"] for p in stage.client.list("pods", loaded.name)}, 180, every=0.5)
        calls = settle(audit)
    finally:
        engine.end()
    loaded.remove()
    return calls


def measure(stage: Stage, sizes: tuple = (10, 100, 400)) -> Block:
    print("\nAPI calls of an incident", flush=True)
    found = {}
    for name, count in (("without volumes", without_volumes), ("with a volume each", with_volumes)):
        for size in sizes:
            found[name, size] = count(stage, size)
            print(f"  {size} pods {name}: {sum(found[name, size].values())} calls", flush=True)
    return block(found, sizes)


def block(found: dict, sizes: tuple) -> Block:
    tables = []
    for name in dict.fromkeys(name for name, _ in found):
        kinds = sorted({kind for (n, _), calls in found.items() if n == name for kind in calls})
        rows = [[kind, *[found[name, s][kind] for s in sizes]] for kind in kinds]
        totals = [sum(found[name, s].values()) for s in sizes]
        rows += [["all", *totals], ["for each pod", *[f"{t / s:.2f}" for t, s in zip(totals, sizes)]]]
        tables.append(Table(["calls", *[f"{s} pods" for s in sizes]], rows, f"Pods {name} ({growth(sizes, totals)})"))
    how = ("Calls of the engine from the failure of a node to the end of its incident, counted in the API server's audit "
           "log. Watches, "
           "heartbeats and the engine's own Lease, which go on without an incident, are left out.")
    return Block(how, tables, [], {f"{name}, {s} pods": dict(calls) for (name, s), calls in found.items()})
