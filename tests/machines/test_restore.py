"""etcd is restored from a snapshot while an incident runs: of ten minutes nobody but the machines knows any more.

In those minutes pods were replaced, nodes were booted, the engine was started anew and a thousand other things were
written. Then the API server tells of pods whose containers are gone and of boots that are over, knows nothing of what
runs, and counts its revisions from the old one on. Every Lease in it, of nodes, of the controllers and of moonfence, was
renewed ten minutes ago.
"""

import time

import pytest

from cluster.bed_with_volumes import ATTACHER
from e2e.kube import wait_for
from e2e.workloads import WORKLOAD, is_ready

from .chronicle import Chronicle
from .stage import JOB, STATELESS

TERM = {"leaseDuration": "8s", "leaseRenewDeadline": "5s", "leaseRetry": "1s"}  # the shortest that is accepted, and a bit
WRITES = 1000  # what such a cluster writes in ten minutes
PODS = len(STATELESS) + 2  # that are replaced in these minutes; those with volumes live on


def much_happens(stage):
    """No pod, no boot but the victim's and no life of the engine is any more what it was. The Job's pod stays: told to end,
    it may leave with 0, and the Job would be done."""
    load, client = stage.workloads, stage.bed.client
    before = {pod["metadata"]["uid"]: pod for pod in load.pods("noobaa") if pod["metadata"]["labels"][WORKLOAD] != JOB}
    for pod in before.values():
        client.delete("pods", pod["metadata"]["name"], load.namespace, grace=1)
    others = [node for node in stage.bed.nodes if node is not stage.victim]
    for node in others:
        node.reboot()
    client.create("configmaps", {"metadata": {"name": "busy"}}, load.namespace)
    for number in range(WRITES):
        client.patch("configmaps", "busy", {"data": {"count": str(number)}}, load.namespace)
    for node in others:
        node.wait_ready()

    def replaced():
        pods = load.pods("noobaa")
        return pods if len(pods) == PODS and all(is_ready(p) and p["metadata"]["uid"] not in before for p in pods) else None
    return load.wait("every pod was replaced", replaced, 240)


def revision(control_plane) -> int:
    return int(control_plane.client().request("GET", "/api/v1/nodes")["metadata"]["resourceVersion"])


def of(node: str, pods: list) -> dict:
    return {pod["metadata"]["uid"]: pod for pod in pods if pod["spec"]["nodeName"] == node}


@pytest.mark.parametrize("minutes", [
    pytest.param(0, id="after-which-much-happened"),
    pytest.param(10, id="ten-minutes-old", marks=pytest.mark.slow)])
def test_nothing_healthy_is_deleted_when_etcd_goes_back_during_an_incident(stage, minutes):
    control_plane, load, victim = stage.bed.control_plane, stage.workloads, stage.victim
    stage.arm(elect=True, config=TERM, witnessed=False)
    wait_for("it leads", lambda: control_plane.client().find("leases", "moonfence", load.namespace), 60)
    # etcd stands still for the snapshot, and a boot takes long on a busy computer: neither must become an incident
    stage.engine.kill9()
    kept, taken = control_plane.snapshot(), time.monotonic()
    pods = much_happens(stage)
    stage.engine.start()
    doomed = of(victim.name, pods)
    assert doomed, "nothing runs on the node that will fail"
    time.sleep(max(0.0, taken + 60 * minutes - time.monotonic()))
    stage.chronicle.end()
    stage.chronicle = Chronicle(control_plane.client(timeout=30), load.namespace)  # of what follows alone

    # Nobody tells the storage anything after the snapshot: where a volume had been moved since, only the storage's
    # administrator could say so to a Kubernetes that knows nothing of it.
    control_plane.stop(ATTACHER)
    stage.strike(victim.power_off)
    load.wait("a pod was deleted", lambda: set(stage.chronicle.deleted) & set(doomed), 240)
    latest = revision(control_plane)
    control_plane.restore(kept)
    assert revision(control_plane) < latest - WRITES // 2
    for node in stage.bed.nodes:
        if node.is_on():
            node.restart("kubelet")  # as one is told to do after that: it knows of a time that never was

    # the pods of the snapshot are on the victim again, by what the API server says; that is what has to be moved now
    stage.wait_moved()
    stage.wait_old_pods_gone()
    check_closed(stage)
    deleted = {entry.uid_precondition for entry in stage.engine.deletes(resource="pods", status=200)}
    assert set(stage.old_uids.values()) <= deleted <= set(stage.old_uids.values()) | set(doomed)
    check_others(stage, pods)
    victim.power_on()
    stage.wait_clean()
    stage.conclude("etcd-restored" if not minutes else f"etcd-restored-after-{minutes}-minutes", power_lost=True)


def check_closed(stage):
    """Every record that is left of the victim's incidents is closed, and the last one tells of the pods of the snapshot.
    The first incident's may have gone with etcd. There is none of another node."""
    def closed():
        records = stage.records()
        assert {record["node"]["name"] for record in records} <= {stage.victim.name}
        return records if records and all("closed" in record for record in records) else None
    records = stage.workloads.wait("every incident is closed", closed, 240)
    stage.check_record(max(records, key=lambda record: record["opened"]))


def check_others(stage, replaced: list):
    """The bystanders of the snapshot run, not only by their status, and nothing runs of those that etcd has forgotten."""
    others = {pod["metadata"]["uid"] for pod in stage.others}

    def running():
        now = [pod for pod in stage.workloads.pods("noobaa") if pod["metadata"]["uid"] in others and is_ready(pod)]
        return len(now) == len(others) and all(
            stage.bed.node(pod["spec"]["nodeName"]).container_processes(pod["metadata"]["uid"]) for pod in now)
    stage.workloads.wait("the bystanders run", running, 240)

    def gone():
        on = [node for node in stage.bed.nodes if node.is_on()]
        return not any(node.container_processes(pod["metadata"]["uid"]) for node in on for pod in replaced)
    stage.workloads.wait("what etcd has forgotten has ended", gone, 240)
