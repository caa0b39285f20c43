"""The webhook (docs/webhook.md) on a real control plane, to a receiver whose libraries somebody else wrote (hook_receiver.py)."""

import base64
import json
import re

import pytest

from .engine import RULES
from .exposition import parse
from .faults import metric, wait_closed
from .hook_receiver import HookReceiver, libraries, read
from .kube import wait_for
from .test_alerts import wanted_metrics
from .test_leadership import TERM, holds_lease

SECRET, NEXT = (f"whsec_{base64.b64encode(letter * 32).decode()}" for letter in (b"k", b"n"))
SOURCE = "/clusters/test-1"


@pytest.fixture
def receiver(cluster):
    made = HookReceiver(cluster.control_plane.authority, SECRET)
    yield made
    made.close()
    assert made.faults == []


@pytest.fixture
def secret_file(tmp_path):
    file = tmp_path / "signing-secret"
    file.write_text(f"{SECRET}\n")
    return file


@pytest.fixture
def hooked(cluster, start_engine, receiver, secret_file):
    """hooked(**arguments) -> an engine that tells the receiver; nothing that is secret stands in what it says."""
    engines = []

    def start(config: dict | None = None, more: str = "", **arguments):
        setting = (f"{{url: '{receiver.url}', secretFile: {secret_file}, source: {SOURCE}, "
                   f"tls: {{ca: {receiver.authority.cert}}}{more}}}")
        engines.append(start_engine(config={**(config or {}), "webhook": setting}, **arguments))
        return engines[-1]
    yield start
    for engine in engines:
        said = {"log": engine.log(), "records": json.dumps(engine.records())}
        if engine.alive():
            said |= {"readiness": engine.get("/readyz?verbose")[1], "metrics": engine.metrics(),
                     **{path: engine.get(path, engine.status_port)[1] for path in ("/", "/status.json")}}
        for kind in ("events", "configmaps", "leases"):
            said[kind] = json.dumps(cluster.client.list(kind, engine.namespace))
        told = {where: word for where, text in said.items()
                for word in (SECRET, NEXT, SECRET[6:], NEXT[6:], receiver.path, receiver.path[1:]) if word in text}
        assert not told


def note(engine) -> str:
    return next(line for line in engine.get("/readyz?verbose")[1].splitlines() if "]webhook" in line)


def test_wh_01_an_incident_is_told_in_order_signed_and_as_cloud_events(cluster, victims_of, hooked, receiver, workloads):
    victims = victims_of(2)
    engine = hooked()
    victims.fail("silent")
    victims.wait_replaced()
    wait_for("it is over and told", lambda: "settled" in receiver.told(), 60)
    assert receiver.told() == ["opened", "acting", "settled"]
    opened, acting, settled = receiver.events
    incident = next(r["incident"] for r in engine.records() if r["kind"] == "incident_opened" and r["node"] == victims.node)
    for event, phase in zip(receiver.events, ("opened", "acting", "settled")):
        assert event.get_specversion() == "1.0" and event.get_source() == SOURCE and event.get_subject() == victims.node
        assert event.get_type() == f"io.moonfence.incident.{phase}.v1" and event.get_id() == f"{incident}-{phase}"
        assert event.get_datacontenttype() == "application/json"
        data = event.get_data()
        assert (data["incident"], data["node"], data["mode"]) == (incident, victims.node, "enforce")
        assert set(data["reason"]) == {"code", "meaning", "nextStep"} and all(data["reason"].values())
    assert opened.get_time() <= acting.get_time() <= settled.get_time()
    assert acting.get_data()["reason"]["code"] == "policy_deletes_pod"
    assert (settled.get_data()["reason"]["code"], settled.get_data()["pods"]["deleted"]) == ("settled", 2)
    assert settled.get_data()["durationSeconds"] > 0
    assert [headers["content-type"] for headers, _ in receiver.arrivals] == ["application/cloudevents+json; charset=utf-8"] * 3
    assert max(len(body) for _, body in receiver.arrivals) < 16384
    texts = b"".join(body for _, body in receiver.arrivals).decode()
    assert not re.search("noobaa|example.com/image", texts), "of pods and policies nothing but numbers"
    exposed = {name for name, _ in parse(engine.metrics())}
    assert {name for name in wanted_metrics() if name.startswith("moonfence_delivery_")} <= exposed
    wait_for("it is counted", lambda: metric(engine, "moonfence_delivery_delivered_total", to="webhook") == 3, 5)
    assert note(engine).endswith(" ok")


def test_wh_02_a_receiver_that_was_down_is_told_later_and_once_each(victims_of, hooked, receiver):
    victims = victims_of(1)
    engine = hooked()
    receiver.stop()
    victims.fail("silent")
    victims.wait_replaced()  # nothing waits for it
    wait_closed(engine, "settled")
    wait_for("all wait", lambda: metric(engine, "moonfence_delivery_waiting", to="webhook") == 3, 10)
    assert metric(engine, "moonfence_delivery_failed_attempts_total", to="webhook") > 0
    assert engine.get("/readyz")[0] == 200 and "ok, but" in note(engine)
    receiver.status = 503
    receiver.start()
    wait_for("it is tried", lambda: receiver.arrivals, 60)
    receiver.status = 200
    wait_for("all have arrived", lambda: len(receiver.events) == 3, 90)
    assert receiver.told() == ["opened", "acting", "settled"]
    taken = [headers["webhook-id"] for headers, _ in receiver.arrivals[-3:]]
    assert len(set(taken)) == 3
    wait_for("all is well", lambda: note(engine).endswith(" ok"), 10)


