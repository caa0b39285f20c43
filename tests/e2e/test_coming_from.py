"""What docs/coming-from.md gives to be applied does what it says."""

import re
import subprocess

import pytest
import yaml

from .control_plane import REPO
from .installation import Installation, kubectl
from .kube import wait_for

FENCER = "system:serviceaccount:storageos:storageos-api-manager-sa"


@pytest.fixture
def applied(cluster):
    (block,) = re.findall(r"```yaml\n(.*?)```", (REPO / "docs" / "coming-from.md").read_text(), re.S)
    made = Installation(cluster)
    made.apply(list(yaml.safe_load_all(block)))
    yield
    made.remove_all()


@pytest.fixture
def deletes(cluster, workloads, applied):
    """deletes(user, kind) -> what the API server says when this user, who may do everything, deletes one; nothing is deleted."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0", "namespace": workloads.namespace}, "spec": {
        "nodeSelector": {"moonfence.io/none": ""}, "containers": [{"name": "db", "image": "db"}]}}
    attachment = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": workloads.namespace}, "spec": {
        "attacher": "csi.storageos.com", "nodeName": "gone", "source": {"persistentVolumeName": "gone"}}}
    made = Installation(cluster)
    made.apply([pod, attachment])

    def delete(user: str, kind: str) -> str:
        kubeconfig = cluster.control_plane.write_kubeconfig(user.rpartition(":")[2], user, "system:masters")
        where = {"pod": ["db-0", "-n", workloads.namespace], "volumeattachment": [workloads.namespace]}[kind]
        return subprocess.run([kubectl(), "--kubeconfig", kubeconfig, "delete", kind, *where, "--dry-run=server"], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=30).stdout
    yield delete
    made.remove_all()


def test_the_fencer_of_storageos_can_be_kept_from_deleting(deletes):
    """And nobody else is."""
    wait_for("the policy is in force", lambda: "moonfence fences here" in deletes(FENCER, "pod"), 30)
    assert "moonfence fences here" in deletes(FENCER, "volumeattachment")
    for other in ("system:serviceaccount:other:storageos-api-manager-sa", "somebody"):
        for kind in ("pod", "volumeattachment"):
            assert re.search(r" deleted .*\(server dry run\)$", deletes(other, kind)), (other, kind)
