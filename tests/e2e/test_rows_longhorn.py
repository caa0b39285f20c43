"""Rows of Longhorn's policy on a real control plane, all in one run of the engine with the policy as it is shipped.

Waits that a row names are scaled by settings where they are above 30 s. "Nothing" is: judged by the policy, no DELETE
in the API server's audit log, and still there when the rows beside it have long been dealt with.
"""

import time

import pytest

from .faults import holds
from .kube import wait_for
from .proxy_rules import Call
from .stage import Stage, Subject, parse_time
from .workloads import free, node_ready

OURS, FOREIGN = "driver.longhorn.io", "ebs.csi.example.com"
BINDINGS = "".join(
    f"- {{policy: longhorn, source: builtin, namespaces: [{space}], mode: enforce, holdDown: 0s, settings: {{{settings}}}}}\n"
    for space, settings in {
        "nothing": "node_down_pod_deletion_policy: do-nothing, ready_false_delay: 1s",
        "sts": "node_down_pod_deletion_policy: delete-statefulset-pod, ready_false_delay: 1s",
        "deploy": "node_down_pod_deletion_policy: delete-deployment-pod, ready_false_delay: 1s",
        "both": "node_down_pod_deletion_policy: delete-both-statefulset-and-deployment-pod, ready_false_delay: 1s",
        "bounded": "node_down_pod_deletion_policy: delete-statefulset-pod, ready_false_delay: 1s, attachment_wait: 4s, "
                   "attachment_timeout: delete",
        "held": "node_down_pod_deletion_policy: delete-statefulset-pod, ready_false_delay: 1s, attachment_wait: 4s",
        "usual": "node_down_pod_deletion_policy: delete-statefulset-pod",
        "unset": "ready_false_delay: 1s",
    }.items())


def subject(row: str, space: str, drivers: tuple = (OURS,), node: str = "dead", **more) -> Subject:
    return Subject(row, space, node, drivers, **more)


SUBJECTS = (
    subject("lh-01", "nothing"), subject("lh-02", "unset"), subject("lh-03", "sts"), subject("lh-04", "sts", kind="Deployment"),
    subject("lh-05-rs", "deploy", kind="Deployment"), subject("lh-05-sts", "deploy"),
    subject("lh-06-rs", "both", kind="Deployment"), subject("lh-06-sts", "both"),
    subject("lh-07-daemon", "both", kind="DaemonSet"), subject("lh-07-job", "both", kind="Job"),
    subject("lh-07-bare", "both", kind="bare"), subject("lh-07-custom", "both", kind="custom"),
    subject("lh-09", "both"), subject("lh-10", "both"), subject("lh-11", "both"),
    subject("lh-12-bounded", "bounded"), subject("lh-12-held", "held"),
    subject("lh-13", "both", (OURS, OURS, OURS)), subject("lh-14", "both", access_mode="ReadWriteMany"),
    subject("lh-15", "both", (OURS, FOREIGN)), subject("lh-16", "both", (FOREIGN,)),
    subject("lh-18", "both", (OURS, OURS)), subject("lh-19", "usual"),
    subject("lh-20", "usual", node="silent"), subject("lh-22", "both", node="lost"), subject("lh-24", "both"), subject("lh-25", "both", (OURS, OURS)),
)
KEPT = ("lh-01", "lh-02", "lh-04", "lh-05-sts", "lh-07-daemon", "lh-07-job", "lh-07-bare", "lh-07-custom", "lh-09", "lh-16")
LATER = ("lh-09", "lh-10", "lh-19", "lh-22", "lh-24")  # not asked to go with the others
BESIDE = "lh-06-sts"  # of the same node, and deleted

pytestmark = pytest.mark.xdist_group("rows-longhorn")


@pytest.fixture(scope="module", name="stage")
def fixture_stage(cluster, tmp_path_factory):
    stage = Stage(cluster, tmp_path_factory.mktemp("longhorn"), "lh", SUBJECTS)
    try:
        stage.add_nodes("dead", "silent", "lost")
        stage.build()
        stage.add_nodes("spare-1", "spare-2", "spare-3", "spare-4")
        stage.start(BINDINGS, [OURS, FOREIGN])
        stage.other = attach_elsewhere(stage)
        stage.keep_detached("lh-03")
        remove_claim(stage, "lh-18", "data-lh-18-1")
        for row, number in (("lh-11", 0), ("lh-12-bounded", 0), ("lh-12-held", 0), *(("lh-13", each) for each in range(3))):
            stage.hold(row, number)
        stage.proxy.on("DELETE", f"/{stage.attachment_name('lh-25')}$", Call(lambda _: stage.detach("lh-25")))
        # its kubelet is silenced first, so that the pods stay terminating
        for node, mode in {"silent": "silent", "dead": "notready"}.items():
            stage.fail(node, mode)
        stage.failed_at = time.time()
        stage.terminate(*(row for row in stage.subjects if row not in LATER))
        stage.terminate("lh-10", grace=20)
        stage.terminate("lh-19")
        lose_node(stage)
        yield stage
    finally:
        stage.close()


