"""What the field does to a fencing engine (docs/field-faults.md), where only real kubelets show it: those that are restarted,
and machines that come again under the name of one that died. The leader's own node is in test_inside.py.
"""

import time

import pytest

from e2e.faults import PODS, wait_closed
from e2e.kube import wait_for
from e2e.policies import NAME, PolicyMap
from e2e.proxy import Proxy
from e2e.proxy_rules import status_answer

from .stage import LIMIT
from .test_hand_back import stage  # noqa: F401 (a fixture: without volumes)

UNAVAILABLE = status_answer(503, "ServiceUnavailable")


# --- 7: a kubelet that lives

def last_renewal(bed, node: str) -> str:
    return bed.client.get("leases", node, "kube-node-lease")["spec"]["renewTime"]


def wait_renewed(bed, node: str):
    """Its kubelet has just renewed its Lease."""
    before = last_renewal(bed, node)
    wait_for(f"the kubelet of {node} renews its Lease", lambda: last_renewal(bed, node) > before, LIMIT, 0.02)


def check_nothing_was_done(stage):  # noqa: F811
    """The same pods as before run, and none of them was started anew."""
    pods = stage.wait_settled()
    assert {pod["metadata"]["uid"] for pod in pods} == {*stage.old_uids.values(), *(
        pod["metadata"]["uid"] for pod in stage.others)}
    assert not any(status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"])
    assert stage.engine.fenced() == [] and stage.records() == []


def test_kubelets_that_are_restarted_on_node_after_node_keep_their_pods(stage):  # noqa: F811
    """An upgrade."""
    stage.arm()
    for node in stage.bed.nodes:
        wait_renewed(stage.bed, node.name)
        node.kill("kubelet")
        time.sleep(3)
        node.start("kubelet")
        wait_renewed(stage.bed, node.name)
        node.wait_ready()
    check_nothing_was_done(stage)


def test_a_kubelet_that_says_not_ready_for_some_seconds_keeps_its_pods(stage):  # noqa: F811
    """Its container runtime is away. Pods were deleted at its first word."""
    stage.arm()
    policies = PolicyMap(stage.bed.client, stage.workloads.namespace)
    text = stage.bed.client.get("configmaps", NAME, stage.workloads.namespace)["data"]["moonfence.yaml"]
    # beyond the default of ten seconds: how long containerd takes to start is this computer's business
    policies.wait_observed(policies.edit(moonfence_yaml=text.replace("  mode: enforce\n", "  mode: enforce\n  holdDown: 2m\n")))

    def held() -> list:
        return [r for r in stage.engine.records() if r["kind"] == "incident_held" and r["reason"] == "holding_down"]
    stage.victim.kill("containerd")
    stage.workloads.wait_node(stage.victim.name, "False")
    wait_for("it is held down", held, LIMIT)
    stage.victim.start("containerd")
    stage.victim.wait_ready()
    wait_closed(stage.engine, "node_ready")
    check_nothing_was_done(stage)


# --- 10: machines that come again

@pytest.fixture
def struck(stage):  # noqa: F811
    """The machine is dead and every pod of it was tried, but none can be deleted yet: (stage, the rule that refuses)."""
    with Proxy(stage.bed.control_plane) as proxy:
        stage.arm(server=proxy.server, witnessed=False)
        refused = proxy.on("DELETE", PODS, UNAVAILABLE)
        stage.strike(stage.victim.power_off)
        wait_for("each pod was tried", lambda: len({each.path for each in refused.hits}) == len(stage.moving), LIMIT)
        yield stage, refused
        stage.engine.stop()  # before its way to the API server is gone


def test_what_was_bound_to_a_dead_machine_goes_though_its_node_was_made_anew(struck):
    """As somebody does who cleans up; the machine itself is still dead."""
    stage, refused = struck  # noqa: F811
    client, name = stage.bed.client, stage.victim.name
    client.delete("nodes", name)
    client.create("nodes", {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
    refused.remove()
    moved = stage.wait_moved()
    stage.wait_old_pods_gone()
    assert {each.uid_precondition for each in stage.engine.deletes(resource="pods", status=200)} == stage.moving_uids
    stage.check_bystanders()

    stage.victim.power_on()
    stage.wait_clean()
    stage.wait_all_closed()
    stage.wait_stays(moved)
    assert len(stage.engine.deletes(resource="pods", status=200)) == len(stage.moving)


def test_what_the_kubelet_of_a_machine_made_anew_has_started_is_its_own(struck):
    """It takes up whatever is bound to its name. That was deleted by force, though it ran."""
    stage, refused = struck  # noqa: F811
    stage.bed.client.delete("nodes", stage.victim.name)
    stage.victim.power_on()
    stage.victim.wait_ready()
    pods = stage.wait_runs_again()
    refused.remove()
    stage.wait_all_closed()
    assert stage.engine.deletes(resource="pods") == []
    stage.check_bystanders()
    assert {pod["metadata"]["uid"] for pod in stage.wait_settled()} == {pod["metadata"]["uid"] for pod in pods}
