"""From the bytes of the event that shows a node NotReady and tainted to the bytes of the first DELETE.

Told apart by who speaks when, on the engine's own connections to the API server (packets.py):

    watch connection   ◀── event
    connection A       ──▶ GET pods of the node       ◀── the list
    connection B       ──▶ GET node                   ◀── the node
    connection C       ──▶ GET its Lease              ◀── the Lease
    A, B or C          ──▶ POST the incident's record ◀── it stands
    A, B or C          ──▶ DELETE first pod

The engine may need the list, the record and 1.5 ms. A sample in which something else happened on these connections (a
heartbeat, a second event) does not have this shape; it is counted and left out.
"""

from dataclasses import dataclass

from .figures import Block, Table, spread
from .packets import Capture, ports_of
from .stage import Pair, Stage

LIMIT = 0.0015  # seconds beside list and record


@dataclass(frozen=True)
class Sample:
    """Seconds."""
    reaction: float  # event → first DELETE
    pod_list: float  # list request → last byte of the list
    record: float    # the record's request → its answer

    @property
    def own(self) -> float:
        return self.reaction - self.pod_list - self.record


def requests_among(segments: list, server: int) -> list:
    """The first segment of each: what follows on a connection before the server has answered belongs to it."""
    begun, open_on = [], set()
    for segment in segments:
        if segment.source == server:
            open_on.discard(segment.target)
        elif segment.source not in open_on:
            open_on.add(segment.source)
            begun.append(segment)
    return begun


def read_sample(segments: list, server: int) -> "Sample | None":
    asked = {s.source for s in segments if s.target == server}
    events = [s.at for s in segments if s.source == server and s.target not in asked]
    requests = requests_among(segments, server)
    if not events or len(requests) < 5:
        return None
    pod_list, node, lease, record, delete = requests[:5]
    before = [at for at in events if at <= pod_list.at]
    if not before or len({pod_list.source, node.source, lease.source}) < 3 or lease.at - before[-1] > 5_000_000:
        return None

    def answered(request, until) -> list:
        return [s.at for s in segments if s.source == server and s.target == request.source and request.at < s.at < until.at]

    of_list, of_record = answered(pod_list, record), answered(record, delete)
    if not of_list or not of_record or not answered(node, record) or not answered(lease, record):
        return None
    return Sample((delete.at - before[-1]) / 1e9, (of_list[-1] - pod_list.at) / 1e9, (of_record[-1] - record.at) / 1e9)


def measure(stage: Stage, samples: int = 100, pods: int = 10) -> Block:
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
    parts = {"event → first DELETE": "reaction", "the pod list within it": "pod_list", "the record within it": "record",
             "the rest": "own"}
    rows = [[name, *[f"{1000 * v:.2f}" for v in spread([getattr(s, part) for s in taken])]] for name, part in parts.items()]
    within = sum(s.own <= LIMIT for s in taken)
    how = ("From the bytes of the watch event that shows the node NotReady and tainted to the bytes of the first DELETE, "
           f"{pods} pods on the "
           f"node, read from packets on loopback: {len(taken)} samples, {odd} of another shape left out.")
    return Block(how, [Table(["milliseconds", "p50", "p90", "p99", "max"], rows)],
                 [f"Goal: a rest of at most {1000 * LIMIT:g} ms; {within} of {len(taken)} samples reach it."],
                 {part: [getattr(s, part) for s in taken] for part in parts.values()})
