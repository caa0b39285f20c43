"""From the bytes of the event that shows a node NotReady and tainted to the bytes of the first DELETE.

Told apart by who speaks when, on the engine's own connections to the API server (packets.py):

    watch connection   ◀── event
    connection A       ──▶ GET pods of the node       ◀── the list
    connection B       ──▶ GET node                   ◀── the node
    connection C       ──▶ GET its Lease              ◀── the Lease
    A, B or C          ──▶ DELETE first pod

The engine may need the list and 1.5 ms. A sample in which something else happened on these connections (a
heartbeat, a second event) does not have this shape; it is counted and left out.
"""

from dataclasses import dataclass
from statistics import quantiles

from .packets import Capture, ports_of
from .stage import Pair, Stage


@dataclass(frozen=True)
class Sample:
    """Seconds."""
    reaction: float  # event → first DELETE
    pod_list: float  # list request → last byte of the list

    @property
    def own(self) -> float:
        return self.reaction - self.pod_list


def read_sample(segments: list, server: int) -> "Sample | None":
    asked = {s.source for s in segments if s.target == server}
    events = [s.at for s in segments if s.source == server and s.target not in asked]
    requests = [s for s in segments if s.target == server]
    if not events or len(requests) < 4:
        return None
    pod_list, node, lease = requests[:3]
    before = [at for at in events if at <= pod_list.at]
    if not before or len({pod_list.source, node.source, lease.source}) < 3 or lease.at - before[-1] > 5_000_000:
        return None
    delete = requests[3]
    answers = [s for s in segments if s.source == server and s.at < delete.at]
    of_list = [s.at for s in answers if s.target == pod_list.source and s.at > pod_list.at]
    of_node = [s.at for s in answers if s.target == node.source and s.at > node.at]
    of_lease = [s.at for s in answers if s.target == lease.source and s.at > lease.at]
    if not of_list or not of_node or not of_lease:
        return None
    return Sample((delete.at - before[-1]) / 1e9, (of_list[-1] - pod_list.at) / 1e9)


def spread(values: list) -> str:
    """p50, p90, p99 and the largest, in milliseconds."""
    cuts = quantiles(values, n=100, method="inclusive")
    return "  ".join(f"{1000 * v:7.2f}" for v in (cuts[49], cuts[89], cuts[98], max(values)))


def measure(stage: Stage, samples: int = 100, pods: int = 10) -> dict:
    pair = Pair(stage, "reaction", pods)
    server = int(stage.control_plane.server.rpartition(":")[2])
    taken, odd = [], 0
    capture = Capture(server)
    try:
        with stage.engine(pair.namespace) as engine:
            while len(taken) < samples and odd < samples:
                capture.take()
                stage.hollow.fail(pair.failing, "notready")
                pair.wait_all_on(pair.refuge)
                own = ports_of(engine.pid, server)
                sample = read_sample([s for s in capture.take() if {s.source, s.target} & own], server)
                if sample:
                    taken.append(sample)
                else:
                    odd += 1
                pair.swap()
    finally:
        capture.close()
    if len(taken) < 2:
        raise RuntimeError(f"{odd} samples had another shape; is something else talking on these connections?")
    print(f"\nReaction to a failed node with {pods} pods: {len(taken)} samples, {odd} of another shape left out")
    print("milliseconds                              p50      p90      p99      max")
    print(f"event → first DELETE              {spread([s.reaction for s in taken])}")
    print(f"the pod list within it            {spread([s.pod_list for s in taken])}")
    print(f"the rest (may be 1.5)             {spread([s.own for s in taken])}", flush=True)
    within = sum(s.own <= 0.0015 for s in taken)
    print(f"within the list plus 1.5 ms: {within} of {len(taken)}")
    return {"samples": len(taken), "within": within, "own": [s.own for s in taken]}
