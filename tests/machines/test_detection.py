"""Machines that answer although Kubernetes gave them up keep their pods, until they are dead (docs/detection.md).

moonfence runs in the cluster: its pods ask the machines as they would anywhere.
"""

from typing import Callable

import pytest

from e2e.kube import wait_for
from e2e.replica import make_image
from e2e.workloads import node_ready

from . import bmc
from .bindings import DEAD, RISKS, bindings_file
from .chronicle import Chronicle
from .inside import Inside, InsideStage, installed
from .stage import LIMIT
from .test_inside import check_moved, node_of

pytestmark = pytest.mark.xdist_group("detection")


@pytest.fixture(scope="module")
def controllers(bed):
    with bmc.bmcs(bed) as made:
        yield made


@pytest.fixture(scope="module")
def inside(bed, controllers, tmp_path_factory):
    config = f"detection: on\nsilentTaint: on\nquarantine: missing\nrelease: on\n{bmc.config(controllers)}"
    with installed(bed, make_image().archive, tmp_path_factory.mktemp("detection"), ("detection", "taint", "release"), config) as made:
        made.wait_ready()
        yield made


def bind(inside: Inside, namespace: str, more: str = ""):
    """A policy that takes every pod of the namespace."""
    words = f"policy: dead, source: dead.lua, namespaces: [{namespace}], mode: enforce{more}"
    inside.policies.wait_observed(inside.policies.edit(
        moonfence_yaml=f"api: 1\nbindings:\n- {{{words}}}\n", dead_lua=DEAD))


def filled(whole, inside, workloads, start_engine, disks=None) -> InsideStage:
    """The workloads run, one pod of each on the node that has no replica of moonfence."""
    (bare,) = {node.name for node in whole.nodes} - {node_of(pod) for pod in inside.wait_ready()}
    made = InsideStage(whole, workloads, whole.node(bare), start_engine, disks)
    made.fill()
    made.prepare(inside)
    made.chronicle = Chronicle(whole.control_plane.client(timeout=30), workloads.namespace)
    return made


@pytest.fixture
def watched(whole, inside, workloads, start_engine) -> InsideStage:
    bind(inside, workloads.namespace)
    made = filled(whole, inside, workloads, start_engine)
    yield made
    made.chronicle.end()


def reasons(inside: Inside) -> set:
    """Why the open incidents wait, as the replica tells that leads."""
    return {incident.get("reason") for replica in inside.policies.status().values()
            for incident in replica.get("situation", {}).get("incidents", [])}


def check_held(stage: InsideStage, inside: Inside, strike: Callable[[], None]):
    """Kubernetes has given the node up, its Lease is dead, and its pods are left alone because its machine answers."""
    stage.strike(strike)
    wait_for("the node is Unknown", lambda: node_ready(stage.bed.client.get("nodes", stage.victim.name)) == "Unknown", LIMIT)
    wait_for("its machine answers", lambda: "kernel_answers" in reasons(inside), LIMIT)
    assert inside.deletes() == []


def test_a_killed_kubelet_keeps_its_pods_until_its_machine_has_no_power(watched, inside):
    check_held(watched, inside, lambda: watched.victim.kill("kubelet"))
    assert set(watched.old_processes()) == set(watched.moving)
    watched.victim.power_off()
    check_moved(watched, inside)
    watched.tell("kubelet-killed-then-power-off")
    watched.victim.power_on()
    watched.wait_clean()


# Not one driver is declared to fence: what has no power writes to no storage.
def test_pods_and_volumes_of_a_machine_that_is_off_do_not_wait_for_kubernetes(
        whole, inside, controllers, disks, workloads, start_engine):
    inside.policies.wait_observed(inside.policies.edit(
        moonfence_yaml=bindings_file(workloads.namespace, "  actOn: off\n"), risks_lua=RISKS))
    stage = filled(whole, inside, workloads, start_engine, disks)
    stage.strike(stage.victim.power_off)
    moved = stage.wait_moved()
    stage.wait_old_pods_gone()
    assert controllers[stage.victim.name].resets == []
    stage.victim.power_on()
    stage.wait_clean()
    record = stage.wait_closed()
    stage.check_record(record)
    assert record["opened_for"] == "node_lost"
    assert {record["policies"][step["policy"]]["evidence"] for step in record["steps"]} == {"silent, off (redfish: PowerState Off)"}
    stage.check_bystanders()
    stage.wait_stays(moved)
    stage.conclude("off-and-not-heard", power_lost=True)


def heard_elsewhere(inside: Inside) -> int:
    """Of how many machines that are silent to the replica that leads another one says that it hears them."""
    return max(replica.get("situation", {}).get("detection", {}).get("otherReplicas", {}).get("hearSilent", 0)
               for replica in inside.policies.status().values())


def test_a_machine_that_only_the_other_replica_hears_keeps_its_pods(watched, inside):
    leader = watched.bed.node(inside.leader()["spec"]["nodeName"])
    with leader.parted_from(watched.victim):
        check_held(watched, inside, lambda: watched.victim.kill("kubelet"))
        wait_for("the other replica hears it", lambda: heard_elsewhere(inside) == 1, LIMIT)
        watched.victim.power_off()
        check_moved(watched, inside)
    watched.tell("heard-elsewhere-then-power-off")
    watched.victim.power_on()
    watched.wait_clean()


def is_kept_free(stage: InsideStage) -> bool:
    """New pods are kept off the node, by moonfence."""
    spec = stage.bed.client.get("nodes", stage.victim.name)["spec"]
    return ("moonfence.io/silent", "NoSchedule") in {(taint["key"], taint["effect"]) for taint in spec.get("taints", [])}


def test_new_pods_are_kept_off_a_silent_machine_until_it_answers(watched, inside):
    watched.strike(watched.victim.cable_out)
    wait_for("its node is tainted", lambda: is_kept_free(watched), LIMIT)
    watched.victim.cable_in()
    wait_for("it is taken off again", lambda: not is_kept_free(watched), LIMIT)
    watched.wait_all_closed()
    assert inside.deletes() == []
    pods = {pod["metadata"]["uid"] for pod in watched.wait_settled()}
    assert set(watched.old_uids.values()) <= pods
    watched.check_bystanders()


def test_a_frozen_machine_keeps_its_pods_and_goes_on_when_it_thaws(watched, inside):
    check_held(watched, inside, watched.victim.freeze)
    watched.victim.thaw()
    watched.wait_all_closed()
    assert inside.deletes() == []
    pods = {pod["metadata"]["uid"] for pod in watched.wait_settled()}
    assert set(watched.old_uids.values()) <= pods
    watched.wait_back()
    watched.check_bystanders()
