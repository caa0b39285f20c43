"""Traces of incidents (docs/traces.md) at a collector that others wrote: they say what the engine's audit and the API server say."""

import hashlib
import threading
from collections import Counter
from datetime import datetime

import pytest

from .collector import Collector
from .faults import metric, wait_closed
from .kube import wait_for
from .proxy_rules import Call, Hold
from .test_leadership import TERM, holds_lease, lease  # noqa: F401: a fixture

ERROR = 2
CLIENT = 3


@pytest.fixture
def collector(tmp_path):
    """collector(**arguments): one that does not run yet."""
    made = []

    def make(**arguments) -> Collector:
        made.append(Collector(tmp_path / f"collector-{len(made)}", **arguments))
        return made[-1]
    yield make
    for each in made:
        each.stop()


def microseconds(record: dict) -> int:
    since = datetime.fromisoformat(record["time"].replace("Z", "+00:00")) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


class Scrape:
    """What an engine's metrics were at one moment, for metric()."""

    def __init__(self, engine):
        self.text = engine.metrics()

    def metrics(self) -> str:
        return self.text


def of_kind(records: list, kind: str) -> list:
    return [each for each in records if each["kind"] == kind]


def calls_by(records: list) -> Counter:
    """{(action, pod's UID, began, ended, what came of it): how many} by the audit's lines."""
    begun, found = {}, Counter()
    for each in records:
        about = (each.get("action"), each.get("pod_uid"), each.get("attachment"))
        if each["kind"] == "intent":
            begun[about] = microseconds(each)
        elif each["kind"] == "outcome" and about in begun:
            found[(each["action"], each.get("pod_uid"), begun.pop(about), microseconds(each), each["reason"])] += 1
    return found


