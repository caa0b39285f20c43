"""Which nodes and which pods does it act on? Rows of the conformance table, against a real control plane.

Every test ends with Engine.check(): each DELETE of ours carries grace period 0 and a UID precondition, and
happened while the node was down and tainted.

"Nothing happens" is shown by something that does happen later in the same order: a canary in the same pass,
or a node that fails after the one that must be left alone (node events are handled in order).
"""

import time

import pytest

from .faults import LOOKS
from .kube import wait_for
from .workloads import Workloads, is_ready, node_ready, taints

PATIENT = {"toleration_seconds": 600}  # nobody else deletes these pods while a test lasts
NOOBAA = {"labels": {"app": "noobaa"}, **PATIENT}

FAILS_FOR_A = """
return policy {
  api = 1, name = "fails", version = "1.0.0", summary = "Raises an error for the pod a",
  select = { labels = "app=noobaa" },
  trigger = { failures = 1, live_kubelet = true, deleted = false, sweep = true },
  pod = function(pod)
    if pod.name == "a" then
      error("no verdict about this one")
    end
    return fence.delete_pod("any other")
  end,
}
"""


def uid(pod: dict) -> str:
    return pod["metadata"]["uid"]


def name(pod: dict) -> str:
    return pod["metadata"]["name"]


def on(pods: list, node: str) -> list:
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def no_schedule(node: dict) -> bool:
    return any(effect == "NoSchedule" for _, effect in taints(node))


@pytest.fixture
def canary(cluster, make_nodes, workloads):
    """canary(engine): a new node with an app=noobaa pod fails; returns when that pod was deleted."""
    def run(engine):
        (node,) = make_nodes(1)
        workloads.deployment("canary", pod_spec={"nodeSelector": {"kubernetes.io/hostname": node}}, **NOOBAA)
        (pod,) = wait_for("the canary runs", lambda: [
            p for p in on(workloads.pods("noobaa"), node) if is_ready(p) and name(p).startswith("canary-")])
        cluster.hollow.fail(node, "notready")
        wait_for("the canary is deleted", lambda: engine.deletes(name=name(pod)))
        assert engine.passes(node) >= 1
    return run


@pytest.fixture
def owner(cluster, workloads):
    """An owner that exists and controls nothing: pods with it are neither bare nor anybody's to replace."""
    made = cluster.client.create("configmaps", {"metadata": {"name": "owner"}}, workloads.namespace)
    return {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid(made),
                                 "controller": True}]}


def test_e_01_nb_02_nb_04_nb_06_nb_07_the_pods_of_a_dead_node_come_back_elsewhere_and_all_others_stay(
        cluster, make_nodes, workloads, test_id, start_engine):
    """NB-02, E-01 (Ready=Unknown, exactly one evaluation), NB-04, NB-05, NB-06, NB-07."""
    (dead,) = make_nodes(1)
    other = Workloads(cluster.client, f"{test_id}-other", workloads.node_labels).create_namespace()
    try:
        workloads.stateful_set("noobaa-core", replicas=2, **NOOBAA)
        workloads.deployment("noobaa-endpoint", replicas=2, **NOOBAA)
        workloads.stateful_set("noobaa-db-pg", **NOOBAA)
        workloads.stateful_set("noobaa-db-pg-cluster", replicas=2, **NOOBAA)
        workloads.stateful_set("capitals", labels={"app": "NooBaa"}, **PATIENT)
        workloads.stateful_set("unlabelled", labels={"app": None}, **PATIENT)
        other.stateful_set("noobaa-core", **NOOBAA)

        def all_run():
            pods = [p for p in (*workloads.pods(), *other.pods()) if is_ready(p)]
            return pods if len(pods) == 10 else None
        before = wait_for("all pods run", all_run)
        assert len(on(before, dead)) == 10
        (healthy, _) = make_nodes(2)
        workloads.deployment("elsewhere", pod_spec={"nodeSelector": {"kubernetes.io/hostname": healthy}}, **NOOBAA)
        elsewhere = wait_for("a pod runs elsewhere", lambda: [p for p in on(workloads.pods(), healthy) if is_ready(p)])

        engine = start_engine()
        cluster.hollow.fail(dead, "silent")
        workloads.wait_node(dead, "Unknown")
        fenced = [p for p in before if name(p).startswith(("noobaa-core-", "noobaa-endpoint-"))
                  and p["metadata"]["namespace"] == workloads.namespace]
        # two of each, and the one that ran there before
        workloads.wait_all_running("noobaa", 5, not_on=dead)
        workloads.wait_running("noobaa-core-0", not_on=dead)
        workloads.wait_running("noobaa-core-1", not_on=dead)

        spared = [p for p in before + elsewhere if uid(p) not in {uid(f) for f in fenced}]
        assert len(fenced) == 4 and len(spared) == 7
        now = {uid(p): p for p in (*workloads.pods(), *other.pods())}
        for pod in spared:
            assert uid(pod) in now and "deletionTimestamp" not in now[uid(pod)]["metadata"], f"{name(pod)} was touched"
        assert {uid(f) for f in fenced}.isdisjoint(now)
        deletes = engine.deletes()
        assert sorted(d.uid_precondition for d in deletes) == sorted(map(uid, fenced))
        assert {d.status for d in deletes} == {200}
        assert engine.incidents(dead) == 1
    finally:
        other.remove_all()


