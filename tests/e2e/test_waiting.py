"""A policy waits for something about a pod: the engine watches the pods of the node meanwhile."""

from datetime import datetime

from .kube import wait_for
from .policies import policy_text

# Longer than any test: whatever is done sooner, a change of the pod, or its deadline, began it.
PATIENT = policy_text(
    "patient",
    'not pod.terminating and fence.wait("not terminating yet", 3600) or '
    'pod.deletion_timestamp > cluster.now and fence.wait("before its deadline", 3600) or '
    'fence.delete_pod("past its deadline")').replace("function(pod)", "function(pod, settings, cluster)")


def seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_a_pod_that_becomes_terminating_is_judged_at_once_and_deleted_at_its_deadline(
        cluster, workloads, make_nodes, start_engine, tmp_path):
    policy = tmp_path / "patient.lua"
    policy.write_text(PATIENT)
    (node,) = make_nodes(1)
    workloads.stateful_set("web", toleration_seconds=600, pod_spec={"terminationGracePeriodSeconds": 4})
    (pod,) = workloads.wait_all_running("web", 1)
    engine = start_engine(policy=policy)
    cluster.hollow.fail(node, "silent")
    verdicts = lambda: [r for r in engine.records() if r["kind"] == "verdict"]  # noqa: E731
    wait_for("the policy waits", verdicts, 60)
    audit = cluster.audit()
    assert engine.fenced() == []

    workloads.client.delete("pods", pod["metadata"]["name"], workloads.namespace)
    deadline = workloads.wait_terminating("web-0")["metadata"]["deletionTimestamp"]
    wait_for("it is judged as terminating", lambda: len(verdicts()) > 1, 10)
    wait_for("it is deleted", lambda: engine.deletes(resource="pods"), 20)
    engine.stop()  # which ends its watches: only then the log has them

    # By the API server's clock and in its order: somebody deletes, the engine lists again at once, waits, lists again
    # at the deadline and deletes.
    (asked,) = [e for e in audit.deletes(resource="pods") if e.agent.startswith("e2e-test")]
    (deleted,) = audit.deletes(agent="moonfence", resource="pods")
    # The pass in which the policy waited lists once more at its end, which may be now.
    lists = [e for e in audit.find(agent="moonfence", verb="list", resource="pods") if e.received > asked.received]
    assert lists[0].received < deleted.received
    assert lists[0].received - asked.staged < 5
    assert deleted.received >= seconds(deadline)
    at_deadline = [e for e in lists if e.received >= seconds(deadline)]
    assert at_deadline and at_deadline[0].received - seconds(deadline) < 5
    assert deleted.uid_precondition == pod["metadata"]["uid"] and deleted.grace == 0
    # a handful, where one every few milliseconds would be a loop
    assert len(lists) <= 6
    watches = engine.requests(verb="watch", resource="pods")
    assert watches and {f"fieldSelector=spec.nodeName%3D{node}" in e.uri for e in watches} == {True}
