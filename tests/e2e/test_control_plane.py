"""The test cluster itself: does it behave like Kubernetes, and only like Kubernetes?"""

import os
import re
import signal
import time
from dataclasses import replace

import pytest

from .audit import ENTRY_BEGINS, AuditLog, Entry
from .control_plane import FOLLOWERS
from .explain import explain, explained
from .hollow_objects import unique_volume
from .kube import wait_for
from .processes import free_port
from .workloads import is_ready, node_ready

UNREACHABLE = "node.kubernetes.io/unreachable"


def test_a_stateful_set_runs_with_its_volumes(cluster, nodes, workloads):
    workloads.stateful_set("db", replicas=2, volume=True)
    for index in range(2):
        pod = workloads.wait_running(f"db-{index}")
        node = pod["spec"]["nodeName"]
        assert node in nodes
        attachment = workloads.attachment(f"data-db-{index}", node)
        assert attachment["status"]["attached"] is True
        assert f"external-attacher/{workloads.driver}" in attachment["metadata"]["finalizers"]
        volume = unique_volume(workloads.driver, workloads.handle(f"data-db-{index}"))
        status = cluster.client.get("nodes", node)["status"]
        assert volume in status["volumesInUse"]
        assert volume in [v["name"] for v in status["volumesAttached"]]


def test_a_living_node_stops_its_pods_in_order(cluster, nodes, workloads):
    workloads.stateful_set("db", volume=True)
    node = workloads.wait_running("db-0")["spec"]["nodeName"]
    log = cluster.audit()
    cluster.client.patch("statefulsets", "db", {"spec": {"replicas": 0}}, workloads.namespace)
    workloads.wait_pod("db-0", "is gone", lambda p: p is None)
    wait_for("the volume is detached", lambda: workloads.attachments() == [], 30)
    assert not cluster.client.get("nodes", node)["status"].get("volumesInUse")
    kubelet = log.deletes(by="hollow-nodes", resource="pods", name="db-0")
    assert kubelet and kubelet[0].grace == 0 and kubelet[0].uid_precondition


def test_without_a_fencer_pods_of_a_dead_node_hang(cluster, nodes, workloads):
    log = cluster.audit()
    workloads.stateful_set("db", volume=True, toleration_seconds=1)
    before = workloads.wait_running("db-0")
    node, uid = before["spec"]["nodeName"], before["metadata"]["uid"]

    cluster.hollow.fail(node)
    workloads.wait_node(node, "Unknown", 30)
    workloads.wait_taint(node, UNREACHABLE, "NoSchedule")
    workloads.wait_taint(node, UNREACHABLE, "NoExecute")
    workloads.wait_terminating("db-0")

    # it hangs: looked at for a while, since nothing will ever happen that one could wait for
    until = time.monotonic() + 8
    while time.monotonic() < until:
        pod = workloads.get_pod("db-0")
        assert pod["metadata"]["uid"] == uid and "deletionTimestamp" in pod["metadata"]
        assert workloads.attachment("data-db-0", node)["status"]["attached"] is True
        time.sleep(0.25)
    assert {e.user for e in log.deletes(resource="pods", namespace=workloads.namespace)} == {
        "system:serviceaccount:kube-system:node-controller"}

    # what an administrator does by hand: the pod comes back, its volume stays where it was
    cluster.client.delete("pods", "db-0", workloads.namespace, grace=0, uid=uid)
    fresh = workloads.wait_pod("db-0", "is bound elsewhere", lambda p: bool(p) and p["metadata"]["uid"] != uid
                               and p["spec"].get("nodeName") not in (None, node))
    assert not is_ready(fresh)
    # and the node returns: the old volume is released, the pod gets it
    cluster.hollow.heal(node)
    workloads.wait_node(node, "True")
    workloads.wait_running("db-0", not_on=node)
    assert cluster.hollow.status()["double"] == []


def test_a_pod_without_volume_comes_back_elsewhere_after_a_forced_delete(cluster, nodes, workloads):
    workloads.stateful_set("web", toleration_seconds=1)
    pod = workloads.wait_running("web-0")
    node = pod["spec"]["nodeName"]
    cluster.hollow.fail(node)
    workloads.wait_taint(node, UNREACHABLE, "NoSchedule")
    workloads.wait_terminating("web-0")
    cluster.client.delete("pods", "web-0", workloads.namespace, grace=0, uid=pod["metadata"]["uid"])
    workloads.wait_running("web-0", not_on=node)


