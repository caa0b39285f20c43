"""What happens during and after an incident: retries, races with others, recoveries, lost watches, expiry.

As in test_fencing.py every test ends with Engine.check().
"""

import time

import pytest

from .engine import RULES
from .faults import LOOKS, wait_closed
from .kube import wait_for
from .proxy_rules import Call, status_answer
from .stage import parse_time
from .test_fencing import NOOBAA, name, no_schedule, owner, uid  # noqa: F401 (owner is a fixture)

FAILS = status_answer(500, "InternalError")
QUICK = {"retryInterval": "1s", "retryWindow": "5s"}    # a fifth of the defaults
NO_WATCH = "^(?!.*watch=)"
HASTY = {"retryInterval": "200ms", "retryWindow": "1s"}
SLOWER = {"retryInterval": "2s", "retryWindow": "10s"}  # two fifths


def deletes_of(proxy, pod: str) -> list:
    """The DELETE requests for a pod, whoever was asked; in order."""
    return proxy.find("DELETE", f"/pods/{pod}$")


def seconds(exchanges: list) -> list:
    """When they came, counted from the first."""
    return [(e.received_ns - exchanges[0].received_ns) / 1e9 for e in exchanges]


def doomed(make_nodes, workloads, *names: str) -> tuple:
    """A node with StatefulSets of one pod each, and another node beside it: (node, {pod name: pod})."""
    (node,) = make_nodes(1)
    for each in names:
        workloads.stateful_set(each, **NOOBAA)
    pods = {name(p): p for p in workloads.wait_all_running("noobaa", len(names))}
    make_nodes(1)
    return node, pods


def test_e_06_a_node_that_fails_again_is_fenced_again_at_once(cluster, make_nodes, workloads, start_engine):
    """E-06; the expiry is an hour, so nothing else can be the reason."""
    (node,) = make_nodes(1)  # the only one: the replacement waits for it
    workloads.stateful_set("noobaa-core", **NOOBAA)
    first = workloads.wait_running("noobaa-core-0")
    engine = start_engine(config={"cacheExpiry": "1h"})
    cluster.hollow.fail(node, "notready")
    wait_for("the pod is replaced", lambda: uid(workloads.get_pod("noobaa-core-0") or first) != uid(first))
    cluster.hollow.heal(node)
    second = workloads.wait_running("noobaa-core-0")
    assert uid(second) != uid(first) and second["spec"]["nodeName"] == node
    cluster.hollow.fail(node, "notready")
    wait_for("it is replaced again", lambda: uid(workloads.get_pod("noobaa-core-0") or second) != uid(second), 60)
    assert [d.uid_precondition for d in engine.deletes()] == [uid(first), uid(second)]
    assert engine.incidents(node) == 2


