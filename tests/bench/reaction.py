"""From the bytes of the event that shows a node NotReady and tainted to the bytes of the first DELETE.

Told apart by who speaks when, on the engine's own connections to the API server (packets.py). Each ──▶ is the first
segment of a request, on a connection of its own. A node that was cordoned before it failed needs no taint: the event
that shows it NotReady begins everything, and nothing was ready:

    watch connection   ◀── event
    connections        ──▶ GET pods, GET node, GET its Lease  ◀── the answers
    one of them        ──▶ POST the incident's record         ◀── it stands
    some of them       ──▶ DELETE pods

Otherwise the taint comes some milliseconds later, and meanwhile lists, needs and record are made ready (fence/incident/plan_ahead):

    watch connection   ◀── event: NotReady
    connections        ──▶ GET pods, GET node, GET its Lease  ◀── the answers
    one of them        ──▶ POST the incident's record         ◀── it stands
    watch connection   ◀── event: tainted
    connections        ──▶ GET node, GET its Lease            ◀── the node and the Lease
    some of them       ──▶ DELETE pods, GET pods

Not ready it may need the list, the record and 1.5 ms; ready, the node and 1 ms. The controllers are stopped for a
quarter of a second then: left alone they are sometimes as fast as the making ready is, and then it is a mixture of both.
A sample in which something else happened on these connections (a heartbeat, a second event) does not have this shape;
it is counted and left out.
"""

import time
from contextlib import nullcontext
from dataclasses import dataclass

from .figures import Block, Table, spread
from .packets import Capture, ports_of
from .stage import Pair, Stage

LIMITS = {"cordoned": 0.0015, "ahead": 0.001}  # seconds beside what it has to wait for
HEADSTART = 0.25  # seconds from the event to the taint that is long enough to make all ready
TOGETHER = 5_000_000  # nanoseconds from an event to the last of the requests that it begins
STILL = 1.0  # seconds in which the measurement itself asks nobody for anything: what it asks for takes a core


@dataclass(frozen=True)
class Sample:
    """Seconds."""
    reaction: float       # event → first DELETE
    parts: dict           # what of it was waiting for the API server, by name
    first: float          # event → first request
    beyond: float         # what was asked for beside the first of the parts and answered after it: after it so long

    @property
    def own(self) -> float:
        return self.reaction - sum(self.parts.values())

    @property
    def rows(self) -> dict:
        return {"event → first DELETE": self.reaction, **self.parts, "the rest": self.own,
                "the rest until the first request": self.first, "the rest after that": self.own - self.first,
                "of that waiting for the other reads": self.beyond}


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


class Reading:
    def __init__(self, segments: list, server: int):
        self.segments, self.server = segments, server
        asked = {s.source for s in segments if s.target == server}
        self.events = [s.at for s in segments if s.source == server and s.target not in asked]
        self.requests = requests_among(segments, server)

    def took(self, request, until) -> "float | None":
        """Seconds from the request to its last byte before that segment."""
        answer = [s.at for s in self.segments
                  if s.source == self.server and s.target == request.source and request.at < s.at < until.at]
        return (answer[-1] - request.at) / 1e9 if answer else None

    def beyond(self, first, others: list, until) -> "float | None":
        """Seconds from the first request's last byte to that of the last of the others, which were asked for beside it."""
        took = [self.took(request, until) for request in (first, *others)]
        if None in took:
            return None
        ended = [request.at / 1e9 + seconds for request, seconds in zip((first, *others), took)]
        return max(0.0, max(ended[1:]) - ended[0])

    def event_before(self, group: list) -> "int | None":
        """The event that began these requests."""
        before = [at for at in self.events if at <= group[0].at]
        if len({request.source for request in group}) < len(group) or not before or group[-1].at - before[-1] > TOGETHER:
            return None
        return before[-1]

    def cordoned(self) -> "Sample | None":
        if len(self.requests) < 5:
            return None
        pod_list, node, lease, record, delete = self.requests[:5]
        event = self.event_before([pod_list, node, lease])
        parts = {"the pod list within it": self.took(pod_list, record), "the record within it": self.took(record, delete)}
        beyond = self.beyond(pod_list, [node, lease], record)
        if event is None or None in (*parts.values(), beyond):
            return None
        return Sample((delete.at - event) / 1e9, parts, (pod_list.at - event) / 1e9, beyond)

    def ahead(self) -> "Sample | None":
        made_ready, first = self.requests[:4], self.event_before(self.requests[:3])
        if len(made_ready) < 4 or first is None:
            return None
        event = next((at for at in self.events if at - made_ready[0].at > HEADSTART * 5e8), None)
        since = [request for request in self.requests if event is not None and request.at > event]
        if len(since) < 3 or self.event_before(since[:2]) != event:
            return None
        node, lease, delete = since[:3]
        parts = {"the node within it": self.took(node, delete)}
        beyond = self.beyond(node, [lease], delete)
        if None in (*parts.values(), self.took(made_ready[3], since[0]), beyond):
            return None
        return Sample((delete.at - event) / 1e9, parts, (node.at - event) / 1e9, beyond)


