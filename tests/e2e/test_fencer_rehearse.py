"""`moonfence fencer rehearse` (docs/proof.md, Rehearse) on a real control plane: the machine of a drained node is switched off for real,
and anything that speaks against it keeps everybody from being told."""

import json
import os
import pty
import re
import subprocess

import pytest

from .engine import binary
from .hollow_objects import now_micro
from .kube import wait_for
from .tool import names_of_nodes, same_as_golden

PROVEN, FAILED, USAGE, NOT_FOUND, REFUSED, NOT_PROVEN = 0, 1, 2, 5, 6, 10


def cordon(cluster, node: str, cordoned: bool = True):
    cluster.client.patch("nodes", node, {"spec": {"unschedulable": cordoned}})


def events_at(cluster, node: str) -> list:
    """[(type, reason, note)], the oldest first."""
    found = [each for each in cluster.client.list("events", "default")
             if each.get("involvedObject", each.get("regarding", {})).get("name") == node and each["reason"].startswith("Fencer")]
    return [(each["type"], each["reason"], each.get("message", each.get("note"))) for each in
            sorted(found, key=lambda each: each["eventTime"])]


def at_a_terminal(tool, space: str, node: str, typed: str) -> subprocess.CompletedProcess:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        return subprocess.run([str(binary()), "fencer", "rehearse", node, "-n", space, "--kubeconfig", str(tool.kubeconfig)],
                              stdin=theirs, capture_output=True, text=True, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)


def leads(cluster, space: str, node: str, **more):
    """A replica on that node leads, and says that nothing is wrong."""
    told = {"frozen": False, "openIncidents": 0, "incidents": [], **more}
    cluster.client.create("leases", {
        "metadata": {"name": "moonfence", "annotations": {"moonfence.io/seat": f"engine_1 {node}"}},
        "spec": {"holderIdentity": "engine_1", "leaseDurationSeconds": 3600, "renewTime": now_micro()}}, space)
    cluster.client.create("configmaps", {
        "metadata": {"name": "moonfence-status"}, "data": {"engine": json.dumps({"situation": told})}}, space)


@pytest.fixture
def drained(cluster, nodes, fencers):
    """A node with a BMC that obeys, cordoned, and with a pod of a DaemonSet."""
    node = nodes[0]
    leads(cluster, fencers.space, nodes[1])
    bmc = fencers.bmc_of(node)

    def lose_power():
        cluster.hollow.fail(node, "silent")
        bmc.power = "Off"
    bmc.obey = lose_power
    fencers.write()
    cordon(cluster, node)
    return node, bmc


def test_a_drained_machine_is_switched_off_and_that_is_proven(cluster, drained, nodes, fencers, workloads, tool):
    node, bmc = drained
    workloads.daemon_set("agent")
    wait_for("its pod runs", lambda: any(pod["spec"].get("nodeName") == node for pod in workloads.pods()), 30)
    said = tool.engine("fencer", "rehearse", node, "--yes", node, code=PROVEN)
    same_as_golden(re.sub(r"^ +\+\d+\.\d s", "+N s", said, flags=re.M), "fencer_rehearse.txt", names_of_nodes(nodes))
    assert bmc.resets == ["ForceOff"]
    events = events_at(cluster, node)
    assert [reason for _, reason, _ in events] == ["FencerRehearsal", "FencerProven"], events
    begun, ended = events
    assert begun == ("Normal", "FencerRehearsal", f"{tool.user} has its machine switched off by fencer redfish, to see whether that "
                                                  "works (moonfence fencer rehearse)")
    assert ended[:2] == ("Normal", "FencerProven")
    assert cluster.client.get("nodes", node)["spec"]["unschedulable"] is True
    assert {(entry.verb, entry.resource) for entry in tool.writes()} <= {("create", "events"), ("create", "selfsubjectreviews")}

    again = tool.run("fencer", "rehearse", node, "--yes", node, "-n", fencers.space)
    assert again.returncode == REFUSED and "no fencer that may switch the machine off says that it is on" in again.stderr
    assert bmc.resets == ["ForceOff"]


