"""Workloads of one test in its own namespace: StatefulSets, Deployments, volumes, and waiting for them."""

from typing import Any, Callable, Optional

from .explain import explain, wait_explained
from .hollow_objects import attachment_name
from .kube import ApiError, Client, path_of

WORKLOAD = "moonfence.io/workload"
MAKERS = ("deployments", "statefulsets", "daemonsets", "jobs", "replicasets")  # of pods
UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def is_ready(pod: Optional[dict]) -> bool:
    return bool(pod) and pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] and any(
        c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions") or [])


def node_ready(node: dict) -> str:
    """True, False, Unknown, or "" when the node has no Ready condition."""
    return next((c["status"] for c in node["status"].get("conditions") or [] if c["type"] == "Ready"), "")


def taints(node: dict) -> set:
    """{(key, effect)}"""
    return {(t["key"], t["effect"]) for t in node["spec"].get("taints") or []}


def free(client: Client, resource: str, item: dict, grace: Optional[int] = None):
    """Deletes an object together with its finalizers."""
    name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
    try:
        if item["metadata"].get("finalizers"):
            client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
        client.delete(resource, name, namespace, grace=grace, missing_ok=True)
    except ApiError as error:
        if error.status != 404:
            raise


class Workloads:
    """Pods are pinned to nodes that carry `node_labels` when given. Every instance has its own CSI driver,
    so that settings of the stand-in attacher for one test do not reach another. What is waited for in vain is
    explained, with the logs of `control_plane` when that is given."""

    def __init__(self, client: Client, namespace: str, node_labels: Optional[dict] = None, control_plane=None):
        self.client, self.namespace, self.control_plane = client, namespace, control_plane
        self.node_labels = node_labels or {}
        self.driver = f"{namespace}.csi.example.com"
        self.volumes: list = []

    def create_namespace(self) -> "Workloads":
        self.client.create("namespaces", {"metadata": {"name": self.namespace, "labels": {"moonfence.io/e2e": "true"}}})
        self.wait("the namespace's service account",
                  lambda: self.client.find("serviceaccounts", "default", self.namespace), 30)
        # a controller puts it there; a test that watches ConfigMaps would meet it in its midst
        self.wait("the namespace's root certificate",
                  lambda: self.client.find("configmaps", "kube-root-ca.crt", self.namespace), 30)
        return self

    # --- volumes

    def create_driver(self, attach_required: bool = True):
        self.client.create("csidrivers", {"metadata": {"name": self.driver}, "spec": {
            "attachRequired": attach_required, "podInfoOnMount": False}})
        self.client.create("storageclasses", {
            "metadata": {"name": self.driver}, "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "Immediate", "reclaimPolicy": "Retain"})

    def create_volume(self, claim: str, handle: str = "", access_mode: str = "ReadWriteOnce") -> dict:
        """A PersistentVolume that only the claim `claim` of this namespace may bind."""
        name = f"pv-{self.namespace}-{claim}"
        self.volumes.append(name)
        return self.client.create("persistentvolumes", {"metadata": {"name": name}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": [access_mode], "storageClassName": self.driver,
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.namespace,
                         "name": claim},
            "csi": {"driver": self.driver, "volumeHandle": handle or f"vol-{self.namespace}-{claim}"}}})

    def _claim_spec(self, access_mode: str) -> dict:
        return {"accessModes": [access_mode], "storageClassName": self.driver,
                "resources": {"requests": {"storage": "1Gi"}}}

    def _create_claims(self, names: list, access_mode: str, labels: dict):
        if self.client.find("csidrivers", self.driver) is None:
            self.create_driver()
        for name in names:
            self.create_volume(name, access_mode=access_mode)
            self.client.create("persistentvolumeclaims", {"metadata": {"name": name, "labels": labels},
                                                          "spec": self._claim_spec(access_mode)}, self.namespace)

        def bound():
            claims = self.client.list("persistentvolumeclaims", self.namespace)
            return {c["metadata"]["name"] for c in claims if c["status"].get("phase") == "Bound"} >= set(names)
        self.wait(f"the claims {names[0]}… are bound", bound, 60)

    # --- workloads

    def _labels(self, name: str, labels: Optional[dict]) -> dict:
        """app=<name> unless `labels` say otherwise; None takes the label away."""
        wanted = {"app": name, **(labels or {}), WORKLOAD: name}
        return {key: value for key, value in wanted.items() if value is not None}

    def _pod_template(self, labels: dict, toleration_seconds: Optional[int], more: dict) -> dict:
        spec = {"terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
                "nodeSelector": self.node_labels,
                "containers": [{"name": "main", "image": "example.com/image:1",
                                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
        if toleration_seconds is not None:
            spec["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoExecute",
                                    "tolerationSeconds": toleration_seconds} for key in UNREACHABLE]
        return {"metadata": {"labels": labels}, "spec": {**spec, **more}}

    def stateful_set(self, name: str, replicas: int = 1, volume: bool = False, labels: Optional[dict] = None,
                     toleration_seconds: Optional[int] = 10, access_mode: str = "ReadWriteOnce",
                     pod_spec: Optional[dict] = None) -> dict:
        """With `volume` every pod gets a CSI volume of its own through a volumeClaimTemplate."""
        labels = self._labels(name, labels)
        template = self._pod_template(labels, toleration_seconds, pod_spec or {})
        spec = {"replicas": replicas, "serviceName": name, "podManagementPolicy": "Parallel",
                "selector": {"matchLabels": {WORKLOAD: name}}, "template": template}
        if volume:
            # claims are made and bound first: a pod that comes before its claim is bound costs the
            # scheduler up to 10 s of back-off
            self._create_claims([f"data-{name}-{index}" for index in range(replicas)], access_mode, labels)
            spec["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": self._claim_spec(access_mode)}]
            template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        return self.client.create("statefulsets", {"metadata": {"name": name}, "spec": spec}, self.namespace)

    def deployment(self, name: str, replicas: int = 1, volume: bool = False, labels: Optional[dict] = None,
                   toleration_seconds: Optional[int] = 10, access_mode: str = "ReadWriteOnce",
                   pod_spec: Optional[dict] = None) -> dict:
        """With `volume` all pods share one claim, `data-<name>`."""
        labels = self._labels(name, labels)
        template = self._pod_template(labels, toleration_seconds, pod_spec or {})
        if volume:
            self._create_claims([f"data-{name}"], access_mode, labels)
            template["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{name}"}}]
            template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        spec = {"replicas": replicas, "selector": {"matchLabels": {WORKLOAD: name}}, "template": template}
        return self.client.create("deployments", {"metadata": {"name": name}, "spec": spec}, self.namespace)

    def daemon_set(self, name: str, labels: Optional[dict] = None, pod_spec: Optional[dict] = None) -> dict:
        labels = self._labels(name, labels)
        spec = {"selector": {"matchLabels": {WORKLOAD: name}}, "template": self._pod_template(labels, None, pod_spec or {})}
        return self.client.create("daemonsets", {"metadata": {"name": name}, "spec": spec}, self.namespace)

    def job(self, name: str, labels: Optional[dict] = None, toleration_seconds: Optional[int] = 10,
            pod_spec: Optional[dict] = None, job_spec: Optional[dict] = None) -> dict:
        template = self._pod_template(self._labels(name, labels), toleration_seconds, pod_spec or {})
        template["spec"]["restartPolicy"] = "Never"
        return self.client.create("jobs", {"metadata": {"name": name}, "spec": {**(job_spec or {}), "template": template}}, self.namespace)

    def pod(self, name: str, node: str = "", labels: Optional[dict] = None,
            toleration_seconds: Optional[int] = 10, pod_spec: Optional[dict] = None, claim: str = "",
            metadata: Optional[dict] = None) -> dict:
        """A bare pod, on `node` when given (the scheduler is not asked), with an existing claim."""
        body = self._pod_template(labels or {"app": name}, toleration_seconds, pod_spec or {})
        body["metadata"].update(metadata or {}, name=name)
        if node:
            body["spec"].update(nodeName=node, nodeSelector={})
        if claim:
            body["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        return self.client.create("pods", body, self.namespace)

    # --- looking and waiting

    def wait(self, what: str, condition: Callable[[], Any], seconds: float, exact: bool = False) -> Any:
        """wait_for() that tells of pods, nodes and events when it was in vain."""
        return wait_explained(what, condition, seconds, self.explain, exact=exact)

    def explain(self) -> str:
        return explain(self.client, self.namespace, self.node_labels, self.control_plane)

    def get_pod(self, name: str) -> Optional[dict]:
        return self.client.find("pods", name, self.namespace)

    def pods(self, app: str = "") -> list:
        return self.client.list("pods", self.namespace, labels=f"app={app}" if app else None)

    def wait_pod(self, name: str, what: str, condition: Callable[[Optional[dict]], bool], seconds: float = 180,
                 exact: bool = False) -> dict:
        """Waits until condition(pod) holds; it gets None when the pod does not exist."""
        seen: list = [None]

        def check():
            seen[0] = self.get_pod(name)
            return condition(seen[0])
        self.wait(f"pod {self.namespace}/{name} {what}", check, seconds, exact)
        return seen[0]

    def wait_running(self, name: str, not_on: str = "", seconds: float = 180, unaided: bool = False) -> dict:
        """Waits until the pod is Running and Ready, on another node than `not_on`. With `unaided` that has to be
        before Kubernetes looks by itself at what is still attached, which it does once a minute."""
        if unaided:
            seconds = 45
        return self.wait_pod(name, f"is Running{' elsewhere than on ' + not_on if not_on else ''}",
                             lambda p: is_ready(p) and p["spec"]["nodeName"] != not_on, seconds, exact=unaided)

    def wait_terminating(self, name: str, seconds: float = 180) -> dict:
        return self.wait_pod(name, "is Terminating", lambda p: bool(p) and "deletionTimestamp" in p["metadata"],
                             seconds)

    def wait_all_running(self, app: str, count: int, not_on: str = "", seconds: float = 180) -> list:
        """Waits until `count` pods with the label app=<app> are Running and Ready elsewhere than on `not_on`."""
        def check():
            found = [p for p in self.pods(app) if is_ready(p) and p["spec"]["nodeName"] != not_on]
            return found if len(found) >= count else None
        return self.wait(f"{count} pods of {app} are Running", check, seconds)

    def wait_node(self, name: str, ready: str, seconds: float = 180) -> dict:
        """Waits for a Ready condition of True, False, Unknown or "" (none)."""
        def check():
            node = self.client.get("nodes", name)
            return node if node_ready(node) == ready else None
        return self.wait(f"node {name} has Ready={ready or 'nothing'}", check, seconds)

    def wait_taint(self, name: str, key: str, effect: str, seconds: float = 120) -> dict:
        def check():
            node = self.client.get("nodes", name)
            return node if (key, effect) in taints(node) else None
        return self.wait(f"node {name} has the taint {key}:{effect}", check, seconds)

    def handle(self, claim: str) -> str:
        return self.client.get("persistentvolumes", f"pv-{self.namespace}-{claim}")["spec"]["csi"]["volumeHandle"]

    def attachment(self, claim: str, node: str) -> Optional[dict]:
        """The VolumeAttachment of a claim's volume to a node, None when there is none."""
        return self.client.find("volumeattachments", attachment_name(self.driver, self.handle(claim), node))

    def attachments(self) -> list:
        """All VolumeAttachments of this test's driver."""
        return [a for a in self.client.list("volumeattachments") if a["spec"]["attacher"] == self.driver]

    # --- cleaning up

    def remove_all(self, namespace: bool = False):
        """Deletes everything that was made here, whatever state it is in. The namespace itself and what nobody acts on
        in it stay unless `namespace`: to take one away costs Kubernetes 70 requests and a third of a second of a core."""
        for kind in MAKERS:
            self._remove_each(kind)
        if namespace:
            self.client.delete("namespaces", self.namespace, missing_ok=True)

        def no_pods():
            pods = self.pods()
            for pod in pods:
                free(self.client, "pods", pod, grace=0)
            return not pods
        self.wait(f"the pods of {self.namespace} are gone", no_pods, 30)
        if not namespace:
            self._remove_each("persistentvolumeclaims")
        for item in self.attachments():
            free(self.client, "volumeattachments", item)
        for name in self.volumes:
            self.client.delete("persistentvolumes", name, missing_ok=True)
        for kind in ("storageclasses", "csidrivers"):
            self.client.delete(kind, self.driver, missing_ok=True)

    def _remove_each(self, kind: str):
        """All of a kind in the namespace, by one request; what they own follows them."""
        self.client.request("DELETE", path_of(kind, "", self.namespace), {
            "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