def take(stage: Stage, samples: int, pods: int) -> tuple:
    """Samples by kind and whether the engine had a core for itself, in turns, and how many had another shape."""
    pair = Pair(stage, f"reaction-{pods}", pods)
    server = int(stage.control_plane.server.rpartition(":")[2])
    taken, odd = {(kind, apart): [] for apart in (False, True) for kind in LIMITS}, 0
    capture = Capture(server)
    try:
        with stage.engine(pair.namespace) as engine:
            while min(map(len, taken.values())) < samples and odd < 4 * samples:
                for (kind, apart), found in taken.items():
                    with stage.apart(engine) if apart else nullcontext():
                        sample = take_one(stage, pair, capture, engine, server, kind)
                    if sample:
                        found.append(sample)
                    else:
                        odd += 1
    finally:
        capture.close()
    pair.remove()
    if min(map(len, taken.values())) < 2:
        raise RuntimeError(f"{odd} samples had another shape; is something else talking on these connections?")
    return taken, odd


def take_one(stage: Stage, pair: Pair, capture: Capture, engine, server: int, kind: str) -> "Sample | None":
    if kind == "cordoned":
        pair.cordon(pair.failing, True)
    capture.discard()
    with stage.slow_controllers(HEADSTART) if kind == "ahead" else nullcontext():
        stage.hollow.fail(pair.failing, "notready")
    time.sleep(STILL)
    pair.wait_all_on(pair.refuge)
    own = ports_of(engine.pid, server)
    reading = Reading([s for s in capture.take() if {s.source, s.target} & own], server)
    pair.cordon(pair.failing, False)
    pair.swap()
    return getattr(reading, kind)()


TITLES = {"cordoned": "{} pods, nothing ready", "ahead": "{} pods, made ready while the taint was awaited"}
APART = ", the engine with a core of its own"


def measure(stage: Stage, samples: int = 100, sizes: tuple = (10, 100)) -> Block:
    tables, notes, kept = [], [], {}
    for pods in sizes:
        taken, odd = take(stage, samples, pods)
        for (kind, apart), found in taken.items():
            title = TITLES[kind].format(pods) + APART * apart
            rows = {name: [s.rows[name] for s in found] for name in found[0].rows}
            tables.append(Table(["milliseconds", "p50", "p90", "p99", "max"], [
                [name, *[f"{1000 * v:.2f}" for v in spread(values)]] for name, values in rows.items()],
                title=title))
            within = sum(s.own <= LIMITS[kind] for s in found)
            notes.append(f"{title}: goal a rest of at most {1000 * LIMITS[kind]:g} ms; {within} of "
                         f"{len(found)} samples reach it.")
            kept[f"{kind}/{pods}" + "/apart" * apart] = [[s.reaction, s.own] for s in found]
        notes.append(f"{pods} pods: {odd} samples of another shape left out.")
    how = ("From the bytes of the watch event that shows the node NotReady and tainted to the bytes of the first DELETE, read "
           "from packets on loopback, in turns. Nothing is ready where the node was cordoned before it failed: no taint has to "
           "be awaited then. Where it is, the controllers are stopped until 0.25 s after the node failed. The other reads are those "
           "of the node and its Lease beside the list, or of the Lease beside the node: no deletion goes without them. With a core of its own "
           "the engine waits for nobody but the API server; all else that runs shares the other then, and is slower.")
    return Block(how, tables, notes, kept)
