"""What becomes of the pods that were deleted: the engine follows them until each has a replacement that is Ready."""

import json

from .faults import metric, wait_closed
from .kube import wait_for
from .test_fencing import NOOBAA, uid


def told(engine) -> list:
    """(pod, reason, text) of each record of a replacement."""
    return [(r["pod"], r["reason"], r.get("text", "")) for r in engine.records() if r["kind"] == "replacement"]


def step_of(cluster, workloads, pod: dict) -> dict:
    """What the records of incidents say of a pod."""
    for found in cluster.client.list("configmaps", workloads.namespace):
        if found["metadata"]["name"].startswith("moonfence-incident-"):
            for step in json.loads(found["data"]["record.json"])["steps"]:
                if step["pod"]["uid"] == uid(pod):
                    return step
    return {}


def test_the_record_shows_the_replacement_ready_elsewhere(cluster, make_nodes, workloads, start_engine):
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    workloads.deployment("noobaa-endpoint", replicas=2, **NOOBAA)
    pods = workloads.wait_all_running("noobaa", 3)
    (other,) = make_nodes(1)
    engine = start_engine()
    cluster.hollow.fail(node, "notready")
    wait_closed(engine, "settled")
    assert [reason for _, reason, _ in told(engine)] == ["replacement_ready"] * 3
    assert {pod for pod, _, _ in told(engine)} == {pod["metadata"]["name"] for pod in pods}
    assert {text for _, _, text in told(engine)} == {f"on {other}"}
    assert metric(engine, "moonfence_failover_stage_seconds_count", stage="replaced") == 3
    for pod in pods:
        wait_for("it is in the record", lambda: "replacement" in step_of(cluster, workloads, pod), 5)
        replacement = step_of(cluster, workloads, pod)["replacement"]
        assert (replacement["state"], replacement["node"]) == ("replacement_ready", other)
    now = {uid(pod) for pod in cluster.client.list("pods", workloads.namespace)}
    assert {step_of(cluster, workloads, pod)["replacement"]["uid"] for pod in pods} == now


def test_a_replacement_that_no_node_may_have_keeps_the_incident_open_and_is_named(
        cluster, make_nodes, workloads, start_engine):
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    pod = workloads.wait_running("noobaa-core-0")
    (other,) = make_nodes(1)
    cluster.client.patch("nodes", other, {"spec": {"unschedulable": True}})
    engine = start_engine()
    cluster.hollow.fail(node, "notready")
    wait_for("it is told", lambda: told(engine), 20)
    ((name, reason, text),) = told(engine)
    assert (name, reason) == ("noobaa-core-0", "replacement_unscheduled")
    assert text.startswith("Unschedulable: 0/") and "nodes are available" in text
    wait_for("it is in the record", lambda: step_of(cluster, workloads, pod).get("replacement"), 5)
    assert step_of(cluster, workloads, pod)["replacement"]["state"] == "replacement_unscheduled"
    wait_for("it is counted", lambda: metric(
        engine, "moonfence_replacements_awaited", reason="replacement_unscheduled") == 1, 5)
    assert metric(engine, "moonfence_incidents_open") == 1
    cluster.client.patch("nodes", other, {"spec": {"unschedulable": None}})
    wait_closed(engine, "settled", seconds=60)
    assert [reason for _, reason, _ in told(engine)] == ["replacement_unscheduled", "replacement_ready"]
    assert len(engine.deletes()) == 1
