"""`moonfence fencer rehearse` (docs/proof.md, Rehearse) of a real machine beside a moonfence that leads: its BMC switches it off, its kubelet
falls silent, and that is what is called proven. It comes back, and nothing of anybody was deleted."""

import pytest

from e2e.kube import wait_for
from e2e.tool import Tool

from . import bindings
from .bmc import bmcs, config, settings
from .stage import LIMIT, OBEYS, pod_spec

PROVEN, REFUSED = 0, 6


@pytest.fixture
def cordoned(whole):
    node = whole.node(1)
    whole.client.patch("nodes", node.name, {"spec": {"unschedulable": True}})
    yield node
    whole.client.patch("nodes", node.name, {"spec": {"unschedulable": None}})


def test_a_drained_machine_is_switched_off_for_real_and_that_is_proven(whole, cordoned, workloads, start_engine, tmp_path):
    victim, client, space = cordoned, whole.client, workloads.namespace
    workloads.pod("left", node=victim.name, pod_spec=pod_spec(OBEYS, grace=1))
    workloads.wait_running("left")
    with bmcs(whole, (victim,), inside=False) as made:
        bmc = made[victim.name]
        client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": f"api: 1\n{config(made)}\n"}}, space)
        bindings.bind(client, space)
        engine = start_engine(policy=None, mode=None, elect=True, rules=bindings.RIGHTS,
                              config={**bindings.CONFIG, **settings(made)}, flags=("--node-name", whole.node(2).name))
        tool = Tool(whole, workloads, tmp_path)

        def rehearse():
            return tool.run("fencer", "rehearse", victim.name, "--yes", victim.name, "-n", space)
        refused = wait_for("the pod alone speaks against it", lambda: next(
            (done for done in [rehearse()] if done.stderr.count("\n  - ") == 1), None), LIMIT, 1)
        assert refused.returncode == REFUSED and f"pods run on it that would end: {space}/left" in refused.stderr
        assert victim.is_on() and bmc.resets == []

        client.delete("pods", "left", space)
        workloads.wait("it is gone", lambda: not workloads.pods(), LIMIT)
        done = rehearse()
        assert done.returncode == PROVEN, done.stdout + done.stderr
        assert not victim.is_on() and bmc.resets == ["ForceOff"]
        victim.power_on()
        client.patch("nodes", victim.name, {"spec": {"unschedulable": None}})
        victim.wait_ready()
        assert engine.deletes() == []
