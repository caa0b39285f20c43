"""Rows of StorageOS' policy, and of the engine about attachments, on a real control plane: all in one run of the
engine with the policy as it is shipped, its word on nodes and volumes from a stand-in of the REST API over real HTTP.
What takes a storage system's failures and logins has nodes of its own: test_sources.py.

The node is silenced when StorageOS calls it offline: nobody but the engine detaches its volumes then.
"""

import time

import pytest

from .audit import is_once
from .faults import holds
from .kube import wait_for
from .proxy_rules import Call, status_answer
from .stage import Stage, Subject
from .storage_api import StorageApi
from .workloads import free

OURS, FOREIGN = "csi.storageos.com", "ebs.csi.example.com"
LABEL = "storageos.com/fenced"
DYNAMIC = {"volume.beta.kubernetes.io/storage-provisioner": OURS}
NEWER = {"volume.kubernetes.io/storage-provisioner": OURS}
BINDINGS = "- {policy: storageos, source: builtin, namespaces: [shop], mode: enforce, holdDown: 0s}\n"
FAILS = status_answer(500, "InternalError")


def subject(row: str, drivers: tuple = (OURS,), node: str = "off", label: str = "true", **more) -> Subject:
    return Subject(row, "shop", node, drivers, labels={LABEL: label} if label else {}, **more)


WISHES = {"so-06-a": "1", "so-06-b": "t", "so-06-c": "T", "so-06-d": "TRUE", "so-06-e": "True"}
SUBJECTS = (
    subject("so-01", annotations=DYNAMIC), subject("so-02"), subject("so-03", annotations=NEWER), subject("so-04", label=""),
    *(subject(row, label=wish) for row, wish in WISHES.items()),
    subject("so-05", label="0"), subject("so-07", label="yes"), subject("so-09", ()),
    subject("so-11", annotations={"volume.beta.kubernetes.io/storage-provisioner": FOREIGN}),
    subject("so-12", (OURS,) * 3), subject("so-13", (OURS,) * 3), subject("so-14"),
    subject("so-16", (OURS, FOREIGN, OURS)), subject("so-17", (OURS, FOREIGN, OURS)),
    subject("so-19", node="odd"), subject("so-26"), subject("so-27"), subject("so-29"),
    subject("e-12", (OURS, OURS)), subject("e-13", (OURS, OURS)), subject("e-26", access_mode="ReadWriteMany"),
)
KEPT = ("so-04", "so-05", "so-07", "so-09", "so-11", "so-13", "so-19")
BESIDE = "so-01"  # of the same node, and deleted

pytestmark = pytest.mark.xdist_group("rows-storageos")


@pytest.fixture(scope="module", name="stage")
def fixture_stage(cluster, tmp_path_factory):
    folder = tmp_path_factory.mktemp("storageos")
    stage, api = Stage(cluster, folder, "so", SUBJECTS), StorageApi("so-shop")
    try:
        stage.add_nodes("off", "odd")
        stage.build()
        stage.add_nodes("spare-1", "spare-2")
        stage.api = api
        api.nodes = {stage.node(short): "online" for short in ("off", "odd", "spare-1", "spare-2")}
        api.volumes = {stage.handle(row, claim): "online" for row, each in stage.subjects.items() for claim in each.claims}
        api.volumes[stage.handle("so-13", "data-so-13-1")] = "offline"
        api.volumes[stage.handle("so-14", "data-so-14-0")] = "unknown"
        start(stage, folder)
        prepare(stage)
        wait_for("StorageOS is asked for its nodes", lambda: "/v2/nodes" in api.gets, 20)
        stage.fail("off", "silent")
        api.nodes.update({stage.node("off"): "offline", stage.node("odd"): "unknown", "so-ghost": "offline"})
        yield stage
    finally:
        api.stop()
        stage.close()