def test_nb_01_ready_false_of_a_living_kubelet_counts_and_is_evaluated_once(cluster, make_nodes, workloads, start_engine):
    """NB-01, E-02; and E-03: heartbeats, capacity and labels are no reason to look again."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    workloads.deployment("noobaa-endpoint", **NOOBAA)
    before = workloads.wait_all_running("noobaa", 2)
    make_nodes(1)
    engine = start_engine()
    cluster.hollow.fail(node, "notready")
    workloads.wait_all_running("noobaa", 2, not_on=node)
    assert sorted(d.uid_precondition for d in engine.deletes()) == sorted(map(uid, before))
    assert {d.status for d in engine.deletes()} == {200}

    ready = next(c for c in cluster.client.get("nodes", node)["status"]["conditions"] if c["type"] == "Ready")
    for beat in range(3):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + beat))
        cluster.client.patch("nodes", node, {"status": {
            "conditions": [{**ready, "lastHeartbeatTime": stamp}], "capacity": {"cpu": str(65 + beat)}}},
            kind="strategic", subresource="status")
        cluster.client.patch("nodes", node, {"metadata": {"labels": {"beat": str(beat)}}})
    time.sleep(1)  # an evaluation would have listed the node's pods by now
    assert engine.incidents(node) == 1
    assert engine.passes(node) <= 1 + LOOKS
    assert len(engine.deletes()) == 2


def test_nb_03_a_node_without_ready_condition_is_fenced_when_it_is_tainted(cluster, make_nodes, workloads, start_engine):
    """NB-03 for a silent machine: the controller writes Unknown and the taint after the grace period."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    before = workloads.wait_running("noobaa-core-0")
    make_nodes(1)
    engine = start_engine()
    cluster.hollow.fail(node, "missing")

    def tainted():
        # in this order: what is deleted at a time was deleted before the node is looked at
        deletes, seen = engine.deletes(), cluster.client.get("nodes", node)
        assert not deletes or no_schedule(seen)
        return no_schedule(seen)
    wait_for("the node is tainted", tainted, every=0.05)
    workloads.wait_running("noobaa-core-0", not_on=node)
    assert [d.uid_precondition for d in engine.deletes()] == [uid(before)]


def test_nb_03_a_node_that_stays_without_ready_condition_waits_for_a_taint(cluster, make_nodes, workloads, start_engine):
    """NB-03 for a kubelet that renews its Lease: Kubernetes never taints such a node. A cordon does."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    before = workloads.wait_running("noobaa-core-0")
    make_nodes(1)
    engine = start_engine()
    cluster.hollow.fail(node, "missing-alive")
    # it has seen the state and looked at the node by itself: after 1 s, after 2 s more
    wait_for("the engine looked twice", lambda: engine.passes(node) >= 2)
    assert node_ready(cluster.client.get("nodes", node)) == ""
    assert engine.fenced() == []
    assert uid(workloads.get_pod("noobaa-core-0")) == uid(before)

    cluster.client.patch("nodes", node, {"spec": {"unschedulable": True}})
    workloads.wait_running("noobaa-core-0", not_on=node)
    assert node_ready(cluster.client.get("nodes", node)) == ""
    assert [d.uid_precondition for d in engine.deletes()] == [uid(before)]


def test_e_16_nb_09_a_node_that_was_down_before_the_start_is_swept(cluster, make_nodes, workloads, start_engine):
    """NB-09, E-16."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    before = workloads.wait_running("noobaa-core-0")
    healthy = make_nodes(1)[0]
    cluster.hollow.fail(node, "notready")
    wait_for("the node is tainted", lambda: no_schedule(cluster.client.get("nodes", node)))
    engine = start_engine()
    workloads.wait_running("noobaa-core-0", not_on=node)
    assert [d.uid_precondition for d in engine.deletes()] == [uid(before)]
    assert (engine.incidents(node), engine.passes(healthy)) == (1, 0)