def lose_node(stage):
    """LH-22: the Node object goes while a pod of it hangs, long before Kubernetes calls the node anything but Ready."""
    stage.fail("lost", "silent")
    stage.terminate("lh-22", grace=5)
    stage.lost = stage.client.get("nodes", stage.node("lost"))
    assert node_ready(stage.lost) == "True"
    stage.lost_at = time.time()
    stage.client.delete("nodes", stage.node("lost"), uid=stage.lost["metadata"]["uid"])


def remove_claim(stage, row: str, name: str):
    """Although a pod uses it: Kubernetes protects it again if it is not quick, and it would only be terminating."""
    def removed() -> bool:
        claim = stage.client.find("persistentvolumeclaims", name, stage.namespace(row))
        if claim:
            free(stage.client, "persistentvolumeclaims", claim)
        return not claim
    wait_for(f"claim {name} is gone", removed)


def attach_elsewhere(stage) -> str:
    """LH-14: somebody has attached the volume of its pod to another node already."""
    ours = stage.attachment("lh-14")
    stage.client.create("volumeattachments", {
        "metadata": {"name": "lh-14-elsewhere"},
        "spec": {**ours["spec"], "nodeName": stage.node("spare-1")}})
    return "lh-14-elsewhere"


def attachments_then_pod(stage, row: str, count: int = 1):
    """Each attachment is deleted, each is gone, then the pod is deleted; its DELETE is returned. (As long as the pod
    is there Kubernetes may attach its volume again, and the engine deletes that one too: it may come when the pod is
    about to go.)"""
    pod = stage.wait_deleted(row)
    for number in range(count):
        asked = stage.attachment_deletes(row, number)
        assert asked and all(each.status in (200, 504) and each.uid_precondition for each in asked)
        assert asked[0].received < stage.attachment_gone_at(row, number) <= pod.received
    assert pod.grace == 0 and pod.received >= stage.deadlines[row]
    return pod


def test_lh_03_lh_17_a_terminating_pod_past_its_deadline_goes(stage):
    """All volumes of this run are static ones, without StorageClass and annotations."""
    pod = stage.wait_deleted("lh-03")
    assert pod.received >= stage.deadlines["lh-03"] and stage.attachment_deletes("lh-03") == []


def test_lh_05_delete_deployment_pod(stage):
    attachments_then_pod(stage, "lh-05-rs")
    stage.wait_judged("lh-05-sts", "policy_skips")
    stage.assert_kept("lh-05-sts")


def test_lh_06_delete_both(stage):
    attachments_then_pod(stage, "lh-06-rs")
    attachments_then_pod(stage, "lh-06-sts")


def test_lh_13_three_attachments_go_in_one_pass_and_the_pod_at_once_after_the_last(stage):
    """All three are held: who asked for the next one only when the one before has gone would stop at the first. (How
    many passes asked tells nothing here: Kubernetes may attach a volume again, and it is detached again.)"""
    wait_for("all three are about to go, while each is still there", lambda: all(
        "deletionTimestamp" in stage.attachment("lh-13", number)["metadata"] for number in range(3)), 90)
    assert stage.pod_deletes("lh-13") == []
    for number in range(3):
        stage.hold("lh-13", number, held=False)
    attachments_then_pod(stage, "lh-13", 3)


def test_lh_14_the_attachment_to_another_node_is_not_touched(stage):
    attachments_then_pod(stage, "lh-14")
    assert stage.engine.deletes(name=stage.other) == []
    assert "deletionTimestamp" not in stage.client.get("volumeattachments", stage.other)["metadata"]


def test_lh_15_another_drivers_attachment_stays_and_does_not_keep_the_pod(stage):
    attachments_then_pod(stage, "lh-15")
    assert stage.attachment_deletes("lh-15", 1) == [] and stage.attachment("lh-15", 1)


def test_lh_25_an_attachment_that_is_gone_already_stops_neither_the_next_nor_the_pod(stage):
    pod = stage.wait_deleted("lh-25")
    # as long as the pod is there Kubernetes, which looks once a minute, may attach its volumes again
    gone, *_ = stage.proxy.find("DELETE", f"/{stage.attachment_name('lh-25')}$")
    other, *_ = stage.proxy.find("DELETE", f"/{stage.attachment_name('lh-25', 1)}$")
    assert gone.status == 404 and other.status == 200
    assert stage.attachment_gone_at("lh-25", 1) <= pod.received


def test_lh_18_a_missing_claim_beside_is_ignored(stage):
    attachments_then_pod(stage, "lh-18")


def test_lh_24_a_pod_that_becomes_terminating_later(stage):
    stage.wait_judged("lh-24", "policy_waits")
    assert stage.pod_deletes("lh-24") == [] and stage.attachment_deletes("lh-24") == []
    stage.terminate("lh-24")
    attachments_then_pod(stage, "lh-24")


