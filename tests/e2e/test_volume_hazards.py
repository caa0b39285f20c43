"""How a volume could end up on two nodes, or go from under a pod that uses it: the engine waits or refuses.

The storage here tolerates two publishes, so that nobody but the engine and Kubernetes stands between two writers; the
fixture `storage` fails a test in which a volume was on two nodes at once. What a kubelet keeps staged on a node that
comes back unrebooted cannot be shown with stand-ins: they stage nothing.

Most of them are played with a release and without. With one each patch of a node's status is judged by the API
server's audit log: nothing may come off the list of volumes in use whose attachment was not gone by then.
"""

import itertools
import signal
import threading
import time

import pytest

from chaos.judge import Absence, faults_of_patches, released_by

from .elected import RenewedLease
from .faults import MOVED, holds
from .hollow_objects import unique_volume
from .kube import wait_for
from .proxy_rules import Call, DelayAnswer
from .test_volumes import BOTH, RELEASED, attachment, claims, reasons, storage  # noqa: F401 (storage is a fixture)
from .witness import Witness

HOLD = "example.com/hold"
FOR_EVER = 1 << 62  # newer than every revision


class Hazard:
    """A StatefulSet's pod with a volume on a node, and an engine that releases volumes or does not."""

    def __init__(self, cluster, workloads, storage, releases: bool):  # noqa: F811
        self.cluster, self.workloads, self.storage, self.releases = cluster, workloads, storage, releases
        self.engine = self.node = self.volume = None

    def make(self, **settings) -> tuple:
        """As the fixture `storage` does."""
        self.engine, self.node = self.storage(RELEASED if self.releases else BOTH, release=self.releases, **settings)
        self.volume = unique_volume(self.workloads.driver, self.workloads.handle("data-web-0"))
        return self.engine, self.node

    def releasing(self) -> list:
        """The volumes of each patch that released some, by the audit log."""
        patches = self.engine.requests(verb="patch", resource="nodes", subresource="status", status=200)
        return [released_by(entry) for entry in patches]

    def is_claimed(self) -> tuple:
        """Whether kubelet and Kubernetes say that the node has the volume."""
        in_use, attached = claims(self.cluster, self.node)
        return self.volume in in_use, self.volume in attached

    def not_released(self) -> bool:
        return self.releasing() == [] and self.is_claimed() == (True, True)

    def released_once(self) -> bool:
        return self.releasing() == ([[self.volume]] if self.releases else [])

    def check(self):
        if self.engine:
            log = self.engine.audit().entries()
            ours = [entry for entry in log if entry.user == self.engine.user]
            assert faults_of_patches(ours, {self.node}, self.workloads.driver, Absence(log)) == []


@pytest.fixture(params=[False, True], ids=["waiting", "releasing"])
def hazard(request, cluster, workloads, storage):  # noqa: F811
    made = Hazard(cluster, workloads, storage, request.param)
    yield made
    made.check()


@pytest.fixture
def releasing(cluster, workloads, storage):  # noqa: F811
    """Where only a release makes it one."""
    made = Hazard(cluster, workloads, storage, True)
    yield made
    made.check()


def elsewhere(cluster, workloads, node: str) -> list:
    return [a["spec"]["nodeName"] for a in workloads.attachments() if a["spec"]["nodeName"] != node]


def marked(cluster, workloads, node: str) -> bool:
    found = attachment(cluster, workloads, node)
    return bool(found) and "deletionTimestamp" in found["metadata"]


def closed(engine) -> bool:
    return "incident_closed" in {record["kind"] for record in engine.records()}


def nobody_else_has_it(cluster, workloads, engine, node: str, seconds: float):
    """For so long the attachment stays marked, the incident open, and no other node gets the volume."""
    def waits():
        return (marked(cluster, workloads, node) and not elsewhere(cluster, workloads, node) and not closed(engine))
    holds(seconds, waits)


def test_while_the_storage_refuses_to_unpublish_no_other_node_gets_the_volume(cluster, workloads, hazard):
    engine, node = hazard.make(refuse_detach="array is offline")
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    wait_for("a replacement is there", lambda: (workloads.get_pod("web-0") or {"spec": {}})["spec"].get(
        "nodeName", node) != node, 60)
    nobody_else_has_it(cluster, workloads, engine, node, 6)
    assert engine.done("volumeattachments") == 1 and hazard.not_released()
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    wait_for("the incident is closed", lambda: closed(engine), MOVED)
    assert reasons(engine, "incident_closed") == ["settled"] and hazard.released_once()


