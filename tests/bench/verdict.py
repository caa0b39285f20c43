"""From Kubernetes' verdict on a node to the first DELETE of its pods, and what the engine holds afterwards, by size.

The verdict is there when the node is Unknown and carries its NoSchedule taint: when another client's watch shows both
(observer.py). The first DELETE is timed by its arrival at the API server, by the audit log. The node falls silent. Pods
without volumes are a Deployment's; pods with one each are a StatefulSet's, and their attachments are deleted too.
"""

import time
from dataclasses import dataclass

from .figures import Block, Table, with_range
from .loaded import Loaded
from .observer import Observer
from .stage import Pair, Stage
from .volumes import DELETE, wait_empty

TAINT = "node.kubernetes.io/unreachable"
QUIET = 10  # seconds after the last pod is gone until memory is read
LIMIT, MEMORY_LIMIT = 0.020, 64.0  # seconds, and MB after a thousand pods


def memory(pid: int, field: str) -> float:
    """MB."""
    with open(f"/proc/{pid}/status") as status:
        return float(next(line for line in status if line.startswith(field)).split()[1]) * 1024 / 1e6


@dataclass(frozen=True)
class Sample:
    first: float     # seconds from the verdict to the first DELETE
    last: float      # to the answer of the last one of a pod
    resident: float  # MB, when it is quiet again
    peak: float


def verdict_on(observer, node: str, since: float) -> float:
    """Seconds since the epoch."""
    epoch = time.time() - time.monotonic()
    seen = (e["at"] / 1e9 + epoch for e in observer.seen()
            if e["resource"] == "nodes" and e["name"] == node and e["ready"] != "True" and TAINT in e["taints"])
    return min(at for at in seen if at > since)


def sample_of(observer, audit, node: str, since: float, pid: int) -> Sample:
    time.sleep(QUIET)
    verdict = verdict_on(observer, node, since)
    deletes = audit.deletes(agent="moonfence", resource="pods")
    return Sample(min(e.received for e in deletes) - verdict, max(e.staged for e in deletes) - verdict,
                  memory(pid, "VmRSS"), memory(pid, "VmHWM"))


def plain(stage: Stage, observer, size: int, rounds: int) -> list:
    pair, found = Pair(stage, f"verdict-{size}", size), []
    for _ in range(rounds):
        with stage.engine(pair.namespace) as engine:
            audit, since = stage.audit(), time.time()
            stage.hollow.fail(pair.failing, "silent")
            pair.wait_fled()
            found.append(sample_of(observer, audit, pair.failing, since, engine.pid))
        pair.swap()
    pair.remove()
    return found


def with_volumes(stage: Stage, observer, size: int, rounds: int) -> list:
    loaded, found = Loaded(stage, f"verdict-volumes-{size}", size), []
    for turn in range(rounds):
        pods = {p["metadata"]["uid"] for p in loaded.pods()}
        engine = loaded.engine(DELETE)
        try:
            audit, since = stage.audit(), time.time()
            loaded.fail()
            wait_empty(loaded, pods)
            found.append(sample_of(observer, audit, loaded.node, since, engine.pid))
        finally:
            engine.end()
        if turn + 1 < rounds:
            loaded.heal()
    loaded.remove()
    return found


def measure(stage: Stage, sizes: tuple = (1, 100, 400, 1000), rounds: int = 3) -> Block:
    print("\nFrom the verdict to the first DELETE", flush=True)
    found, observer = {}, Observer(stage.control_plane, only=("nodes",))
    for name, take in (("without volumes", plain), ("with a volume each", with_volumes)):
        for size in sizes:
            found[f"{size} pods {name}"] = samples = take(stage, observer, size, rounds)
            for s in samples:
                print(f"  {size} pods {name}: first {s.first:.4f}, last {s.last:.3f} s, {s.resident:.1f} MB, at most {s.peak:.1f}",
                      flush=True)
    observer.end()
    return block(found)


def block(found: dict) -> Block:
    rows = [[name, with_range([1000 * s.first for s in samples], 1), with_range([s.last for s in samples], 2),
             with_range([s.resident for s in samples], 1), with_range([s.peak for s in samples], 1)]
            for name, samples in found.items()]
    table = Table(["", "to the first DELETE, ms", "to the last answer, s", "resident, MB", "peak, MB"], rows)
    how = ("From the moment at which the watch of another client shows the node Unknown and tainted, with which Kubernetes' verdict on it "
           "is complete, to the arrival of the first DELETE of a pod and to the answer of the last, by the API server's audit log; and "
           f"the engine's memory {QUIET} s after the last pod was gone. Median and range.")
    return Block(how, [table], [f"Goals: {1000 * LIMIT:g} ms at any size, {MEMORY_LIMIT:g} MB after 1,000 pods."],
                 {name: [[s.first, s.last, s.resident, s.peak] for s in samples] for name, samples in found.items()})