def test_release_last_moves_a_volume_at_once(cluster, nodes, workloads):
    """Pod, attachment, wait until it is gone, volumesInUse: the procedure of the engine, by hand."""
    workloads.stateful_set("db", volume=True, toleration_seconds=300)
    pod = workloads.wait_running("db-0")
    node = pod["spec"]["nodeName"]
    attachment = workloads.attachment("data-db-0", node)
    cluster.hollow.fail(node)
    workloads.wait_node(node, "Unknown", 30)
    workloads.wait_taint(node, UNREACHABLE, "NoSchedule")
    cluster.client.delete("pods", "db-0", workloads.namespace, grace=0, uid=pod["metadata"]["uid"])
    cluster.client.delete("volumeattachments", attachment["metadata"]["name"], uid=attachment["metadata"]["uid"])
    wait_for("the attachment is gone", lambda: workloads.attachment("data-db-0", node) is None, 10, 0.02)
    in_use = cluster.client.get("nodes", node)["status"]["volumesInUse"]
    volume = unique_volume(workloads.driver, workloads.handle("data-db-0"))
    cluster.client.patch("nodes", node, [
        {"op": "test", "path": "/status/volumesInUse", "value": in_use},
        {"op": "replace", "path": "/status/volumesInUse", "value": [v for v in in_use if v != volume]},
    ], kind="json", subresource="status")
    workloads.wait_running("db-0", not_on=node, unaided=True)
    assert cluster.hollow.status()["double"] == []


def test_a_storage_system_that_refuses_to_detach(cluster, nodes, workloads):
    workloads.stateful_set("db", volume=True)
    node = workloads.wait_running("db-0")["spec"]["nodeName"]
    cluster.hollow.attacher(workloads.driver, refuse_detach="the array does not answer")
    cluster.client.delete("volumeattachments", workloads.attachment("data-db-0", node)["metadata"]["name"])
    stuck = wait_for("a detachError", lambda: (workloads.attachment("data-db-0", node) or {}).get("status", {})
                     .get("detachError") and workloads.attachment("data-db-0", node))
    assert stuck["status"]["detachError"]["message"] == "the array does not answer"
    cluster.hollow.attacher(workloads.driver, refuse_detach="")
    uid = stuck["metadata"]["uid"]
    wait_for("it is detached", lambda: (workloads.attachment("data-db-0", node) or {"metadata": {"uid": ""}})
             ["metadata"]["uid"] != uid)


@pytest.mark.parametrize("mode,ready,lease_lives", [
    ("notready", "False", True), ("missing", "", False), ("missing-alive", "", True)])
def test_other_ways_to_fail(cluster, make_nodes, workloads, mode, ready, lease_lives):
    (node,) = make_nodes(1)
    cluster.hollow.fail(node, mode)
    assert node_ready(cluster.client.get("nodes", node)) == ready

    def renewed():
        return cluster.client.get("leases", node, "kube-node-lease")["spec"]["renewTime"]
    first = renewed()
    if lease_lives:
        wait_for("the Lease is renewed", lambda: renewed() != first, 10)
        assert node_ready(cluster.client.get("nodes", node)) == ready
    else:
        workloads.wait_node(node, "Unknown", 60)
        assert renewed() == first
    cluster.hollow.heal(node)
    workloads.wait_node(node, "True")