def test_lh_11_a_pod_stays_as_long_as_an_attachment_is_there(stage):
    stage.wait_detached("lh-11")
    holds(3, lambda: stage.pod_deletes("lh-11") == [])
    assert "deletionTimestamp" in stage.attachment("lh-11")["metadata"]
    stage.hold("lh-11", held=False)
    attachments_then_pod(stage, "lh-11")


def test_lh_12_after_a_bounded_wait_the_pod_is_held_or_deleted_as_set(stage):
    stage.wait_deleted("lh-12-bounded")
    # by the clock that it waits by: a busy API server takes one request up sooner than another
    assert 4 <= stage.intended_at("lh-12-bounded", "pod") - stage.judged_at("lh-12-bounded")
    assert stage.attachment("lh-12-bounded")
    waited = stage.wait_detached("lh-12-held").received
    wait_for("a longer wait than that", lambda: time.time() > waited + 6, 20)
    assert stage.pod_deletes("lh-12-held") == [] and stage.pod_now("lh-12-held")
    for row in ("lh-12-bounded", "lh-12-held"):
        (warning,) = wait_for(f"a warning tells of {row}", lambda row=row: [
            e for e in stage.client.list("events", stage.namespace(row))
            if e["reason"] == "DetachOverdue" and e["involvedObject"]["uid"] == stage.subjects[row].uid])
        assert warning["type"] == "Warning"


def test_lh_10_the_attachment_goes_at_once_and_the_pod_at_its_deadline(stage):
    asked = stage.wait_detached("lh-10")
    pod = attachments_then_pod(stage, "lh-10")
    assert asked.received < pod.received >= stage.deadlines["lh-10"] >= stage.failed_at + 19


def test_lh_19_ready_false_counts_after_15_s(stage):
    first = stage.wait_detached("lh-19")
    ready = next(c for c in stage.client.get("nodes", stage.node("dead"))["status"]["conditions"] if c["type"] == "Ready")
    # transition times have whole seconds
    assert 14 < first.received - parse_time(ready["lastTransitionTime"])
    attachments_then_pod(stage, "lh-19")


def test_lh_20_ready_unknown_counts_at_once(stage):
    first = stage.wait_detached("lh-20")
    ready = next(c for c in stage.client.get("nodes", stage.node("silent"))["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "Unknown"
    (opened, *_) = [r for r in stage.engine.records() if r["kind"] == "incident_opened" and r["node"] == stage.node("silent")]
    assert opened["reason"] == "node_unknown" and parse_time(opened["time"]) <= first.received
    attachments_then_pod(stage, "lh-20")


def test_lh_22_the_terminating_pod_of_a_deleted_node_goes(stage):
    """Kubernetes collects such pods as well, some time after their node; this deletion is the engine's."""
    pod = attachments_then_pod(stage, "lh-22")
    assert stage.deadlines["lh-22"] <= pod.received and pod.user == stage.engine.user
    (opened,) = [r for r in stage.engine.records()
                 if r["kind"] == "incident_opened" and r["node"] == stage.node("lost")]
    assert (opened["reason"], opened["node_uid"]) == ("node_deleted", stage.lost["metadata"]["uid"])
    assert not stage.client.find("nodes", stage.node("lost"))


def test_lh_01_do_nothing(stage):
    stage.kept("lh-01", "policy_skips", BESIDE)


def test_lh_02_nothing_is_set(stage):
    stage.kept("lh-02", "policy_skips", BESIDE)


def test_lh_04_delete_statefulset_pod_keeps_a_deployments_pod(stage):
    stage.kept("lh-04", "policy_skips", BESIDE)


@pytest.mark.parametrize("kind", ["job", "custom"])
def test_lh_07_other_owners(stage, kind):
    stage.kept(f"lh-07-{kind}", "policy_skips", BESIDE)


@pytest.mark.parametrize("kind", ["daemon", "bare"])
def test_lh_07_pods_that_no_policy_is_asked_about(stage, kind):
    stage.wait_deleted("lh-06-sts")
    stage.assert_kept(f"lh-07-{kind}")


def test_lh_09_a_pod_that_is_not_terminating(stage):
    stage.kept("lh-09", "policy_waits", BESIDE)
    assert "deletionTimestamp" not in stage.pod_now("lh-09")["metadata"]


def test_lh_16_another_drivers_volumes(stage):
    stage.kept("lh-16", "policy_skips", BESIDE)


def test_in_the_end_nothing_else_was_deleted(stage):
    """Rows LH-01, LH-04, LH-05, LH-07, LH-09, LH-16: by the whole audit log, after all the others."""
    for row in KEPT:
        stage.assert_kept(row)
    assert stage.unaccounted(*(row for row in stage.subjects if row not in KEPT)) == []
