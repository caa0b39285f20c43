"""The engine's own taint on a node that comes back without a reboot: handed back by the kubelet's own word when the last
old container has ended, and not before. How long that took is kept in the file MOONFENCE_MACHINE_RESULTS, not asserted.
"""

import time
from dataclasses import dataclass
from typing import Callable

import pytest

from cluster.node import Node
from cluster.results import keep
from e2e.engine import KUBELET_RULES, QUARANTINE_RULES, RULES, STORAGE_RULES
from e2e.workloads import node_ready, taints

from .chronicle import seconds
from .stage import FENCED, IGNORES, LIMIT, Stage, pod_spec

OURS = (FENCED, "NoSchedule")
RIGHTS = (*QUARANTINE_RULES, *KUBELET_RULES)
ALWAYS = {"quarantine": "always"}


@dataclass(frozen=True)
class Return:
    """`lasts`: so many seconds until it is mended."""

    name: str
    strike: Callable[[Node], None]
    mend: Callable[[Node], None]
    lasts: float


RETURNS = [
    pytest.param(Return("handed-back-cable-out-40", Node.cable_out, Node.cable_in, 40), id="cable-out-40"),
    # what a longer cut adds is in the gate as a story of test_failures.py
    pytest.param(Return("handed-back-cable-out-150", Node.cable_out, Node.cable_in, 150), id="cable-out-150",
                 marks=pytest.mark.slow),
    # nobody stops its containers while it is away, and it is another process when it is back
    pytest.param(Return("handed-back-kubelet-killed", lambda node: node.kill("kubelet"),
                        lambda node: node.start("kubelet"), 30), id="kubelet-killed",
                 marks=pytest.mark.long),
]


@pytest.fixture
def stage(whole, workloads, start_engine) -> Stage:
    """Without volumes: of one that a kubelet finds mounted when it starts, nobody learns that it is gone."""
    made = Stage(whole, workloads, whole.node(1), start_engine)
    made.fill()
    yield made
    if made.chronicle:
        made.chronicle.end()


def is_fenced(bed, node: Node) -> bool:
    return OURS in taints(bed.client.get("nodes", node.name))


def watch_hand_back(bed, node: Node, old: Callable[[], object]) -> dict:
    """Until the taint is gone. When it is found gone nothing of `old` may run: what has ended does not begin again.
    Moments of: Ready, the last old container's end, the end of the taint."""
    seen = {}
    limit = time.monotonic() + LIMIT
    while "lifted" not in seen:
        assert time.monotonic() < limit, f"{node.name} keeps its taint; {seen}"
        found = bed.client.get("nodes", node.name)
        if node_ready(found) == "True":
            seen.setdefault("ready", time.monotonic())
        if not old():
            seen.setdefault("ended", time.monotonic())
        if OURS not in taints(found):
            assert "ended" in seen, f"{node.name} was handed back while {old()} still ran"
            seen["lifted"] = time.monotonic()
        time.sleep(0.1)
    return seen


@pytest.mark.parametrize("back", RETURNS)
def test_a_node_that_was_away_is_handed_back_when_its_old_containers_have_ended(stage, back):
    stage.arm(rules=RIGHTS, config=ALWAYS)
    stage.strike(lambda: back.strike(stage.victim))
    stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_deletions()
    assert is_fenced(stage.bed, stage.victim)
    assert stage.old_processes()
    time.sleep(max(0.0, stage.struck + back.lasts - time.monotonic()))

    mended = time.monotonic()
    back.mend(stage.victim)
    seen = watch_hand_back(stage.bed, stage.victim, stage.old_processes)
    keep({"failure": back.name, "settings": stage.bed.settings.name, "volumes": [],
          **{f"{what}_after_mending": seconds(mended, at) for what, at in seen.items()}})
    stage.wait_clean()
    stage.check_bystanders()
    assert stage.engine.requests(status=403) == []


@pytest.mark.long
def test_an_old_container_that_takes_longer_than_everything_else_is_waited_for(whole, workloads, start_engine):
    """It is deaf to SIGTERM, and its grace period is longer than a node has to be Ready before it is asked."""
    victim = whole.node(1)
    workloads.stateful_set("stubborn", labels={"app": "noobaa"}, toleration_seconds=None,
                           pod_spec=pod_spec(IGNORES, grace=75, prefer=victim.name))
    old = workloads.wait_running("stubborn-0")
    assert old["spec"]["nodeName"] == victim.name
    engine = start_engine(rules=(*RULES, *STORAGE_RULES, *RIGHTS), config=ALWAYS)
    struck = time.monotonic()
    victim.cable_out()
    workloads.wait_running("stubborn-0", not_on=victim.name)
    engine.witness.check([old["metadata"]["uid"]])
    engine.witness = None  # before the API server forgets what happened
    assert is_fenced(whole, victim)
    time.sleep(max(0.0, struck + 40 - time.monotonic()))

    mended = time.monotonic()
    victim.cable_in()
    seen = watch_hand_back(whole, victim, lambda: victim.container_processes(old["metadata"]["uid"]))
    keep({"failure": "handed-back-stubborn", "settings": whole.settings.name, "volumes": [],
          **{f"{what}_after_mending": seconds(mended, at) for what, at in seen.items()}})
    assert seen["ended"] - mended > 60  # else this shows nothing