def test_while_the_attacher_is_down_the_incident_waits(cluster, workloads, hazard):
    """It was on the dead node itself, for example: the attachment is marked and nobody takes note."""
    engine, node = hazard.make()
    cluster.hollow.attacher(workloads.driver, stopped=True)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    wait_for("it says that it waits", lambda: "awaiting_detach" in reasons(engine, "incident_held"), 30)
    nobody_else_has_it(cluster, workloads, engine, node, 6)
    assert hazard.not_released()
    cluster.hollow.attacher(workloads.driver, stopped=False)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], MOVED)
    assert engine.done("pods") == 1 and engine.done("volumeattachments") == 1 and hazard.released_once()


def told(client, namespace: str) -> set:
    """(reason, name) of the events about pods."""
    return {(e["reason"], e["involvedObject"]["name"]) for e in client.list("events", namespace)
            if e["involvedObject"].get("kind") == "Pod"}


@pytest.fixture
def attacher(cluster, workloads):
    """The Lease of the driver's attacher."""
    lease = RenewedLease(cluster.client, workloads.namespace, "attacher", seconds=5, every=0.5)
    yield lease
    lease.remove()


def test_while_the_attachers_lease_is_stale_no_pod_is_deleted_and_somebody_is_told(
        cluster, workloads, releasing, attacher):
    """Its deletion would start the six minutes after which Kubernetes attaches elsewhere, detached or not."""
    space = workloads.namespace
    engine, node = releasing.make(config={"attacherLeases": f"{{{workloads.driver}: {attacher.text}}}"})
    attacher.start().fall_silent()
    time.sleep(5)  # until its Lease has run out
    cluster.hollow.attacher(workloads.driver, stopped=True)
    cluster.hollow.fail(node, "silent")
    wait_for("the owner of the pod is told", lambda: ("FencingRefused", "web-0") in told(
        cluster.client, space), 60)
    holds(4, lambda: not engine.deletes() and releasing.not_released())
    assert not marked(cluster, workloads, node) and "attacher_silent" in reasons(engine, "refusal")

    cluster.hollow.attacher(workloads.driver, stopped=False)
    attacher.start()
    workloads.wait_running("web-0", not_on=node, unaided=True)
    assert engine.done("pods") == 1 and engine.done("volumeattachments") == 1 and releasing.released_once()


def test_an_attacher_that_falls_silent_during_the_detach_has_nothing_released(
        cluster, workloads, releasing, attacher):
    """Its Lease runs out after the attachment was marked. Kubernetes' own check finds the volume within a minute."""
    attacher.start()
    engine, node = releasing.make(config={"attacherLeases": f"{{{workloads.driver}: {attacher.text}}}"},
                                  refuse_detach="busy")
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    attacher.fall_silent()
    holds(5, releasing.not_released)  # until its Lease has run out
    refused = reasons(engine, "refusal").count("attacher_silent")
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    wait_for("it is refused", lambda: reasons(engine, "refusal").count("attacher_silent") > refused, 30)
    assert not attachment(cluster, workloads, node) and releasing.releasing() == []
    workloads.wait_running("web-0", not_on=node, seconds=MOVED)
    assert releasing.releasing() == []


def test_a_controller_manager_that_restarts_during_the_detach_attaches_nothing_early(
        cluster, workloads, hazard):
    # forgotten by the restart, the volume is free for the replacement after six minutes only, or with a release
    engine, node = hazard.make(detach_delay=8, wait="0")
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    cluster.control_plane.restart("kube-controller-manager", hard=True)
    while node in (holders := [each["spec"]["nodeName"] for each in workloads.attachments()]):
        assert holders == [node]  # of one list: between two readings the volume may move
        time.sleep(0.05)
    if hazard.releases:
        workloads.wait_running("web-0", not_on=node, seconds=30)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], MOVED)
    assert hazard.released_once()