def test_e_22_while_most_of_the_workers_are_down_nothing_is_deleted(cluster, make_nodes, workloads, start_engine):
    """E-22: two of three; it goes on when one of them is back and has been for the cool-down."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    pod = workloads.wait_running("noobaa-core-0")
    other, _ = make_nodes(2)
    workloads.pod("busy", node=other)  # a node that carries nothing is not counted
    engine = start_engine(config={"brake": "{coolDown: 2s}"})

    def held() -> list:
        return [r["node"] for r in engine.records() if r["kind"] == "incident_held" and r["reason"] == "too_many_down"]
    cluster.hollow.fail(other, "notready")  # first: it has no pod that could be deleted before the second fails
    wait_for("it is dealt with", lambda: [r for r in engine.records() if r["kind"] == "incident_closed"], 60)
    cluster.hollow.fail(node, "notready")
    wait_for("the brake holds", held, 60)
    time.sleep(3)
    assert held() == [node] and engine.fenced() == []
    assert "moonfence_brake_engaged 1" in engine.metrics()
    assert uid(workloads.get_pod("noobaa-core-0")) == uid(pod)
    wait_for("it is told", lambda: [e for e in cluster.client.list("events", "default")
                                    if e.get("reason") == "FencingBraked"], 60)

    cluster.hollow.heal(other)
    wait_for("the pod is replaced", lambda: uid(workloads.get_pod("noobaa-core-0") or pod) != uid(pod), 60)
    assert [d.uid_precondition for d in engine.deletes()] == [uid(pod)]


def test_e_22_of_a_storm_nothing_is_deleted_although_the_policy_acts_at_once(
        cluster, make_nodes, workloads, start_engine):
    """E-22: four of six fall silent at once, and kube-controller-manager calls them so one after another."""
    nodes = make_nodes(4)
    for number in range(4):
        workloads.stateful_set(f"core-{number}", **NOOBAA)
    pods = {name(p): uid(p) for p in workloads.wait_all_running("noobaa", 4)}
    for number, node in enumerate(nodes):
        workloads.pod(f"busy-{number}", node=node)  # a node that carries nothing is not counted
    make_nodes(2)
    engine = start_engine(config={"brake": "{coolDown: 2s}"})
    for node in nodes:
        cluster.hollow.fail(node, "silent")

    def held() -> set:
        return {r["node"] for r in engine.records() if r["kind"] == "incident_held" and r["reason"] == "too_many_down"}
    wait_for("all are held", lambda: held() == set(nodes), 60)
    time.sleep(3)
    assert engine.fenced() == []
    assert not [r for r in engine.records() if r["kind"] == "intent"]
    assert {each: uid(workloads.get_pod(each)) for each in pods} == pods


def test_e_07_a_failing_deletion_is_tried_again_inside_the_window_and_more_seldom_after_it(
        cluster, make_nodes, workloads, proxy, start_engine):
    """E-07, two fifths as long: attempts at 0, 2, 4, 6, 8 s, then after growing pauses, until the server gives way.
    E-15: that the node object changes meanwhile starts nothing beside it."""
    node, pods = doomed(make_nodes, workloads, "core")
    rule = proxy.on("DELETE", "/pods/core-0$", FAILS)
    engine = start_engine(server=proxy.server, config=SLOWER)
    cluster.hollow.fail(node, "notready")
    for beat in range(1, 5):
        proxy.wait(beat, "DELETE", "/pods/core-0$")
        cluster.client.patch("nodes", node, {"metadata": {"labels": {"beat": str(beat)}},
                                             "spec": {"unschedulable": beat % 2 == 1}})
    proxy.wait(6, "DELETE", "/pods/core-0$")  # the window is over
    attempts = deletes_of(proxy, "core-0")
    times = seconds(attempts)
    # a busy machine makes one late, and the next follows it sooner; when exactly they are due the simulation shows
    assert all(after - before > 1 for before, after in zip(times, times[1:]))
    assert {e.status for e in attempts} == {500}
    assert engine.fenced() == []

    rule.remove()
    workloads.wait_running("core-0", not_on=node)
    (delete,) = engine.deletes()
    assert delete.uid_precondition == uid(pods["core-0"])
    assert engine.incidents(node) == 1


def test_missing_rights_are_tried_again_without_haste_and_may_come_back(
        cluster, make_nodes, workloads, start_engine):
    """E-24: at most five refusals in the window, then ever fewer; once the right is granted the pod goes."""
    node, pods = doomed(make_nodes, workloads, "core")
    rules = [rule for rule in RULES if rule["resources"] != ["pods"]]
    engine = start_engine(config=QUICK, rules=[
        *rules, {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
    cluster.hollow.fail(node, "notready")
    wait_for("a refusal", lambda: engine.deletes(status=403))
    time.sleep(7.5)  # the window and more than two intervals
    refused = [d.received for d in engine.deletes(status=403)]
    assert 2 <= len(refused) <= 7 and len(engine.deletes()) == len(refused)
    assert all(after - before > 0.5 for before, after in zip(refused, refused[1:]))
    engine.account.allow(RULES)
    workloads.wait_running("core-0", not_on=node)
    assert [d.uid_precondition for d in engine.deletes(status=200)] == [uid(pods["core-0"])]


def test_e_08_a_recovered_node_ends_the_retries(cluster, make_nodes, workloads, proxy, start_engine):
    """E-08, NB-15."""
    node, pods = doomed(make_nodes, workloads, "core")

    def fail_it(_):
        if len(deletes_of(proxy, "core-0")) == 2:
            cluster.hollow.heal(node)  # before the second is answered, and so before the third is due
        return FAILS
    proxy.on("DELETE", "/pods/core-0$", Call(fail_it))
    engine = start_engine(server=proxy.server, config=QUICK)
    cluster.hollow.fail(node, "notready")
    wait_closed(engine, "node_ready")
    attempts, passes = len(deletes_of(proxy, "core-0")), engine.passes(node)
    time.sleep(2.5)  # two attempts would have been due
    assert len(deletes_of(proxy, "core-0")) == attempts == 2
    assert engine.passes(node) == passes
    assert uid(workloads.get_pod("core-0")) == uid(pods["core-0"])


def test_e_09_one_failing_deletion_does_not_stop_the_others(cluster, make_nodes, workloads, proxy, start_engine):
    """E-09, NB-14."""
    node, pods = doomed(make_nodes, workloads, "a", "b", "c")
    proxy.on("DELETE", "/pods/a-0$", FAILS, times=2)
    engine = start_engine(server=proxy.server, config=QUICK)
    cluster.hollow.fail(node, "notready")
    for pod in pods:
        workloads.wait_running(pod, not_on=node)
    time.sleep(1.2)  # one more interval
    assert {pod: len(deletes_of(proxy, pod)) for pod in pods} == {"a-0": 3, "b-0": 1, "c-0": 1}
    first, second, _ = deletes_of(proxy, "a-0")
    lists = proxy.find("GET", "/pods$", "fieldSelector")
    for pod in ("b-0", "c-0"):
        (only,) = deletes_of(proxy, pod)
        assert only.received_ns < second.received_ns
        # A pass that was planned ahead asks for its own list when its first DELETE has left; the next pass asks for one more.
        assert sum(first.received_ns < each.received_ns < only.received_ns for each in lists) <= 1
    assert sorted(d.uid_precondition for d in engine.deletes()) == sorted(map(uid, pods.values()))
    assert engine.incidents(node) == 1 and 3 <= engine.passes(node) <= 3 + LOOKS


def test_e_10_a_pod_that_vanished_meanwhile_counts_as_deleted(cluster, make_nodes, workloads, proxy, start_engine):
    """E-10: deleted by somebody else between our list and our DELETE, which is answered 404."""
    (node,) = make_nodes(1)
    workloads.deployment("a", **NOOBAA)
    (pod,) = workloads.wait_all_running("noobaa", 1)
    make_nodes(1)

    def delete_it(exchange):
        cluster.client.delete("pods", name(pod), workloads.namespace, grace=0, uid=uid(pod))
    proxy.on("DELETE", f"/pods/{name(pod)}$", Call(delete_it))
    engine = start_engine(server=proxy.server, config=HASTY)
    cluster.hollow.fail(node, "notready")
    workloads.wait_all_running("noobaa", 1, not_on=node)
    wait_for("our DELETE was answered", engine.deletes)
    time.sleep(1.2)  # the whole window
    (delete,) = engine.deletes()
    assert delete.status == 404 and delete.uid_precondition == uid(pod)
    assert engine.incidents(node) == 1


def test_e_11_the_replacement_of_a_pod_survives(cluster, make_nodes, workloads, proxy, start_engine):
    """E-11: the pod of that name is another one by the time of our DELETE, which is answered 409."""
    node, pods = doomed(make_nodes, workloads, "web")
    before = pods["web-0"]

    def replace_it(exchange):
        cluster.client.delete("pods", "web-0", workloads.namespace, grace=0, uid=uid(before))
        wait_for("the replacement", lambda: uid(workloads.get_pod("web-0") or before) != uid(before), every=0.02)
    proxy.on("DELETE", "/pods/web-0$", Call(replace_it))
    engine = start_engine(server=proxy.server, config=HASTY)
    cluster.hollow.fail(node, "notready")
    wait_for("our DELETE was answered", engine.deletes)
    replacement = workloads.wait_running("web-0", not_on=node)
    time.sleep(1.2)  # the whole window
    (delete,) = engine.deletes()
    assert delete.status == 409 and delete.uid_precondition == uid(before) != uid(replacement)
    assert uid(workloads.wait_running("web-0", not_on=node)) == uid(replacement)
    assert engine.incidents(node) == 1


@pytest.mark.parametrize("how", ["error-event", "http-status"])
def test_a_node_that_failed_while_the_watch_was_lost_is_fenced_after_the_relist(
        cluster, make_nodes, workloads, proxy, start_engine, how):
    """E-19: 410 as an ERROR event of the open watch, or as the answer to the next one."""
    node, pods = doomed(make_nodes, workloads, "core")
    engine = start_engine(server=proxy.server)
    wait_for("the node watch is open", lambda: proxy.open_watches("/nodes$") == 1)

    def fail_it(exchange):
        cluster.hollow.fail(node, "notready")
        wait_for("the node is tainted", lambda: no_schedule(cluster.client.get("nodes", node)))

    def refuse_it(exchange):
        fail_it(exchange)
        return status_answer(410, "Expired", "too old resource version (scripted)")
    began = time.monotonic_ns()
    relisted = proxy.on("GET", "/nodes$", Call(fail_it), query=NO_WATCH, times=1)
    if how == "error-event":
        assert proxy.close_watches(path="/nodes$") == 1
    else:
        # until it lists: the first refusal may be lost with a connection that is cut as well
        refusing = proxy.on("GET", "/nodes$", Call(refuse_it), query="watch=")
        proxy.cut_all()
        wait_for("it lists again", lambda: relisted.hits)
        refusing.remove()
    workloads.wait_running("core-0", not_on=node)
    relists = [e for e in proxy.find("GET", "/nodes$") if not e.is_watch and e.received_ns > began]
    (delete,) = deletes_of(proxy, "core-0")
    assert relists and relists[0].first_byte_ns < delete.received_ns
    assert [d.uid_precondition for d in engine.deletes()] == [uid(pods["core-0"])]
    assert engine.incidents(node) == 1


def test_e_04_a_pod_that_is_bound_to_a_down_node_later_is_deleted_at_the_expiry(
        cluster, make_nodes, workloads, owner, start_engine):  # noqa: F811
    """NB-10, E-04: the entry of a node that stays down is looked at again after its expiry, not before."""
    (node,) = make_nodes(1)
    first = workloads.pod("first", node, metadata=owner, **NOOBAA)
    workloads.wait_running("first")
    engine = start_engine(config={**HASTY, "cacheExpiry": "3s", "replacementWait": "0"})  # nothing replaces it
    cluster.hollow.fail(node, "notready")
    wait_for("the first pod is deleted", lambda: workloads.get_pod("first") is None)
    wait_closed(engine, "settled")  # until then it looks after the deletion by itself
    second = workloads.pod("second", node, metadata=owner, **NOOBAA)
    wait_for("the second pod is deleted", lambda: workloads.get_pod("second") is None, 60)
    assert [d.uid_precondition for d in engine.deletes()] == [uid(first), uid(second)]
    opened = [parse_time(r["time"]) for r in engine.records() if r["kind"] == "incident_opened"]
    assert opened[-1] - opened[0] > 2.9
    assert {r["reason"] for r in engine.records() if r["kind"] == "incident_opened"} == {
        "node_not_ready", "entry_expired"}