def test_wh_01_somebody_is_called_once_when_a_right_is_missing(victims_of, hooked, receiver):
    victims = victims_of(1)
    engine = hooked(rules=[{**rule, "verbs": [verb for verb in rule["verbs"] if verb != "delete"]} for rule in RULES])
    victims.fail("silent")
    wait_for("somebody is called", lambda: "attention" in receiver.told(), 180)
    assert receiver.told() == ["opened", "acting", "attention"]
    called = receiver.events[2]
    cause = called.get_data()["reason"]
    assert cause["code"] == "refused" and cause["nextStep"]
    assert re.search("-attention-refused-[0-9]+$", called.get_id()) and called.get_data()["pods"]["notDeleted"] == 1
    tries = len(engine.deletes())
    wait_for("it is tried again", lambda: len(engine.deletes()) > tries, 180)
    assert receiver.told() == ["opened", "acting", "attention"]
    engine.account.allow(RULES)
    victims.wait_replaced()
    wait_for("it is over", lambda: receiver.told() == ["opened", "acting", "attention", "settled"], 120)


def test_wh_01_the_secret_is_rotated_without_a_restart(cluster, victims_of, hooked, receiver, secret_file):
    victims = victims_of(1)
    hooked()
    secret_file.write_text(f"{NEXT}\n{SECRET}\n")
    victims.fail("silent")
    wait_for("it is told", lambda: "settled" in receiver.told(), 120)
    for headers, body in receiver.arrivals:
        for secret in (SECRET, NEXT):
            assert read(secret, headers, body).get_id() == headers["webhook-id"]
    receiver.secret = NEXT
    secret_file.write_text(f"{NEXT}\n")
    receiver.arrivals.clear()
    cluster.hollow.heal(victims.node)
    wait_for("the node is well", lambda: cluster.client.get("nodes", victims.node)["spec"].get("taints") is None, 60)
    victims.fail("silent")
    wait_for("it is told again", lambda: receiver.told().count("opened") == 2, 120)
    headers, body = receiver.arrivals[-1]
    with pytest.raises(libraries()[1]):
        read(SECRET, headers, body)


def test_wh_01_the_library_refuses_what_was_tampered_with(victims_of, hooked, receiver):
    """The test of these tests."""
    victims = victims_of(1)
    hooked()
    victims.fail("silent")
    wait_for("it is told", lambda: receiver.events, 60)
    headers, body = receiver.arrivals[0]
    read(SECRET, headers, body)
    for wrong in ((SECRET, headers, body.replace(b"enforce", b"observe")), (NEXT, headers, body),
                  (SECRET, {**headers, "webhook-id": "x"}, body),
                  (SECRET, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}, body)):
        with pytest.raises(libraries()[1]):
            read(*wrong)


def test_wh_02_the_next_leader_goes_on_without_doubles(cluster, victims_of, hooked, receiver, workloads):
    """The leader is killed while what it deleted has no replacement yet; the other one tells the end."""
    def lease():
        found = cluster.client.find("leases", "moonfence", workloads.namespace)
        return found["spec"] if found else {}
    victims = victims_of(1, stateful=True)
    for other in victims.others:
        cluster.client.patch("nodes", other, {"spec": {"unschedulable": True}})
    leader = hooked(config=TERM, elect=True, witnessed=False)
    wait_for("the first one leads", lambda: holds_lease(leader, lease))
    standby = hooked(config=TERM, elect=True, witnessed=False)
    victims.fail("silent")
    wait_for("it acts", lambda: receiver.told() == ["opened", "acting"], 120)
    wait_for("the pod is gone", lambda: not victims.alive(), 60)
    leader.kill9()
    wait_for("the other one leads", lambda: holds_lease(standby, lease), 60)
    for other in victims.others:
        cluster.client.patch("nodes", other, {"spec": {"unschedulable": None}})
    victims.wait_replaced()
    wait_for("it is over and told", lambda: "settled" in receiver.told(), 120)
    assert receiver.told() == ["opened", "acting", "settled"]
    assert len({event.get_data()["incident"] for event in receiver.events}) == 1
    ids = [headers["webhook-id"] for headers, _ in receiver.arrivals]
    assert len(ids) > len(set(ids)), "the next leader told again what it could not know to have arrived"


def test_wh_01_only_what_is_asked_for_is_told(victims_of, hooked, receiver):
    victims = victims_of(1)
    hooked(more=", events: [settled]")
    victims.fail("silent")
    wait_for("it is over and told", lambda: receiver.events, 120)
    assert receiver.told() == ["settled"]
