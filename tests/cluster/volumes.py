"""Objects for pods with a volume of storage/csi-driver.

There is no provisioner: whoever makes a PersistentVolume here makes the volume too, with `csi-driver create`.
"""

from typing import Optional

DRIVER = "csi.moonfence.test"
BOOKKEEPING, FENCE = "bookkeeping", "fence"  # what a detach does: StorageClasses and `csi-driver create --detach`
SIZE = "32Mi"
WRITER = "localhost/writer:1"  # the image with storage/writer as /bin/writer, its command
ATTACHER_LEASE = "kube-system/external-attacher-leader-csi-moonfence-test"  # which external-attacher holds


def witness(namespace: str) -> str:
    """The folder on each machine where the writers of a namespace say what is durable, in files POD_UID."""
    return f"/var/log/writers/{namespace}"


def csi_driver() -> dict:
    return {"metadata": {"name": DRIVER},
            "spec": {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "None"}}


def storage_class(detach: str) -> dict:
    return {"metadata": {"name": detach}, "provisioner": DRIVER, "parameters": {"detach": detach},
            "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate"}


def persistent_volume(volume: str, detach: str, claim: str, namespace: str = "default") -> dict:
    """Bound beforehand to the claim, so that a test knows which volume it looks at."""
    return {"metadata": {"name": volume},
            "spec": {"capacity": {"storage": SIZE}, "accessModes": ["ReadWriteOnce"], "storageClassName": detach,
                     "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace,
                                  "name": claim},
                     "csi": {"driver": DRIVER, "volumeHandle": volume, "fsType": "ext4"}}}


def claim(name: str, detach: str) -> dict:
    return {"metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": detach,
                     "resources": {"requests": {"storage": SIZE}}}}


def _writer_container(*flags: str, own: list) -> dict:
    def told(name, path):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {"name": "writer", "image": WRITER, "imagePullPolicy": "Never",
            "command": ["/bin/writer", "--witness=/witness", *flags],
            "env": [told("NODE_NAME", "spec.nodeName"), told("POD_NAME", "metadata.name"),
                    told("POD_UID", "metadata.uid")],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "witness", "mountPath": "/witness"}, *own]}


def _host_path(name: str, path: str, kind: str) -> dict:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def writers(name: str, detach: str, *flags: str, namespace: str = "default", labels: Optional[dict] = None,
            more: Optional[dict] = None, beside: tuple = (), lasting: bool = True) -> dict:
    """A StatefulSet of one pod, NAME-0, with the claim data-NAME-0. `flags` are those of storage/writer, as "--deaf"
    or "--interval=1s"; `more` goes into the pods' spec; `beside`: further containers. Not `lasting`: nothing in the pod
    lasts but the volume. What the writer says is in an emptyDir then, which goes with the pod."""
    labels = {"app": name, **(labels or {})}
    own, mounts = [{"name": "witness", "emptyDir": {}}], []
    if lasting:
        # a container has a /proc of its own, with the computer's boot id instead of the machine's
        own = [_host_path("boot", "/proc/sys/kernel/random/boot_id", "File"),
               _host_path("witness", witness(namespace), "DirectoryOrCreate")]
        mounts, flags = [{"name": "boot", "mountPath": "/boot_id", "readOnly": True}], ("--boot-file=/boot_id", *flags)
    spec = {"automountServiceAccountToken": False, "volumes": own,
            "containers": [_writer_container(*flags, own=mounts), *beside], **(more or {})}
    return {"metadata": {"name": name, "namespace": namespace},
            "spec": {"serviceName": name, "replicas": 1, "selector": {"matchLabels": {"app": name}},
                     "volumeClaimTemplates": [claim("data", detach)],
                     "template": {"metadata": {"labels": labels}, "spec": spec}}}
