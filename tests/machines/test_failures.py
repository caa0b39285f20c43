"""Every way in which a machine fails, with the same workloads: what runs where meanwhile, and that it ends clean.

How long each took is kept in the file MOONFENCE_MACHINE_RESULTS, not asserted.
"""

import time
from dataclasses import dataclass
from typing import Callable

import pytest

from cluster.node import Node

from .stage import BYSTANDER, STATELESS


@dataclass(frozen=True)
class Failure:
    """`lasts`: so many seconds at least until it is mended. `moves`: the workloads that moonfence moves; (): all."""

    name: str
    strike: Callable[[Node], None]
    mend: Callable[[Node], None]
    lasts: float = 0
    moves: tuple = ()


LONG, SLOW = 60, 150  # seconds; what lasts for the latter is in --full: one that lasts for the former is of its kind
FAILURES = [
    Failure("cable-out-20", Node.cable_out, Node.cable_in, 20),
    Failure("cable-out-60", Node.cable_out, Node.cable_in, 60),
    Failure("cable-out-150", Node.cable_out, Node.cable_in, 150),
    Failure("freeze-30", Node.freeze, Node.thaw, 30),
    Failure("kubelet-killed", lambda node: node.kill("kubelet"), lambda node: node.start("kubelet")),
    # The kubelet lives and says NotReady: what has a volume stays, by policies that wait until its Lease is dead.
    Failure("containerd-killed", lambda node: node.kill("containerd"), lambda node: node.start("containerd"),
            moves=STATELESS),
]


@pytest.mark.parametrize("failure", [
    pytest.param(each, id=each.name, marks=[mark for mark, least in ((pytest.mark.long, LONG), (pytest.mark.slow, SLOW))
                                            if each.lasts >= least]) for each in FAILURES])
def test_pods_of_a_node_that_fails_run_elsewhere_and_it_comes_back_clean(stage, failure):
    stage.moving = failure.moves or stage.everything
    stage.arm()
    stage.strike(lambda: failure.strike(stage.victim))
    moved = stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_deletions()
    # nobody on such a node stops them: that is what volumes have to be fenced for
    assert set(stage.old_processes()) == set(stage.moving)
    time.sleep(max(0.0, stage.struck + failure.lasts - time.monotonic()))

    failure.mend(stage.victim)
    stage.wait_clean()
    stage.check_record(stage.wait_closed())
    stage.wait_stays(moved)
    stage.check_bystanders()
    assert len(stage.engine.deletes(resource="pods")) == len(stage.moving)
    stage.conclude(failure.name, power_lost=False)


def test_a_quick_reboot_ends_with_everything_running_once(stage):
    stage.arm()
    stage.strike(stage.victim.reboot)
    stage.victim.wait_ready()
    pods = stage.wait_runs_again()
    stage.wait_back()
    stage.check_bystanders()
    here = {p["metadata"]["uid"] for p in pods if p["spec"]["nodeName"] == stage.victim.name}
    assert set(stage.old_uids[name] for name in stage.old_processes()) <= here
    # It may be over before anybody notices. Then nothing is done; else what was done stands in a record that is closed.
    records = stage.wait_all_closed()
    steps = [step for record in records for step in record["steps"]]
    deleted = {each.uid_precondition for each in stage.engine.deletes(resource="pods", status=200)}
    assert deleted == {step["pod"]["uid"] for step in steps if step["step"] == "delete_pod"}
    assert deleted == set(stage.old_uids.values()) - {p["metadata"]["uid"] for p in stage.workloads.pods()}
    stage.conclude("quick-reboot", power_lost=True)


def test_pods_of_two_nodes_that_fail_at_once_run_on_the_third(stage):
    stage.arm()
    second, third = stage.bed.node(2), stage.bed.node(3)

    def strike():
        stage.victim.power_off()
        second.power_off()
    stage.strike(strike)
    stage.wait_moved(stage.victim.name, second.name)
    assert {p["spec"]["nodeName"] for p in stage.wait_settled()} == {third.name}
    # Where the second node was the first to be noticed, its pods' replacements could go to this one.
    stage.check_record(stage.wait_closed(stage.victim.name), came=BYSTANDER)
    if any(pod["spec"]["nodeName"] == second.name for pod in stage.others):
        stage.wait_closed(second.name)
    second.power_on()
    second.wait_ready()
    stage.victim.power_on()
    stage.wait_clean()
    stage.conclude("two-nodes", power_lost=True)
