"""The test of the test: without moonfence, by hand, a pod of a node that is cut off is moved by force. Where the storage
does not fence, the checker finds two writers; where it does, one after the other."""

import time

from e2e.kube import wait_for
from e2e.workloads import is_ready

from .disks import DETACH, FENCED, LIMIT, RISKED
from .stage import preference


def test_two_pods_write_to_a_volume_whose_storage_does_not_fence_and_the_checker_sees_it(whole, disks, workloads):
    node = whole.node(1)
    disks.create(preference(node.name))
    old = {name: workloads.wait_running(f"{name}-0") for name in DETACH}
    assert {pod["spec"]["nodeName"] for pod in old.values()} == {node.name}
    for name in DETACH:
        disks.wait_more(name)

    node.cable_out()
    workloads.wait_node(node.name, "Unknown")
    # before the scheduler has seen the taint it would bind a replacement to the same node, where it stays Pending
    workloads.wait_taint(node.name, "node.kubernetes.io/unreachable", "NoSchedule")
    time.sleep(2)
    for name, pod in old.items():
        (attachment,) = disks.attachments(name)
        workloads.client.delete("pods", f"{name}-0", workloads.namespace, grace=0, uid=pod["metadata"]["uid"])
        workloads.client.delete("volumeattachments", attachment["metadata"]["name"])

    def moved():
        found = {name: disks.pod(name) for name in DETACH}
        return found if all(is_ready(pod) and pod["spec"]["nodeName"] != node.name for pod in found.values()) else None
    new = workloads.wait("both run elsewhere", moved, LIMIT)
    for name in DETACH:
        disks.wait_attached(name, new[name])
    # the node that is cut off goes on with the one, and cannot with the other
    disks.wait_more(RISKED, pod=old[RISKED])
    for name in DETACH:
        disks.wait_more(name, pod=new[name])
    node.cable_in()
    node.wait_ready()
    wait_for("the old containers have ended", lambda: not any(
        node.container_processes(pod["metadata"]["uid"]) for pod in old.values()), LIMIT)

    reports = disks.judge(sound=[FENCED])
    (overlap,) = reports[RISKED].overlaps
    assert {overlap.one.node, overlap.other.node} == {node.name, new[RISKED]["spec"]["nodeName"]} and overlap.seconds > 0
    assert len(reports[FENCED].writers) == 2 and not reports[FENCED].overlaps and reports[FENCED].whole, reports[FENCED]