@pytest.mark.parametrize("when", ["before the release", "after the release"])
def test_a_controller_manager_that_dies_around_the_release_goes_on_where_it_was(
        cluster, workloads, releasing, proxy, when):
    """Its successor reads volumesAttached, which lists the volume until it has detached it."""
    engine, node = releasing.make(server=proxy.server)
    plane, path = cluster.control_plane, rf"/nodes/{node}/status$"
    dies = threading.Event()

    def die(_=None):
        plane.stop_component("kube-controller-manager", hard=True)
        dies.set()
    # after it: the controller stands still from before the release on, so that it cannot do a part of its work first
    freeze = Call(lambda _: plane.processes.signal("kube-controller-manager", signal.SIGSTOP))
    proxy.on("PATCH", path, Call(die) if when.startswith("before") else freeze, times=1)
    cluster.hollow.fail(node, "silent")
    try:
        proxy.wait(1, "PATCH", path, seconds=60)
        if not when.startswith("before"):
            wait_for("it is released", lambda: not releasing.is_claimed()[0], 60, 0.002)
            die()
        assert dies.wait(60)
        wait_for("it is released", releasing.released_once, 60)
        time.sleep(2)
        assert not elsewhere(cluster, workloads, node)
    finally:
        plane.stop_component("kube-controller-manager", hard=True)  # it may stand still
        plane.start_component("kube-controller-manager")
    workloads.wait_running("web-0", not_on=node, unaided=True)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], MOVED)
    assert releasing.released_once() and releasing.is_claimed() == (False, False)


def test_a_node_that_returns_during_the_detach_loses_nothing_more(cluster, workloads, hazard):
    engine, node = hazard.make(detach_delay=4)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    cluster.hollow.heal(node)
    wait_for("the incident is closed", lambda: closed(engine), MOVED)
    workloads.wait_running("web-0", seconds=120)
    assert engine.done("pods") == 1 and engine.done("volumeattachments") == 1
    assert not elsewhere(cluster, workloads, node) or not attachment(cluster, workloads, node)
    assert hazard.releasing() == []


def was_in_use(witness: Witness, node: str, volume: str) -> list:
    """Whether the node's list had the volume, one word for each change."""
    versions = witness.history(node, FOR_EVER)
    return [key for key, _ in itertools.groupby(volume in (v["status"].get("volumesInUse") or []) for v in versions)]


@pytest.mark.parametrize("frozen", [False, True], ids=["at once", "before Kubernetes looks"])
def test_a_kubelet_that_restores_its_list_right_after_the_release_harms_nobody(
        cluster, workloads, releasing, proxy, frozen):
    """The attachment is gone already. Kubernetes may see the two changes of the list as one, or not."""
    engine, node = releasing.make(server=proxy.server)
    witness, path = Witness(cluster.client, workloads.namespace), rf"/nodes/{node}/status$"
    processes = cluster.control_plane.processes
    freeze = Call(lambda _: processes.signal("kube-controller-manager", signal.SIGSTOP))
    proxy.on("PATCH", path, freeze if frozen else DelayAnswer(0.5), times=1)
    cluster.hollow.fail(node, "silent")
    try:
        (patch, *_) = proxy.wait(1, "PATCH", path, seconds=60)
        wait_for("it is released", lambda: not releasing.is_claimed()[0], 10, 0.001)
        cluster.hollow.heal(node)
        took = time.monotonic() - patch.received_ns / 1e9
    finally:
        processes.signal("kube-controller-manager", signal.SIGCONT)
    wait_for("the incident is closed", lambda: closed(engine), 60)
    workloads.wait_running("web-0", seconds=MOVED)
    print(f"restored {1000 * took:.0f} ms after the release was asked for; {engine.records()[-8:]}")
    wait_for("the kubelet has unmounted it", lambda: not releasing.is_claimed()[0], 30)
    assert was_in_use(witness, node, releasing.volume) == [True, False, True, False]
    assert releasing.released_once() and engine.done("pods") == 1 and engine.done("volumeattachments") == 1
    assert reasons(engine, "incident_closed") == ["node_ready"]


def test_a_kubelet_that_returns_as_the_release_leaves_is_not_overruled(cluster, workloads, releasing, proxy):
    """Between the reading and the patch: what the patch tests is not so any more, and it changes nothing."""
    engine, node = releasing.make(server=proxy.server)
    path = rf"/nodes/{node}/status$"

    def back(_):
        cluster.hollow.heal(node)
    proxy.on("PATCH", path, Call(back), times=1)
    cluster.hollow.fail(node, "silent")
    (patch, *_) = proxy.wait(1, "PATCH", path, seconds=60)
    wait_for("the patch is answered", lambda: patch.upstream_statuses, 10)
    assert patch.upstream_statuses == [422]
    wait_for("the incident is closed", lambda: closed(engine), 60)
    assert reasons(engine, "incident_closed") == ["node_ready"]
    workloads.wait_running("web-0", seconds=MOVED)
    assert releasing.releasing() == []
    assert ("StorageWithdrawn", "web-0") in told(cluster.client, workloads.namespace)

