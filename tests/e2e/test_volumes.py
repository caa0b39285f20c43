"""Volume attachments of a dead node, on a real control plane with a stand-in attacher.

The stand-in publishes and unpublishes as external-attacher does: an attachment is gone only when the "storage"
has let go. It also counts volumes that were on two nodes at once; there must never be one.
"""

import contextlib
import time
from typing import Optional

import pytest

from .elected import RenewedLease
from .engine import RELEASE_RULES, RULES, STORAGE_RULES
from .faults import MOVED, holds
from .hollow_objects import unique_volume
from .kube import wait_for
from .policies import policy_text

BOTH = 'fence.delete_pod_and_attachments("its node is dead")'
RELEASED = 'fence.delete_pod_and_attachments("its node is dead", { release = true })'


@pytest.fixture
def storage(cluster, workloads, make_nodes, start_engine, tmp_path):
    """storage(...) -> (engine, node, pod): a StatefulSet pod with a volume on `node`, two other nodes to go to."""
    def make(verdict: str = BOTH, fencing: bool = True, release: bool = False, wait: str = "5m",
             config: Optional[dict] = None, server: str = "", **settings):
        (node,) = make_nodes(1)
        workloads.create_driver()
        if settings:
            cluster.hollow.attacher(workloads.driver, **settings)
        workloads.stateful_set("web", volume=True, toleration_seconds=600)
        workloads.wait_running("web-0")
        wait_for("its volume is published", lambda: attachment(cluster, workloads, node))
        make_nodes(2)
        policy = tmp_path / "both.lua"
        policy.write_text(policy_text("both", verdict, more='needs = { "volumes" },'))
        config = {"fencingDrivers": f"[{workloads.driver}]" if fencing else "[]",
                  "retryInterval": "500ms", "retryWindow": "10s", "replacementWait": wait, **(config or {})}
        if release:
            # the control plane's own controllers elect nobody
            controllers = elected.enter_context(RenewedLease(cluster.client, workloads.namespace, "controllers"))
            config |= {"release": "on", "controllerLease": controllers.text}
        engine = start_engine(policy=policy, config=config, server=server,
                              rules=[*RULES, *STORAGE_RULES, *(RELEASE_RULES if release else ())])
        return engine, node
    with contextlib.ExitStack() as elected:
        yield make
    assert not [volume for volume in cluster.hollow.status()["double"] if workloads.driver in str(volume)]


def attachment(cluster, workloads, node: str):
    return next((va for va in cluster.client.list("volumeattachments")
                 if va["spec"]["attacher"] == workloads.driver and va["spec"]["nodeName"] == node), None)


def reasons(engine, kind: str) -> list:
    return [record["reason"] for record in engine.records() if record["kind"] == kind]


def test_the_attachment_goes_after_its_pod_and_the_volume_is_attached_elsewhere(cluster, workloads, storage):
    engine, node = storage()
    cluster.hollow.fail(node, "silent")
    workloads.wait_running("web-0", not_on=node, seconds=120)
    assert engine.done("pods") == 1 and engine.done("volumeattachments") == 1
    order = [entry.resource for entry in engine.deletes()]
    assert order == ["pods", "volumeattachments"]
    intents = [r for r in engine.records() if r["kind"] == "intent"]
    assert [r["action"] for r in intents] == ["delete_pod", "delete_attachment"]
    assert intents[1]["attachment"].startswith("csi-") and intents[1]["attachment_uid"]


def test_the_incident_waits_for_the_storage_and_tells_its_words(cluster, workloads, storage):
    engine, node = storage(refuse_detach="array is offline")
    cluster.hollow.fail(node, "silent")
    wait_for("it says why it waits", lambda: any(
        r["reason"] == "awaiting_detach" and "array is offline" in r.get("text", "") for r in engine.records()), 60)
    assert attachment(cluster, workloads, node) and "incident_closed" not in {r["kind"] for r in engine.records()}
    assert engine.done("volumeattachments") == 1
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    wait_for("the attachment is gone", lambda: not attachment(cluster, workloads, node), 60)
    wait_for("the incident is closed", lambda: reasons(engine, "incident_closed") == ["settled"], MOVED)
    assert engine.done("volumeattachments") == 1


def test_a_driver_that_is_not_declared_to_fence_keeps_its_attachment(cluster, workloads, storage):
    engine, node = storage(fencing=False, wait="0")  # the volume is attached elsewhere after six minutes
    cluster.hollow.fail(node, "silent")
    wait_for("it refuses", lambda: "driver_not_declared" in reasons(engine, "refusal"), 60)
    wait_for("the incident is closed", lambda: "incident_closed" in {r["kind"] for r in engine.records()}, 60)
    assert engine.done("pods") == 1 and not engine.deletes(resource="volumeattachments")