def start(stage, folder):
    (folder / "username").write_text("admin\n")
    (folder / "password").write_text("first-pw\n")
    login = (f"{{type: login, path: /v2/auth/login, usernameFile: {folder}/username, passwordFile: {folder}/password, "
             "tokenHeader: Authorization, expiresHeader: Authorization-Expires-Seconds}")
    stage.start(BINDINGS, [OURS, FOREIGN], config={
        "endpoints": f"{{storageos: {{url: {stage.api.url}, timeout: 3s, auth: {login}}}}}"})


def prepare(stage):
    """What the rows about attachments find, or run into."""
    client = stage.client
    for node in ("off", "odd"):  # Kubernetes calls them Ready: their replacements would come back
        client.patch("nodes", stage.node(node), {"spec": {"unschedulable": True}})
    free(client, "persistentvolumes", client.get("persistentvolumes", "pv-so-shop-data-so-17-1"))
    stage.replace_attachment("so-26", attacher="other.example.com")
    stage.replace_attachment("so-27", nodeName=stage.node("elsewhere"))
    stage.proxy.on("DELETE", "/pods/so-29-0$", FAILS, times=1)
    stage.proxy.on("DELETE", f"/{stage.attachment_name('e-12')}$", Call(lambda _: stage.detach("e-12")))
    stage.proxy.on("DELETE", f"/{stage.attachment_name('e-13')}$", FAILS, times=2)
    spec = stage.attachment("e-26")["spec"]
    inline = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"],
                                   "csi": {"driver": OURS, "volumeHandle": "inline"}}}
    for name, more in {"e-26-elsewhere": {"nodeName": stage.node("spare-1")}, "e-26-inline": {"source": inline}}.items():
        client.create("volumeattachments", {"metadata": {"name": name}, "spec": {**spec, **more}})


def pod_then_attachments(stage, row: str, *numbers: int):
    """The pod was deleted, then each of these attachments, all once; the pod's DELETE is returned."""
    pod = stage.wait_deleted(row)
    for number in numbers:
        asked = stage.wait_detached(row, number)
        assert is_once(stage.attachment_deletes(row, number)) and asked.uid_precondition and asked.received >= pod.staged
    assert pod.grace == 0 and is_once(stage.pod_deletes(row))
    return pod


def test_so_01_the_pod_then_its_attachment(stage):
    pod_then_attachments(stage, "so-01", 0)


def test_so_02_a_claim_without_annotation(stage):
    pod_then_attachments(stage, "so-02", 0)


def test_so_03_the_newer_annotation(stage):
    pod_then_attachments(stage, "so-03", 0)


@pytest.mark.parametrize("row", WISHES, ids=WISHES.values())
def test_so_06_what_counts_as_true(stage, row):
    pod_then_attachments(stage, row, 0)


def test_so_12_three_healthy_volumes(stage):
    pod_then_attachments(stage, "so-12", 0, 1, 2)


@pytest.mark.parametrize("row", ["so-16", "so-17"])
def test_so_16_so_17_another_drivers_volume_beside_also_when_it_is_missing(stage, row):
    pod_then_attachments(stage, row, 0, 2)
    assert stage.attachment_deletes(row, 1) == []


def test_so_26_an_attachment_of_another_attacher_stays(stage):
    stage.wait_deleted("so-26")
    wait_for("the engine says that it is another's", lambda: [
        r for r in stage.engine.records() if r["kind"] == "refusal" and r.get("pod_uid") == stage.subjects["so-26"].uid])
    assert stage.attachment_deletes("so-26") == []
    assert stage.attachment("so-26")["spec"]["attacher"] == "other.example.com"


def test_so_27_without_an_attachment_the_pod_goes(stage):
    stage.wait_deleted("so-27")
    assert stage.attachment_deletes("so-27") == []
    assert stage.attachment("so-27")["spec"]["nodeName"] == stage.node("elsewhere"), "it has none to the node that failed"


