"""Proof by the storage, on real machines: a machine behind a cut cable lives and writes, and its BMC is dead. The engine has its
storage told to refuse it (docs/proof.md, Having a node isolated), and only then is anything of it given to another node. On
this storage a detach stops nobody: what keeps two from writing is the refusal alone."""

import contextlib
import socket

import pytest

from cluster import csi_addons
from cluster.volumes import DRIVER
from e2e.kube import wait_for
from e2e.workloads import taints

from .bmc import LABEL
from .disks import LIMIT, RISKED
from .refused import Refused
from .stage import Stage, preference

KINDS = ("csiaddonsnodes", "networkfences")
RULES = ({"apiGroups": [csi_addons.GROUP], "resources": list(KINDS), "verbs": ["list"]},
         {"apiGroups": [csi_addons.GROUP], "resources": ["networkfences"], "verbs": ["create"]})
POD = f"{RISKED}-0"


@pytest.fixture
def lifted(whole):
    """What a test that failed has left is lifted, of machines that are off."""
    yield
    left = whole.client.list("networkfences")
    for node in whole.nodes if left else ():
        node.power_off()
    for each in left:
        csi_addons.lift(whole.client, each["metadata"]["name"])


@pytest.fixture
def disk(whole, test_id):
    made = Refused(whole, test_id)
    yield made
    made.remove()


@contextlib.contextmanager
def dead_bmc(client, node: str):
    """It has an address, and whoever calls hears nothing. Gives its URL."""
    client.patch("nodes", node, {"metadata": {"labels": {LABEL: "dead"}}})
    try:
        with socket.create_server(("127.0.0.1", 0)) as deaf:
            yield f"http://127.0.0.1:{deaf.getsockname()[1]}"
    finally:
        client.patch("nodes", node, {"metadata": {"labels": {LABEL: None}}})


def config(bmc: str) -> dict:
    reads = ", ".join(["v1/nodes", *(f"{csi_addons.API}/{kind}" for kind in KINDS)])
    return {
        "proof": "{everywhere: [off, isolated]}", "fencingDrivers": "[]", "allowedReads": f"[{reads}]",
        "allowedWrites": f"[{csi_addons.API}/networkfences]",
        "endpoints": f"{{dead: {{url: '{bmc}'}}}}",
        "fencers": f"[{{fencer: redfish, nodes: {LABEL}, switchOff: true, settings: {{endpoint_label: {LABEL}}}}}, "
                   f"{{fencer: network-fence, isolate: true, settings: {{drivers: [{DRIVER}], classes: [{csi_addons.CLASS}]}}}}]"}


def wait_fence(stage: Stage) -> str:
    """The name of the one that the engine has made."""
    client = stage.bed.client
    stage.workloads.wait("the node is isolated", lambda: client.list("networkfences"), LIMIT)
    (made,) = client.list("networkfences")
    assert made["metadata"]["annotations"] == {"moonfence.io/node": stage.victim.name}
    assert made["spec"]["cidrs"] == csi_addons.addresses(client, stage.victim.name)
    return made["metadata"]["name"]


def wait_mount_refused(stage: Stage) -> dict:
    """The pod was made anew on the node, which may not have its volume. Gives the pod."""
    def told() -> bool:
        pod = stage.workloads.get_pod(POD)
        return pod if pod and pod["spec"].get("nodeName") == stage.victim.name and any(
            event["involvedObject"].get("uid") == pod["metadata"]["uid"] and "the storage refuses the node" in event["message"]
            for event in stage.workloads.client.list("events", stage.workloads.namespace)) else None
    return stage.workloads.wait("the volume is not mounted", told, LIMIT)


def test_a_machine_whose_bmc_is_dead_is_refused_by_its_storage_before_anything_of_it_is_given_away(
        whole, lifted, disk, workloads, start_engine):
    victim, client = whole.node(1), whole.client
    disk.create(preference(victim.name))
    old = workloads.wait_running(POD)
    assert old["spec"]["nodeName"] == victim.name
    stage = Stage(whole, workloads, victim, start_engine, disk, moving=(RISKED,), old={RISKED: old})
    with dead_bmc(client, victim.name) as bmc:
        stage.engine = stage.start(config=config(bmc), rules=RULES)
        disk.wait_more(RISKED, pod=old)

        victim.cable_out()
        disk.wait_more(RISKED, pod=old)  # it writes on
        disk.wait_tries(victim, old, done=2)
        fence = wait_fence(stage)
        csi_addons.wait_message(client, fence, csi_addons.FENCED)
        disk.wait_tries(victim, old, failed=2)
        written = disk.tries(victim, old)[0]
        moved = stage.wait_moved()[RISKED]
        disk.wait_more(RISKED, pod=moved)
        stage.check_deletions()
    assert client.get("networkfences", fence)["metadata"]["finalizers"] == [f"{csi_addons.GROUP}/network-fence"]

    # With a dead kubelet nobody ends the old containers when the network is back.
    victim.kill("kubelet")
    victim.cable_in()
    disk.wait_tries(victim, old, failed=5)
    assert disk.tries(victim, old)[0] == written and stage.old_processes()
    victim.start("kubelet")
    victim.wait_ready()
    record = stage.wait_closed()
    stage.check_record(record)
    assert {record["policies"][step["policy"]]["evidence"] for step in record["steps"]} == {
        f"unreachable, isolated (network-fence: {DRIVER} isolated: NetworkFence {fence})"}
    wait_for("the old containers have ended", lambda: not stage.old_processes(), LIMIT)

    # Ready as it is, it gets no volume, not after a reboot either.
    client.delete("pods", POD, workloads.namespace)
    wait_mount_refused(stage)
    victim.reboot()
    victim.wait_ready()
    csi_addons.lift(client, fence)
    back = workloads.wait_running(POD)
    assert back["spec"]["nodeName"] == victim.name and not taints(client.get("nodes", victim.name))
    disk.wait_more(RISKED, pod=back)

    report = disk.judge([RISKED])[RISKED]
    assert report.whole and not report.overlaps, report
    assert [writer.pod for writer in report.writers] == [pod["metadata"]["uid"] for pod in (old, moved, back)]
