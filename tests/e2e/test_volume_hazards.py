"""How a volume could end up on two nodes, or go from under a pod that uses it: the engine waits or refuses.

The storage here tolerates two publishes, so that nobody but the engine and Kubernetes stands between two writers; the
fixture `storage` fails a test in which a volume was on two nodes at once. What a kubelet keeps staged on a node that
comes back unrebooted cannot be shown with stand-ins: they stage nothing.
"""

import time

from .faults import holds
from .kube import wait_for
from .test_volumes import attachment, deleted, reasons, storage  # noqa: F401 (storage is a fixture)

HOLD = "example.com/hold"


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


def test_while_the_storage_refuses_to_unpublish_no_other_node_gets_the_volume(cluster, workloads, storage):  # noqa: F811
    engine, node = storage(refuse_detach="array is offline")
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node), 60)
    wait_for("a replacement is there", lambda: (workloads.get_pod("web-0") or {"spec": {}})["spec"].get(
        "nodeName", node) != node, 60)
    nobody_else_has_it(cluster, workloads, engine, node, 6)
    assert deleted(engine, "volumeattachments") == 1
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    wait_for("the incident is closed", lambda: closed(engine), 60)
    assert reasons(engine, "incident_closed") == ["settled"]


def test_while_the_attacher_is_down_the_incident_waits(cluster, workloads, storage):  # noqa: F811
    """It was on the dead node itself, for example: the attachment is marked and nobody takes note."""
    engine, node = storage()
    cluster.hollow.attacher(workloads.driver, stopped=True)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node), 60)
    wait_for("it says that it waits", lambda: "awaiting_detach" in reasons(engine, "incident_held"), 30)
    nobody_else_has_it(cluster, workloads, engine, node, 6)
    cluster.hollow.attacher(workloads.driver, stopped=False)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], 60)
    assert deleted(engine, "pods") == 1 and deleted(engine, "volumeattachments") == 1


def test_a_controller_manager_that_restarts_during_the_detach_attaches_nothing_early(
        cluster, workloads, storage):  # noqa: F811
    engine, node = storage(detach_delay=8)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node), 60)
    cluster.control_plane.restart("kube-controller-manager", hard=True)
    seen = []
    while marked(cluster, workloads, node):
        seen += elsewhere(cluster, workloads, node)
        time.sleep(0.05)
    assert not seen and not attachment(cluster, workloads, node)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], 60)


def test_a_node_that_returns_during_the_detach_loses_nothing_more(cluster, workloads, storage):  # noqa: F811
    engine, node = storage(detach_delay=4)
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is marked", lambda: marked(cluster, workloads, node), 60)
    cluster.hollow.heal(node)
    wait_for("the incident is closed", lambda: closed(engine), 60)
    workloads.wait_running("web-0", seconds=120)
    assert deleted(engine, "pods") == 1 and deleted(engine, "volumeattachments") == 1
    assert not elsewhere(cluster, workloads, node) or not attachment(cluster, workloads, node)


def test_another_volume_of_the_same_handle_keeps_the_attachment(cluster, workloads, storage):  # noqa: F811
    """Two PersistentVolumes of one handle share one attachment, which names only the first of them."""
    engine, node = storage()
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
    holds(3, lambda: not engine.deletes(resource="volumeattachments"))
    workloads.client.delete("pods", "other", workloads.namespace, grace=0)
    wait_for("the attachment is deleted", lambda: deleted(engine, "volumeattachments") == 1, 60)


def test_a_pod_that_a_finalizer_keeps_keeps_its_attachment(cluster, workloads, storage):  # noqa: F811
    engine, node = storage()
    workloads.client.patch("pods", "web-0", {"metadata": {"finalizers": [HOLD]}}, workloads.namespace)
    cluster.hollow.fail(node, "silent")
    wait_for("the pod is marked only", lambda: "marked_only" in reasons(engine, "outcome"), 60)
    holds(4, lambda: not engine.deletes(resource="volumeattachments"))
    assert attachment(cluster, workloads, node) and not marked(cluster, workloads, node)
    workloads.client.patch("pods", "web-0", {"metadata": {"finalizers": None}}, workloads.namespace)
    wait_for("the attachment is deleted", lambda: deleted(engine, "volumeattachments") == 1, 60)
    wait_for("it is gone", lambda: not attachment(cluster, workloads, node), 60)