def test_so_29_a_pod_that_could_not_be_deleted_keeps_its_attachments_meanwhile(stage):
    pod_then_attachments(stage, "so-29", 0)
    first, second = stage.proxy.find("DELETE", "/pods/so-29-0$")
    (asked,) = stage.proxy.find("DELETE", f"/{stage.attachment_name('so-29')}$")
    assert first.status == 500 and second.status == 200 and asked.received_ns > second.received_ns


def test_e_12_an_attachment_that_is_gone_already_counts_as_deleted(stage):
    stage.wait_deleted("e-12")
    stage.wait_detached("e-12", 1)
    (gone,) = wait_for("the answer", lambda: stage.attachment_deletes("e-12"))
    holds(1.5, lambda: len(stage.attachment_deletes("e-12")) == 1)  # three retries would have been due
    assert gone.status == 404


def test_e_13_an_attachment_that_cannot_be_deleted_is_tried_again_though_its_pod_is_gone(stage):
    stage.wait_deleted("e-13")
    stage.wait_detached("e-13", 0)
    attempts = stage.proxy.find("DELETE", f"/{stage.attachment_name('e-13')}$")
    (other,) = stage.proxy.find("DELETE", f"/{stage.attachment_name('e-13', 1)}$")
    assert [e.status for e in attempts] == [500, 500, 200] and is_once(stage.pod_deletes("e-13"))
    assert other.received_ns < attempts[1].received_ns, "the other one does not wait for it"
    assert stage.pod_now("e-13") is None


def test_e_26_only_the_attachment_to_the_dead_node_goes(stage):
    pod_then_attachments(stage, "e-26", 0)
    for name in ("e-26-elsewhere", "e-26-inline"):
        assert stage.engine.deletes(name=name) == []
        assert "deletionTimestamp" not in stage.client.get("volumeattachments", name)["metadata"]


def test_so_14_a_volume_that_comes_online_12_s_later(stage):
    began = stage.wait_deleted("so-01").received
    wait_for("12 s have passed", lambda: time.time() > began + 12)
    stage.wait_judged("so-14", "policy_waits")
    assert stage.pod_deletes("so-14") == [] and stage.attachment_deletes("so-14") == []
    online = time.time()
    stage.api.volumes[stage.handle("so-14", "data-so-14-0")] = "online"
    assert pod_then_attachments(stage, "so-14", 0).received > online


def test_so_04_without_the_label(stage):
    stage.wait_deleted("so-01")
    stage.assert_kept("so-04")
    assert not [r for r in stage.engine.records() if r.get("pod_uid") == stage.subjects["so-04"].uid], "it is not asked about"


def test_so_05_label_0(stage):
    stage.kept("so-05", "policy_skips", BESIDE)


def test_so_07_a_label_that_says_neither(stage):
    stage.kept("so-07", "policy_skips", BESIDE)
    assert f"label {LABEL} of pod so-shop/so-07-0 is neither true nor false" in stage.engine.log()


def test_so_09_without_claims(stage):
    stage.kept("so-09", "policy_skips", BESIDE)


def test_so_11_another_provisioners_claim(stage):
    stage.kept("so-11", "policy_skips", BESIDE)


def test_so_13_one_of_three_volumes_is_not_online(stage):
    stage.kept("so-13", "policy_waits", BESIDE)


def test_so_19_unknown_is_no_reason(stage):
    stage.wait_deleted("so-01")
    stage.assert_kept("so-19")
    assert stage.engine.incidents(stage.node("odd")) == 0


def test_so_22_a_node_that_kubernetes_does_not_know(stage):
    stage.wait_deleted("so-01")
    assert stage.engine.incidents("so-ghost") == 0 and stage.engine.lists("so-ghost") == []


def test_in_the_end_nothing_else_was_deleted(stage):
    """Rows SO-04, SO-05, SO-07, SO-09, SO-13, SO-19: by the whole audit log, after all the others."""
    for row in KEPT:
        stage.assert_kept(row)
    assert stage.unaccounted(*(row for row in stage.subjects if row not in KEPT)) == []