def calls_in(spans: list) -> Counter:
    return Counter((s.name, s.told.get("k8s.pod.uid"), s.start // 1000, s.end // 1000, s.told["moonfence.reason"])
                   for s in spans if s.kind == CLIENT)


def check_tree(spans: list, root, ident: str):
    assert {s.trace for s in spans} == {hashlib.sha256(ident.encode()).hexdigest()[:32]} and root.told["moonfence.incident.id"] == ident
    assert [s for s in spans if not s.parent] == [root]
    assert {s.parent for s in spans if s.parent} == {root.id}
    assert max(Counter(s.id for s in spans).values()) == 1, "each span was sent once"
    assert all(root.start <= s.start <= s.end <= root.end for s in spans)


def test_an_incident_is_one_trace_that_says_what_the_audit_says(collector, victims_of, start_engine, workloads):
    """TR-01."""
    there = collector().start()
    victims = victims_of(4)
    engine = start_engine(config={"traces": there.setting})
    victims.fail("silent")
    victims.wait_replaced()
    wait_closed(engine, "settled")
    root, spans, records = there.root(), there.spans(), engine.records()
    opened, = of_kind(records, "incident_opened")
    closed, = of_kind(records, "incident_closed")
    check_tree(spans, root, opened["incident"])
    assert root.name == "incident" and root.end // 1000 == microseconds(closed) and root.status != ERROR
    assert (root.told["moonfence.reason"], root.told["k8s.node.name"]) == ("settled", victims.node)
    assert root.told["moonfence.pods.deleted"] == 4 and root.told["moonfence.spans.left_out"] == 0
    # Where the seconds went: from the fall to the first decision, without a gap.
    detect, = [s for s in spans if s.name == "detect"]
    confirm, = [s for s in spans if s.name == "confirm"]
    assert detect.start == root.start and detect.end == confirm.start and confirm.start // 1000 == microseconds(opened)
    first = min(microseconds(each) for each in records if each["kind"] in ("verdict", "intent"))
    assert confirm.end // 1000 == first
    # Each call, by our own audit and by the API server's.
    assert calls_in(spans) == calls_by(records) and len(calls_in(spans)) == 4
    told = {s.told["k8s.pod.uid"]: s.told["http.response.status_code"] for s in spans if s.name == "delete_pod"}
    assert told == {e.uid_precondition: e.status for e in engine.fenced()}
    assert {s.told["k8s.namespace.name"] for s in spans if s.name == "delete_pod"} == {workloads.namespace}
    assert Counter((s.told["k8s.pod.uid"], s.start // 1000) for s in spans if s.name == "verdict") == \
        Counter((r["pod_uid"], microseconds(r)) for r in of_kind(records, "verdict"))
    ready = [r for r in of_kind(records, "replacement") if r["reason"] == "replacement_ready"]
    assert Counter((s.told["k8s.pod.uid"], (s.end - s.start) // 1000) for s in spans if s.name == "replaced") == \
        Counter((r["pod_uid"], r.get("took_us", 0)) for r in ready)  # a whole second is Ready's, so none may be left
    resource, = {tuple(sorted(s.resource.items())) for s in spans}
    assert dict(resource) | {"service.version": "", "service.instance.id": ""} == {
        "service.name": "moonfence", "service.namespace": workloads.namespace, "k8s.namespace.name": workloads.namespace,
        "k8s.pod.name": engine.name, "k8s.cluster.name": "berlin-1", "service.version": "", "service.instance.id": ""}
    wait_for("it is counted", lambda: metric(engine, "moonfence_delivery_waiting", to="traces") == 0, 10)
    assert metric(engine, "moonfence_delivery_lost_total", to="traces") == 0


def test_what_a_collector_missed_while_it_was_down_arrives_later(collector, victims_of, start_engine):
    """TR-02."""
    there = collector()
    victims = victims_of(2)
    engine = start_engine(config={"traces": there.setting})
    victims.fail("notready")
    victims.wait_replaced()  # which waits for nobody
    wait_for("it is told", lambda: "]traces ok, but" in engine.get("/readyz?verbose")[1], 30)
    assert engine.get("/readyz")[0] == 200
    there.start()
    wait_closed(engine, "settled")
    root, records = there.root(), engine.records()
    check_tree(there.spans(), root, of_kind(records, "incident_opened")[0]["incident"])
    assert calls_in(there.spans()) == calls_by(records) and len(calls_in(there.spans())) == 2


def test_what_a_collector_refuses_is_dropped_and_counted(collector, victims_of, start_engine):
    """It takes requests of 64 bytes at most, and answers 400 to each of ours: OTLP wants that never repeated."""
    there = collector(largest=64).start()
    victims = victims_of(2)
    engine = start_engine(config={"traces": there.setting})
    victims.fail("notready")
    victims.wait_replaced()
    wait_closed(engine, "settled")

    def all_lost():
        once = Scrape(engine)
        lost = metric(once, "moonfence_delivery_lost_total", to="traces", reason="refused")
        return once if lost > 0 and metric(once, "moonfence_delivery_waiting", to="traces") == 0 else None
    once = wait_for("nothing waits", all_lost, 60)
    assert metric(once, "moonfence_delivery_failed_attempts_total", to="traces") == \
        metric(once, "moonfence_delivery_lost_total", to="traces", reason="refused"), "each was sent once"
    assert there.spans() == [] and metric(engine, "moonfence_actions_total", result="done") == 2


def test_the_next_leader_continues_the_trace(collector, victims_of, start_engine, lease, proxy):  # noqa: F811
    """TR-02."""
    there, answered = collector().start(), threading.Event()

    def hold_looks(_exchange):
        proxy.on("GET", "/namespaces/[^/]+/pods$", Hold(answered))
    # When it has begun to delete, nobody tells it of replacements: its incident stays open.
    proxy.on("DELETE", "/pods/[^/]+$", Call(hold_looks), times=1)
    victims = victims_of(3)
    config = {**TERM, "traces": there.setting}
    leader = start_engine(elect=True, config=config, witnessed=False, server=proxy.server)
    wait_for("the first replica leads", lambda: lease().get("holderIdentity", "").startswith(leader.name + "_"))
    standby = start_engine(elect=True, config=config, witnessed=False)
    victims.fail("notready")
    victims.wait_replaced()
    leader.stop()
    answered.set()
    closed, = of_kind(leader.records(), "incident_closed")
    assert closed["reason"] == "stopping", "the incident goes on"
    wait_for("the standby leads", lambda: holds_lease(standby, lease))
    wait_closed(standby, "settled")
    root, spans = there.root(), there.spans()
    check_tree(spans, root, closed["incident"])
    assert root.resource["k8s.pod.name"] == standby.name and root.told["moonfence.incident.taken_over"] is True
    assert calls_in(spans) == calls_by(leader.records()) + calls_by(standby.records()) and len(calls_in(spans)) == 3
    assert {s.resource["k8s.pod.name"] for s in spans} == {leader.name, standby.name}