def test_nb_12_a_deleted_node_object_is_no_reason_to_delete_pods(cluster, make_nodes, workloads, owner, canary, start_engine):
    """NB-12 (Ready when deleted), E-20 (down when deleted)."""
    ready, down = make_nodes(2)
    for node in (ready, down):
        workloads.pod(f"on-{node[-2:]}", node, metadata=owner, **NOOBAA)
    before = workloads.wait_all_running("noobaa", 2)
    engine = start_engine()
    # down but not tainted: an incident is open and waits
    cluster.hollow.fail(down, "missing-alive")
    wait_for("the engine waits for a taint", lambda: engine.passes(down) >= 1)
    cluster.hollow.remove([ready, down])
    passes = engine.passes(down)
    canary(engine)
    assert {uid(p) for p in before}.isdisjoint(d.uid_precondition for d in engine.deletes())
    assert engine.passes(ready) == 0 and engine.passes(down) <= passes + 1


def test_taints_and_a_cordon_do_not_make_a_ready_node_down(cluster, make_nodes, workloads, owner, canary, start_engine):
    """NB-13."""
    cordoned, tainted = make_nodes(2)
    for node in (cordoned, tainted):
        workloads.pod(f"on-{node[-2:]}", node, metadata=owner, **NOOBAA)
    before = workloads.wait_all_running("noobaa", 2)
    engine = start_engine()
    cluster.client.patch("nodes", cordoned, {"spec": {"unschedulable": True}})
    cluster.client.patch("nodes", tainted, {"spec": {"taints": [
        {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoSchedule"},
        {"key": "example.com/maintenance", "effect": "NoSchedule"}]}})
    for node in (cordoned, tainted):
        wait_for("the node is tainted", lambda node=node: no_schedule(cluster.client.get("nodes", node)))
    canary(engine)
    assert {uid(p) for p in before}.isdisjoint(d.uid_precondition for d in engine.deletes())
    assert [engine.passes(n) for n in (cordoned, tainted)] == [0, 0]
    assert all(node_ready(cluster.client.get("nodes", n)) == "True" for n in (cordoned, tainted))


def test_a_node_created_not_ready_waits_until_it_was_ready_once(
        cluster, make_nodes, workloads, test_id, owner, canary, start_engine):
    """NB-11."""
    node = f"{test_id}-joining"
    engine = start_engine()

    def status(ready: str) -> dict:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        return {"conditions": [{"type": "Ready", "status": ready, "reason": "Test", "message": "",
                                "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}]}
    cluster.client.create("nodes", {"metadata": {"name": node}, "spec": {}, "status": status("False")})
    try:
        wait_for("the node is tainted", lambda: no_schedule(cluster.client.get("nodes", node)))
        pod = workloads.pod("early", node, metadata=owner, **NOOBAA)
        canary(engine)
        assert engine.passes(node) == 0
        for ready in ("True", "False"):
            cluster.client.patch("nodes", node, {"status": status(ready)}, kind="strategic", subresource="status")
            # the controller follows, else it may take the taint away while the node is NotReady again
            wait_for("the taint follows", lambda ready=ready: no_schedule(
                cluster.client.get("nodes", node)) == (ready == "False"))
        wait_for("the pod is deleted", lambda: workloads.get_pod("early") is None)
        (delete,) = engine.deletes(name="early")
        assert delete.uid_precondition == uid(pod) and engine.incidents(node) == 1
    finally:
        cluster.client.delete("nodes", node)


def test_mirror_daemon_finished_and_bare_pods_are_left_alone(
        cluster, make_nodes, workloads, owner, start_engine):
    """E-25. The pod `owned` differs from each of them in one thing only, and is deleted."""
    (node,) = make_nodes(1)
    labels = {"app": "noobaa"}
    node_owner = {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": node, "controller": True,
                                       "uid": uid(cluster.client.get("nodes", node))}]}
    mirror = {"annotations": {"kubernetes.io/config.mirror": "0123456789abcdef"}}
    workloads.pod("a-mirror", node, metadata={**mirror, **owner}, **NOOBAA)
    workloads.pod("b-static", node, metadata={**mirror, **node_owner}, **NOOBAA)
    workloads.pod("c-bare", node, **NOOBAA)
    for finished in ("d-succeeded", "e-failed"):
        workloads.pod(finished, node, metadata=owner, **NOOBAA)
    workloads.daemon_set("f-daemon", labels=labels)
    workloads.pod("owned", node, metadata=owner, **NOOBAA)
    workloads.wait_all_running("noobaa", 7)
    for finished, phase in (("d-succeeded", "Succeeded"), ("e-failed", "Failed")):
        cluster.client.patch("pods", finished, {"status": {"phase": phase}}, workloads.namespace, subresource="status")
    before = {name(p): p for p in workloads.pods()}

    engine = start_engine()
    cluster.hollow.fail(node, "notready")
    wait_for("the pod `owned` is deleted", lambda: workloads.get_pod("owned") is None)
    time.sleep(0.5)  # deletions of one pass leave within milliseconds of each other
    (delete,) = engine.deletes()
    owned = before.pop("owned")
    assert delete.uid_precondition == uid(owned)
    now = {uid(p): p for p in workloads.pods()}
    for pod in before.values():
        assert uid(pod) in now and "deletionTimestamp" not in now[uid(pod)]["metadata"], f"{name(pod)} was touched"


def test_a_policy_that_fails_for_one_pod_does_not_stop_the_others(
        cluster, make_nodes, workloads, owner, tmp_path, start_engine):
    """E-23: the pod without a verdict is asked about again, ever more seldom, and left alone."""
    policy = tmp_path / "fails.lua"
    policy.write_text(FAILS_FOR_A)
    (node,) = make_nodes(1)
    for pod in ("a", "b"):
        workloads.pod(pod, node, metadata=owner, **NOOBAA)
    pods = {name(p): p for p in workloads.wait_all_running("noobaa", 2)}
    engine = start_engine(policy=policy, config={"retryInterval": "200ms", "retryWindow": "1s"})
    cluster.hollow.fail(node, "notready")
    wait_for("pod b is deleted", lambda: workloads.get_pod("b") is None)
    time.sleep(1.5)  # the window and more than two intervals
    assert 2 <= engine.passes(node) <= 9  # and one list that was made ahead
    assert [d.uid_precondition for d in engine.deletes()] == [uid(pods["b"])]
    assert uid(workloads.get_pod("a")) == uid(pods["a"])


def test_observe_deletes_nothing(cluster, make_nodes, workloads, start_engine):
    """E-27: it looks and judges, and sends no DELETE, not even a dry run."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", replicas=2, **NOOBAA)
    before = workloads.wait_all_running("noobaa", 2)
    make_nodes(1)
    engine = start_engine(mode="observe", config={"retryInterval": "200ms", "retryWindow": "1s", "cacheExpiry": "1s"})
    cluster.hollow.fail(node, "notready")
    wait_for("the engine looked three times", lambda: engine.passes(node) >= 3)
    assert engine.fenced() == []
    assert sorted(map(uid, workloads.pods())) == sorted(map(uid, before))


def test_off_does_not_even_look(cluster, make_nodes, workloads, start_engine):
    """E-27, NB-16: nothing of the node is read, neither in a sweep nor later."""
    swept, node = make_nodes(2)
    workloads.deployment("noobaa-endpoint", replicas=4, **NOOBAA)
    before = workloads.wait_all_running("noobaa", 4)
    cluster.hollow.fail(swept, "notready")
    wait_for("the node is tainted", lambda: no_schedule(cluster.client.get("nodes", swept)))
    engine = start_engine(mode="off", config={"retryInterval": "200ms", "retryWindow": "1s", "cacheExpiry": "1s"})
    cluster.hollow.fail(node, "notready")
    wait_for("the node is tainted", lambda: no_schedule(cluster.client.get("nodes", node)))
    time.sleep(1.5)  # longer than the expiry
    assert engine.requests(resource="pods") == [] and engine.requests(verb="get", resource="nodes") == []
    assert sorted(map(uid, workloads.pods())) == sorted(map(uid, before))


def test_each_deletion_is_told_as_an_event(cluster, make_nodes, workloads, start_engine):
    """E-28: about the pod that was deleted, by name and UID, naming the policy."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    before = workloads.wait_running("noobaa-core-0")
    make_nodes(1)
    engine = start_engine()
    cluster.hollow.fail(node, "notready")

    def told():
        # core/v1 shows them in whichever of the two APIs they were made
        return cluster.client.list("events", workloads.namespace, fields=f"involvedObject.uid={uid(before)},"
                                   "reason=PodForceDeleted")
    (event,) = wait_for("the event", told)
    assert event["involvedObject"]["name"] == "noobaa-core-0" and event["type"] in ("Normal", "Warning")
    assert "policy noobaa" in event["message"] and node in event["message"]
    # what is told about the node is in the namespace `default`, as for every cluster-scoped object
    wait_for("an event about the node", lambda: cluster.client.list(
        "events", "default", fields=f"involvedObject.name={node},reason=FencingSettled"))
    assert {e.status for e in engine.requests(resource="events")} == {201}