def test_a_living_node_that_was_taken_for_dead_says_that_it_lives(cluster, make_nodes, workloads):
    """As a kubelet: within some 10 s, not with its next regular status only, which may be a minute away."""
    (node,) = make_nodes(1)
    cluster.client.patch("nodes", node, {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
                         kind="strategic", subresource="status")
    workloads.wait_node(node, "True", 30)


def test_a_rebooted_node_has_another_boot_id(cluster, make_nodes, workloads):
    (node,) = make_nodes(1)
    before = cluster.client.get("nodes", node)["status"]["nodeInfo"]
    cluster.hollow.fail(node)
    cluster.hollow.heal(node, reboot=True)
    after = wait_for("a new boot id", lambda: (lambda i: i if i["bootID"] != before["bootID"] else None)(
        cluster.client.get("nodes", node)["status"]["nodeInfo"]))
    assert {**after, "bootID": ""} == {**before, "bootID": ""}


def test_everything_survives_a_restart_of_the_api_server(cluster, nodes, workloads):
    plane = cluster.control_plane
    before = {name: plane.processes.pid(name) for name in FOLLOWERS}
    plane.restart("kube-apiserver", hard=True, down=1)
    assert all(plane.processes.pid(name) not in (None, before[name]) for name in FOLLOWERS)
    workloads.stateful_set("web", replicas=3)
    workloads.wait_all_running("web", 3)
    # on a busy machine heartbeats may be late; a node that is Unknown for that says soon that it lives
    wait_for("the nodes are Ready", lambda: all(
        node_ready(cluster.client.get("nodes", n)) == "True" for n in nodes), 30)


def test_a_service_account_token_is_who_it_says(cluster, workloads):
    log = cluster.audit()
    token = cluster.client.token("default", workloads.namespace)
    someone = cluster.control_plane.token_client(token, user_agent="somebody/1")
    with pytest.raises(Exception) as refused:
        someone.list("pods")
    assert refused.value.status == 403
    (entry,) = log.find(agent="somebody/1", resource="pods")
    assert entry.user == f"system:serviceaccount:{workloads.namespace}:default" and entry.status == 403


@pytest.mark.parametrize("name,renewed,seconds", [
    ("kube-controller-manager", (), 10), ("kube-apiserver", FOLLOWERS, 60)])
def test_a_component_that_crashes_is_started_again(cluster, name, renewed, seconds):
    """Else a test that needs it hangs, and says nothing of the reason."""
    plane = cluster.control_plane
    before = {each: plane.processes.pid(each) for each in (name, *renewed)}
    os.kill(before[name], signal.SIGKILL)
    wait_for("it runs again, and its followers anew", lambda: all(
        plane.processes.pid(each) not in (None, pid) for each, pid in before.items()), seconds)
    # a controller manager that has just begun gives up when no API server answers it for 10 s
    assert [crashed for crashed, _ in plane.crashed if crashed not in renewed] == [name]
    plane.crashed.clear()


def test_what_was_waited_for_in_vain_is_explained(cluster, make_nodes, workloads):
    (node,) = make_nodes(1)
    workloads.pod("homeless", pod_spec={"nodeSelector": {"no-such": "node"}})
    # The scheduler writes both, in any order. One that was restarted just now may not know of the node yet and says so.
    event, *_ = wait_for("its event", lambda: cluster.client.list("events", workloads.namespace))
    workloads.wait_pod("homeless", "is known to fit nowhere", lambda p: p["status"].get("conditions"))
    with pytest.raises(TimeoutError) as vain:
        workloads.wait_running("homeless", seconds=0)
    text = str(vain.value)
    assert f"pod {workloads.namespace}/homeless is Running" in text
    assert re.search(r"(?m)^  homeless \(.*\): Pending on no node, .*PodScheduled=False Unschedulable .*nodes", text)
    assert re.search(rf"(?m)^  {node}: Ready=True .*taints: none", text)
    assert f" FailedScheduling Pod/homeless: {event['message']}" in text
    for name in FOLLOWERS:
        assert f"end of {name}.log:" in text
    assert explained(text)


def test_an_explanation_does_not_need_an_api_server(cluster):
    unreachable = cluster.control_plane.client()
    unreachable.access = replace(unreachable.access, server=f"https://127.0.0.1:{free_port()}")
    assert explain(unreachable, "default").count("not to be had: [Errno 111] Connection refused") == 3


def test_a_port_that_was_given_is_not_given_again_soon():
    """An engine asks for three before it listens on any. Chosen by chance, two of them were the same once in two thousand."""
    given = [free_port() for _ in range(3000)]
    assert len(set(given)) == len(given)


def test_half_an_audit_entry_hides_none():
    """A killed API server leaves an entry without its end; the next server's first entry follows in that line."""
    whole = ENTRY_BEGINS + 'v1","verb":"get","stage":"ResponseComplete","requestURI":"/readyz"}'
    assert Entry.parse(whole[:70] + whole).uri == "/readyz"
    assert Entry.parse(whole).uri == "/readyz"


def test_an_audit_log_is_read_whatever_its_entries_hold(tmp_path):
    """A letter that was cut in two by the server's end, and one that counts as an end of line."""
    entry = ENTRY_BEGINS + 'v1","verb":"get","stage":"ResponseComplete","requestURI":"/%s"}'
    log = tmp_path / "audit.log"
    log.write_bytes((entry % "a\u2026").encode()[:-3] + (entry % "b\x85").encode() + b"\n" + entry.encode()[:40])
    assert [e.uri for e in AuditLog(log).entries()] == ["/b\x85"]


def test_a_view_of_the_audit_log_never_begins_within_an_entry(tmp_path):
    """A file grows page by page while a long entry is written: `mark()` came within one, and half of it was read."""
    entry = ENTRY_BEGINS + 'v1","verb":"get","stage":"ResponseComplete","requestURI":"/%s"}'
    log = tmp_path / "audit.log"
    log.write_text(entry % "before" + "\n" + (entry % "within")[:70])
    view = AuditLog(log).mark()
    assert view.entries() == []
    with open(log, "a") as server:
        server.write((entry % "within")[70:] + "\n" + entry % "after" + "\n")
    assert [e.uri for e in view.entries()] == ["/within", "/after"]
    assert view.mark().entries() == []
    with open(log, "a") as server:
        server.write((entry % "killed")[:70])
    view = view.mark()
    with open(log, "a") as server:
        server.write(entry % "its successor's" + "\n")
    assert [e.uri for e in view.entries()] == ["/its successor's"]
