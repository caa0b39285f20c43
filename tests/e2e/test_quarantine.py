"""The engine's own taint, moonfence.io/fenced:NoSchedule, on a real control plane: set before anything is deleted,
handed back when the node is proven clean."""

import json

from .engine import POLICY_RULES, QUARANTINE_RULES, RULES
from .kube import wait_for
from .policies import PolicyMap
from .workloads import node_ready, taints

PATIENT = {"toleration_seconds": 600}  # nobody else deletes these pods while a test lasts
NOOBAA = {"labels": {"app": "noobaa"}, **PATIENT}
KEY = "moonfence.io/fenced"
OURS = (KEY, "NoSchedule")


def mark(node: dict) -> dict:
    return json.loads(node["metadata"].get("annotations", {}).get(KEY, "{}"))


def patches(engine, node: str) -> list:
    return [e for e in engine.requests(verb="patch", resource="nodes") if e.name == node]


def test_a_node_that_nobody_taints_is_tainted_by_us_and_handed_back_after_a_reboot(
        cluster, make_nodes, workloads, start_engine):
    """NB-03 for a kubelet that renews its Lease: Kubernetes never taints such a node."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    before = workloads.wait_running("noobaa-core-0")
    make_nodes(1)
    boot = cluster.client.get("nodes", node)["status"]["nodeInfo"]["bootID"]
    engine = start_engine(rules=(*RULES, *QUARANTINE_RULES), config={"quarantine": "missing"})
    cluster.hollow.fail(node, "missing-alive")
    workloads.wait_running("noobaa-core-0", not_on=node)

    fenced = cluster.client.get("nodes", node)
    assert node_ready(fenced) == "" and OURS in taints(fenced)
    assert mark(fenced)["bootID"] == boot and mark(fenced)["volumes"] == []
    assert [d.uid_precondition for d in engine.deletes()] == [before["metadata"]["uid"]]
    assert [e.status for e in patches(engine, node)] == [200]

    cluster.hollow.heal(node, reboot=True)
    wait_for("the taint is taken off", lambda: OURS not in taints(cluster.client.get("nodes", node)))
    assert mark(cluster.client.get("nodes", node)) == {}


def test_a_node_whose_kubelet_nobody_may_ask_keeps_the_taint_until_a_reboot_and_other_taints_stay(
        cluster, make_nodes, workloads, start_engine):
    """With always it comes before the first deletion beside Kubernetes' own, and outlives it. That the node is Ready
    proves nothing; what its kubelet says nobody is allowed to ask. tests/machines asks real ones."""
    (node,) = make_nodes(1)
    workloads.stateful_set("noobaa-core", **NOOBAA)
    workloads.wait_running("noobaa-core-0")
    make_nodes(1)
    engine = start_engine(rules=(*RULES, *QUARANTINE_RULES), config={"quarantine": "always"})
    cluster.hollow.fail(node, "notready")
    workloads.wait_running("noobaa-core-0", not_on=node)
    assert OURS in taints(cluster.client.get("nodes", node))
    foreign = {"key": "dedicated", "value": "db", "effect": "PreferNoSchedule"}
    there = cluster.client.get("nodes", node)["spec"]["taints"]
    cluster.client.patch("nodes", node, {"spec": {"taints": [*there, foreign]}})

    cluster.hollow.heal(node)
    wait_for("Kubernetes takes its own taints off", lambda: not {
        key for key, _ in taints(cluster.client.get("nodes", node)) if key.startswith("node.kubernetes.io/")})
    assert OURS in taints(cluster.client.get("nodes", node))
    wait_for("it is told why ours stays", lambda: "kubectl apply -k deploy/rights/kubelet" in "".join(
        record["text"] for record in engine.records() if record["reason"] == "not_proven_clean"), 90)
    assert OURS in taints(cluster.client.get("nodes", node))
    asked = {e.subresource for e in engine.requests(resource="nodes", status=403)}
    assert asked == {"proxy"}

    cluster.hollow.heal(node, reboot=True)
    wait_for("ours is taken off", lambda: OURS not in taints(cluster.client.get("nodes", node)), 60)
    assert taints(cluster.client.get("nodes", node)) == {("dedicated", "PreferNoSchedule")}
    assert mark(cluster.client.get("nodes", node)) == {}
    assert {e.subresource for e in engine.requests(status=403)} == {"proxy"}


RETIRING = """return policy {
  api = 1, name = "retiring", version = "1.0.0", summary = "Put a node out of service, and delete its pods",
  node = function(node) return fence.taint_out_of_service("its power is off") end,
  pod = function(pod) return fence.delete_pod("its node is out of service") end,
}
"""


def test_a_node_is_put_out_of_service_before_its_pods_go(cluster, make_nodes, workloads, start_engine):
    (node,) = make_nodes(1)
    workloads.stateful_set("web", **PATIENT)
    before = workloads.wait_running("web-0")
    make_nodes(1)
    policies = PolicyMap(cluster.client, workloads.namespace)
    policies.write({"moonfence.yaml": policies.bindings("retiring", more="  allow: [out-of-service]\n"),
                    "retiring.lua": RETIRING})
    engine = start_engine(policy=None, mode=None, rules=(*RULES, *POLICY_RULES, *QUARANTINE_RULES), retires=True)
    policies.wait_state("retiring", "Active")
    cluster.hollow.fail(node, "silent")
    workloads.wait_running("web-0", not_on=node)
    assert ("node.kubernetes.io/out-of-service", "NoExecute") in taints(cluster.client.get("nodes", node))
    # one whose tests did not hold, because the node had changed meanwhile, is sent again
    (patch,) = [each for each in patches(engine, node) if each.status == 200]
    (deletion,) = engine.deletes()
    assert patch.received < deletion.received
    assert deletion.uid_precondition == before["metadata"]["uid"]