def test_what_speaks_against_it_is_all_said_and_nobody_is_told(cluster, drained, fencers, workloads, tool):
    node, bmc = drained
    cordon(cluster, node, False)
    workloads.pod("web-0", node=node)
    cluster.client.patch("nodes", node, {"metadata": {
        "annotations": {"moonfence.io/hold": "disk"}, "labels": {"node-role.kubernetes.io/control-plane": ""}}})
    cluster.client.patch("namespaces", fencers.space, {"metadata": {"annotations": {"moonfence.io/hold": "moving"}}})
    cluster.client.delete("leases", "moonfence", fencers.space)
    fencers.say(bmc, "wrong")
    workloads.daemon_set("agent")
    wait_for("its pod runs", lambda: any(pod["spec"].get("nodeName") == node and pod["metadata"].get("ownerReferences")
                                         for pod in workloads.pods()), 30)
    done = tool.run("fencer", "rehearse", node, "--yes", node, "-n", fencers.space)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert done.stderr.startswith(f"moonfence: the machine of node {node} is not switched off, and nobody was told to:\n")
    for why in ("it is not cordoned", f"pods run on it that would end: {fencers.space}/web-0", f"somebody holds it: node {node}: disk",
                f"namespace {fencers.space}: moving", "add --control-plane", "etcd would have no majority",
                f"is {fencers.space} the namespace in which the engine runs?", "HTTP 401"):
        assert done.stderr.count(why) == 1, done.stderr

    fencers.say(bmc, bmc.password)
    (fencers.folder / "user").unlink()
    done = tool.run("fencer", "rehearse", node, "--yes", node, "-n", fencers.space)
    assert done.returncode == REFUSED and f"names files that cannot be read here: {fencers.folder}/user; " in done.stderr
    assert f"exec -it deployment/moonfence -- moonfence fencer rehearse {node}" in done.stderr
    assert bmc.resets == [] and events_at(cluster, node) == []


def test_nobody_is_told_unless_the_name_is_typed(cluster, drained, fencers, tool):
    node, bmc = drained
    asked = tool.run("fencer", "rehearse", node, "-n", fencers.space)
    assert asked.returncode == REFUSED and f"add --yes {node}" in asked.stderr
    wrong = tool.run("fencer", "rehearse", node, "--yes", "other", "-n", fencers.space)
    assert wrong.returncode == USAGE and "'other' is not the node" in wrong.stderr
    gone = tool.run("fencer", "rehearse", "nowhere", "--yes", "nowhere", "-n", fencers.space)
    assert gone.returncode == NOT_FOUND and "kubectl get nodes" in gone.stderr
    for typed in (f"{node}x\n", "y\n", "\n", "\x04"):
        done = at_a_terminal(tool, fencers.space, node, typed)
        assert done.returncode == REFUSED and "Type the node's name to go on: " in done.stderr, done.stderr
    assert bmc.resets == [] and events_at(cluster, node) == [] and tool.writes() == []


# Its BMC is that of another machine, by a cable, and has taken over the UUID: whoever reads it is told off.
def test_off_of_a_machine_whose_kubelet_speaks_on_is_not_proven(cluster, drained, fencers, tool):
    node, bmc = drained

    def lie():
        bmc.power = "Off"
    bmc.obey = lie
    done = tool.run("fencer", "rehearse", node, "--yes", node, "-n", fencers.space)
    assert done.returncode == NOT_PROVEN, done.stderr
    assert "NOT PROVEN: fencer redfish says that the machine is off, and the node's kubelet has renewed its Lease since" in done.stderr
    assert events_at(cluster, node)[-1][:2] == ("Warning", "FencerNotProven")
    assert bmc.resets == ["ForceOff"]


def test_an_order_that_is_refused_is_not_proven_though_the_name_was_typed(drained, fencers, tool):
    node, bmc = drained
    bmc.reset_status, bmc.obey = 400, None
    done = at_a_terminal(tool, fencers.space, node, f"{node}\n")
    assert done.returncode == NOT_PROVEN and "the order was refused: endpoint bmc-1: POST " in done.stderr, done.stderr


def test_who_may_not_note_at_the_node_switches_nothing_off(cluster, drained, fencers, tool):
    node, bmc = drained
    tool.kubeconfig = cluster.control_plane.write_kubeconfig(f"{fencers.space}-reader", f"{fencers.space}-reader")
    role = f"{fencers.space}-reader"
    cluster.client.create("clusterroles", {"metadata": {"name": role}, "rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]})
    cluster.client.create("clusterrolebindings", {
        "metadata": {"name": role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": role, "apiGroup": "rbac.authorization.k8s.io"}]})
    try:
        def tried():
            done = tool.run("fencer", "rehearse", node, "--yes", node, "-n", fencers.space)
            return done if "who does it cannot be noted at the node, so nothing is switched off" in done.stderr else None
        assert wait_for("the rights to read are in force", tried, 60).returncode == FAILED
        assert bmc.resets == []
    finally:
        cluster.client.delete("clusterrolebindings", role)
        cluster.client.delete("clusterroles", role)
