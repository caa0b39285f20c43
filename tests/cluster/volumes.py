"""Objects for pods with a volume of storage/csi-driver.

There is no provisioner: whoever makes a PersistentVolume here makes the volume too, with `csi-driver create`.
"""

DRIVER = "csi.moonfence.test"
BOOKKEEPING, FENCE = "bookkeeping", "fence"  # what a detach does: StorageClasses and `csi-driver create --detach`
SIZE = "32Mi"
WITNESS = "/var/log/writers"  # on each machine: what its writers called durable, in files POD_UID
WRITER = "localhost/writer:1"  # the image with storage/writer as /bin/writer, its command


def csi_driver() -> dict:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": DRIVER},
            "spec": {"attachRequired": True, "podInfoOnMount": False, "fsGroupPolicy": "None"}}


def storage_class(detach: str) -> dict:
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": detach},
            "provisioner": DRIVER, "parameters": {"detach": detach}, "reclaimPolicy": "Retain",
            "volumeBindingMode": "Immediate"}


def persistent_volume(volume: str, detach: str, claim: str, namespace: str = "default") -> dict:
    """Bound beforehand to the claim, so that a test knows which volume it looks at."""
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
            "spec": {"capacity": {"storage": SIZE}, "accessModes": ["ReadWriteOnce"], "storageClassName": detach,
                     "persistentVolumeReclaimPolicy": "Retain",
                     "claimRef": {"namespace": namespace, "name": claim},
                     "csi": {"driver": DRIVER, "volumeHandle": volume, "fsType": "ext4"}}}


def writer_container(*flags: str) -> dict:
    """`flags` are those of storage/writer, as "--deaf" or "--interval=1s"."""
    def told(name, path):
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {"name": "writer", "image": WRITER, "imagePullPolicy": "Never",
            "command": ["/bin/writer", "--boot-file=/boot_id", "--witness=/witness", *flags],
            "env": [told("NODE_NAME", "spec.nodeName"), told("POD_NAME", "metadata.name"),
                    told("POD_UID", "metadata.uid")],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "witness", "mountPath": "/witness"},
                             {"name": "boot", "mountPath": "/boot_id", "readOnly": True}]}


def _host_path(name: str, path: str, kind: str) -> dict:
    return {"name": name, "hostPath": {"path": path, "type": kind}}


def writers(name: str, detach: str, *flags: str, namespace: str = "default", replicas: int = 1,
            grace: int = 30) -> dict:
    """A StatefulSet. Its pods' claims are data-NAME-0 and so on."""
    labels = {"app": name}
    # a container has a /proc of its own, with the computer's boot id instead of the machine's
    own = [_host_path("boot", "/proc/sys/kernel/random/boot_id", "File"),
           _host_path("witness", WITNESS, "DirectoryOrCreate")]
    claim = {"metadata": {"name": "data"},
             "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": detach,
                      "resources": {"requests": {"storage": SIZE}}}}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name, "namespace": namespace},
            "spec": {"serviceName": name, "replicas": replicas, "selector": {"matchLabels": labels},
                     "volumeClaimTemplates": [claim],
                     "template": {"metadata": {"labels": labels},
                                  "spec": {"terminationGracePeriodSeconds": grace, "volumes": own,
                                           "containers": [writer_container(*flags)]}}}}