def test_another_pod_of_the_node_keeps_the_attachment(cluster, workloads, storage):
    engine, node = storage()
    # a bare pod: no policy may delete it unless the binding allows it
    workloads.pod("other", node=node, claim="data-web-0", toleration_seconds=600)
    workloads.wait_running("other")
    cluster.hollow.fail(node, "silent")
    wait_for("it refuses", lambda: "volume_in_use" in reasons(engine, "refusal"), 60)
    holds(3, lambda: not engine.deletes(resource="volumeattachments"))
    workloads.client.delete("pods", "other", workloads.namespace, grace=0)
    wait_for("the attachment is deleted", lambda: engine.done("volumeattachments") == 1, 60)


def test_without_rights_to_read_claims_it_waits_for_them(cluster, workloads, storage):
    engine, node = storage()
    engine.account.allow(RULES)
    cluster.hollow.fail(node, "silent")
    wait_for("it waits", lambda: "needs_unread" in reasons(engine, "verdict"), 60)
    holds(3, lambda: not engine.deletes())
    assert "incident_closed" not in {r["kind"] for r in engine.records()}
    engine.account.allow([*RULES, *STORAGE_RULES])
    wait_for("both are deleted", lambda: engine.done("pods") == 1 and engine.done("volumeattachments") == 1, 90)


def claims(cluster, node: str) -> tuple:
    """What the node's kubelet and kube-controller-manager say of its volumes."""
    status = cluster.client.get("nodes", node)["status"]
    return status.get("volumesInUse") or [], [v["name"] for v in status.get("volumesAttached") or []]


def test_a_volume_is_released_as_soon_as_the_storage_has_let_go(cluster, workloads, storage):
    engine, node = storage(RELEASED, release=True, detach_delay=1.0)
    volume = unique_volume(workloads.driver, workloads.handle("data-web-0"))
    assert volume in claims(cluster, node)[0] and volume in claims(cluster, node)[1]
    cluster.hollow.fail(node, "silent")
    wait_for("the attachment is deleted", lambda: engine.done("volumeattachments") == 1, 60, 0.02)
    wait_for("the storage has let go", lambda: not attachment(cluster, workloads, node), 30, 0.01)
    gone = time.monotonic()
    # the controller's own check comes once a minute
    wait_for("the controller has heard of it", lambda: volume not in claims(cluster, node)[1], 30, 0.01, exact=True)
    took = time.monotonic() - gone
    workloads.wait_running("web-0", not_on=node, unaided=True)
    (released,) = [r for r in engine.records() if r["reason"] == "policy_releases"]
    assert released["action"] == "release_volume" and released["attachment_uid"]
    wait_for("it is acknowledged", lambda: "release_acknowledged" in reasons(engine, "outcome"), 30)
    print(f"off volumesAttached {took:.3f} s after the attachment was gone")


def test_nothing_is_released_while_the_storage_has_not_let_go(cluster, workloads, storage):
    engine, node = storage(RELEASED, release=True, refuse_detach="array is offline")
    volume = unique_volume(workloads.driver, workloads.handle("data-web-0"))
    cluster.hollow.fail(node, "silent")
    wait_for("it says why it waits", lambda: "awaiting_detach" in reasons(engine, "incident_held"), 60)
    holds(5, lambda: volume in claims(cluster, node)[0] and "policy_releases" not in reasons(engine, "intent"))
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    wait_for("it is released", lambda: volume not in claims(cluster, node)[0], 60)
    workloads.wait_running("web-0", not_on=node, unaided=True)


def test_a_restart_detaches_what_sigkill_left(cluster, workloads, storage):
    """The pod is gone and its attachment is not when the engine is killed; only the record knows of it."""
    engine, node = storage(refuse_detach="array is offline")
    cluster.hollow.fail(node, "silent")
    wait_for("the pod is deleted", lambda: engine.done("pods") == 1, 60, 0.01)
    engine.kill9()
    (record,) = [m for m in cluster.client.list("configmaps", engine.account.namespace)
                 if m["metadata"]["name"].startswith("moonfence-incident-")]
    assert record["metadata"]["labels"]["moonfence.io/incident"] == "open"
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    engine.start()
    workloads.wait_running("web-0", not_on=node, seconds=120)
    # by the engine that was killed, if its request had left, or by the next one; Kubernetes needs six minutes
    assert not [a for a in cluster.client.list("volumeattachments") if a["spec"]["nodeName"] == node]

    def closed():
        found = cluster.client.find("configmaps", record["metadata"]["name"], engine.account.namespace)
        return found["metadata"]["labels"]["moonfence.io/incident"] == "closed"
    wait_for("its record is closed", closed, 60)
