"""What stand-in nodes write: Node, Lease, CSINode and pod status, shaped like a real kubelet's."""

import hashlib
import uuid
from datetime import datetime, timezone

CSI_DRIVER = "csi.e2e.moonfence.io"
MANAGED_ATTACH = "volumes.kubernetes.io/controller-managed-attach-detach"
PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now_micro() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def unique_volume(driver: str, handle: str) -> str:
    """The name of a volume in a node's volumesInUse."""
    return f"kubernetes.io/csi/{driver}^{handle}"


def attachment_name(driver: str, handle: str, node: str) -> str:
    """The name which the attach/detach controller gives to a VolumeAttachment."""
    return "csi-" + hashlib.sha256(f"{handle}{driver}{node}".encode()).hexdigest()


def _digits(name: str, salt: str = "") -> int:
    return int.from_bytes(hashlib.sha256((salt + name).encode()).digest()[:4], "big")


def address(name: str) -> str:
    number = _digits(name)
    return f"10.{64 + number % 64}.{number // 64 % 256}.{1 + number // 16384 % 250}"


def image_list(count: int) -> list:
    """A node's images: what makes real Node objects big (some 20 KB with 50 of them)."""
    images = []
    for index in range(count):
        digest = hashlib.sha256(f"image-{index}".encode()).hexdigest()
        name = f"registry.example.com/team-{index % 7}/service-{index}"
        images.append({"names": [f"{name}@sha256:{digest}", f"{name}:v1.{index}.{index % 10}"],
                       "sizeBytes": 20_000_000 + 1_234_567 * index})
    return images


def conditions(ready: str, since: str, all_types: bool = True) -> list:
    stamp = now()
    entries = []
    if all_types:
        entries = [{"type": kind, "status": "False", "reason": reason, "message": message,
                    "lastHeartbeatTime": stamp, "lastTransitionTime": since} for kind, reason, message in PRESSURES]
    reason = "KubeletReady" if ready == "True" else "KubeletNotReady"
    message = "kubelet is posting ready status" if ready == "True" else "container runtime is down"
    entries.append({"type": "Ready", "status": ready, "reason": reason, "message": message,
                    "lastHeartbeatTime": stamp, "lastTransitionTime": since})
    return entries


def node(name: str, boot_id: str, labels: dict, images: int, all_conditions: bool) -> dict:
    resources = {"cpu": "64", "memory": "256Gi", "pods": "1000", "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {MANAGED_ATTACH: "true", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
                       "moonfence.io/hollow": "true", **labels}},
        "spec": {},
        "status": {
            "capacity": resources, "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": address(name)}, {"type": "Hostname", "address": name}],
            "conditions": conditions("True", now(), all_conditions),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": image_list(images),
            "nodeInfo": {
                "machineID": uuid.uuid4().hex, "systemUUID": str(uuid.uuid4()), "bootID": boot_id,
                "kernelVersion": "6.1.0-18-amd64", "osImage": "Debian GNU/Linux 12 (bookworm)",
                "containerRuntimeVersion": "containerd://2.4.2", "kubeletVersion": "v1.37.2",
                "operatingSystem": "linux", "architecture": "amd64"}}}


def lease(name: str, node_uid: str) -> dict:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 8, "renewTime": now_micro()}}


def csi_node(name: str, node_uid: str, drivers: list) -> dict:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node_uid}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"drivers": [{"name": d, "nodeID": name, "topologyKeys": []} for d in drivers]}}


def running_status(pod: dict, node_name: str) -> dict:
    """The status patch of a pod whose containers all run."""
    stamp = now()
    kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {"status": {
        "phase": "Running", "hostIP": address(node_name), "podIP": address(pod["uid"]),
        "podIPs": [{"ip": address(pod["uid"])}], "startTime": pod["started"] or stamp,
        "conditions": [{"type": k, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp,
                        "reason": None, "message": None} for k in kinds],
        "containerStatuses": [
            {"name": c, "image": "example.com/image:1", "imageID": "example.com/image@sha256:" + "0" * 64,
             "containerID": f"containerd://{pod['uid']}-{c}", "ready": True, "started": True, "restartCount": 0,
             "lastState": {}, "state": {"running": {"startedAt": pod["started"] or stamp}}}
            for c in pod["containers"]]}}