def use_it_too(workloads, node: str):
    """Another pod of the node with the same claim, of which the scheduler was not asked."""
    workloads.pod("other", node=node, claim="data-web-0", toleration_seconds=600)


def test_another_pod_of_the_node_keeps_the_volume(cluster, workloads, releasing):
    engine, node = releasing.make()
    use_it_too(workloads, node)
    workloads.wait_running("other")
    cluster.hollow.fail(node, "silent")
    wait_for("it refuses", lambda: "volume_in_use" in reasons(engine, "refusal"), 60)
    holds(3, lambda: not engine.deletes(resource="volumeattachments") and releasing.not_released())
    workloads.client.delete("pods", "other", workloads.namespace, grace=0)
    wait_for("the attachment is deleted", lambda: engine.done("volumeattachments") == 1, 60)
    wait_for("it is released", releasing.released_once, 30)


def test_a_pod_that_comes_to_use_the_volume_before_the_release_keeps_it(cluster, workloads, releasing):
    """It was bound to the dead node while the storage let go: the controller would attach for it at its next check."""
    engine, node = releasing.make(detach_delay=4)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node))
    use_it_too(workloads, node)
    wait_for("the storage has let go", lambda: not attachment(cluster, workloads, node), 60, 0.02)
    wait_for("it refuses", lambda: "volume_in_use" in reasons(engine, "refusal"), 30)
    # Where the volume goes is not asked: Kubernetes' own check of attachments, once a minute, may fall into this.
    holds(4, lambda: releasing.releasing() == [] and releasing.is_claimed()[0])
    workloads.client.delete("pods", "other", workloads.namespace, grace=0)


def test_another_volume_of_the_same_handle_keeps_the_attachment(cluster, workloads, hazard):
    """Two PersistentVolumes of one handle share one attachment, which names only the first of them."""
    engine, node = hazard.make()
    workloads.create_volume("twin", handle=workloads.handle("data-web-0"))
    workloads.client.create("persistentvolumeclaims", {"metadata": {"name": "twin"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": workloads.driver,
        "resources": {"requests": {"storage": "1Gi"}}}}, workloads.namespace)
    wait_for("the twin is bound", lambda: workloads.client.get(
        "persistentvolumeclaims", "twin", workloads.namespace)["status"].get("phase") == "Bound", 60)
    workloads.pod("other", node=node, claim="twin", toleration_seconds=600)
    workloads.wait_running("other")
    assert len(workloads.attachments()) == 1
    cluster.hollow.fail(node, "silent")
    wait_for("it refuses", lambda: "volume_in_use" in reasons(engine, "refusal"), 60)
    holds(3, lambda: not engine.deletes(resource="volumeattachments") and hazard.not_released())
    workloads.client.delete("pods", "other", workloads.namespace, grace=0)
    wait_for("the attachment is deleted", lambda: engine.done("volumeattachments") == 1, 60)
    if hazard.releases:
        wait_for("it is released", hazard.released_once, 30)


def test_a_pod_that_a_finalizer_keeps_keeps_its_attachment(cluster, workloads, storage):  # noqa: F811
    engine, node = storage()
    workloads.client.patch("pods", "web-0", {"metadata": {"finalizers": [HOLD]}}, workloads.namespace)
    cluster.hollow.fail(node, "silent")
    wait_for("the pod is marked only", lambda: "marked_only" in reasons(engine, "outcome"), 60)
    holds(4, lambda: not engine.deletes(resource="volumeattachments"))
    assert attachment(cluster, workloads, node) and not marked(cluster, workloads, node)
    workloads.client.patch("pods", "web-0", {"metadata": {"finalizers": None}}, workloads.namespace)
    wait_for("the attachment is deleted", lambda: engine.done("volumeattachments") == 1, 60)
    wait_for("it is gone", lambda: not attachment(cluster, workloads, node), 60)
