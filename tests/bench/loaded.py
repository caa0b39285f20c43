"""A node whose pods hold volumes: a StatefulSet, its claims and PersistentVolumes, and one attachment for each."""

import asyncio
import itertools
import time
from pathlib import Path

from e2e.async_http import AsyncClient
from e2e.cluster import Cluster
from e2e.engine import RULES, STORAGE_RULES, Account, Engine
from e2e.kube import Access, path_of, wait_for
from e2e.policies import policy_text
from e2e.workloads import Workloads, is_ready, node_ready, taints

from .stage import Stage

TOGETHER = 16  # objects that are made at once
_numbers = itertools.count(1)  # of engines, each with files of its own


class Loaded:
    """`pods` pods with `each` volumes on node NAME-a, which alone can have them; all attached when it is made."""

    def __init__(self, stage: Stage, name: str, pods: int, each: int = 1):
        self.stage, self.name, self.count, self.each = stage, name, pods, each
        self.node = f"{name}-a"
        self.cluster = Cluster(stage.control_plane, stage.hollow, stage.client)
        label = {"bench": name}
        self.workloads = Workloads(stage.client, name, label).create_namespace()
        self.workloads.create_driver()
        stage.hollow.add([self.node], labels=label, drivers=[self.workloads.driver])
        self.wait_usable()
        self.account = Account(self.cluster, name, "moonfence").create([*RULES, *STORAGE_RULES])
        self.claims = [f"data{volume}-web-{pod}" for pod in range(pods) for volume in range(each)]
        asyncio.run(self._create_volumes())
        self._create_pods()
        self.wait_loaded()

    async def _create_volumes(self):
        client = AsyncClient(Access.from_kubeconfig(self.stage.control_plane.kubeconfig), "bench/1.0")
        door = asyncio.Semaphore(TOGETHER)
        spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": self.workloads.driver}

        async def create(resource: str, body: dict, namespace: str = ""):
            async with door:
                status, answer = await client.request("POST", path_of(resource, namespace=namespace), body)
            if status >= 300:
                raise RuntimeError(f"{resource}: {status} {answer}")

        async def volume(claim: str):
            name = f"pv-{self.name}-{claim}"
            await create("persistentvolumes", {"metadata": {"name": name}, "spec": {
                **spec, "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": self.name, "name": claim},
                "csi": {"driver": self.workloads.driver, "volumeHandle": f"vol-{self.name}-{claim}"}}})
            await create("persistentvolumeclaims", {"metadata": {"name": claim}, "spec": {
                **spec, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}}, self.name)
        await asyncio.gather(*map(volume, self.claims))

        def bound():
            claims = self.stage.client.list("persistentvolumeclaims", self.name)
            return sum(c["status"].get("phase") == "Bound" for c in claims) == len(self.claims)
        wait_for(f"{len(self.claims)} claims are bound", bound, 300, every=1)

    def _create_pods(self):
        labels = {"app": "web"}
        volumes = [f"data{volume}" for volume in range(self.each)]
        self.stage.client.create("statefulsets", {"metadata": {"name": "web"}, "spec": {
            "replicas": self.count, "serviceName": "web", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
                "nodeSelector": self.workloads.node_labels,
                "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
                "containers": [{"name": "main", "image": "example.com/image:1",
                                "volumeMounts": [{"name": v, "mountPath": f"/{v}"} for v in volumes]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": v}, "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": self.workloads.driver,
                "resources": {"requests": {"storage": "1Gi"}}}} for v in volumes]}}, self.name)

    # --- its state

    def pods(self) -> list:
        return [p for p in self.stage.client.list("pods", self.name) if p["spec"].get("nodeName") == self.node]

    def attachments(self) -> list:
        return [a for a in self.stage.client.list("volumeattachments")
                if a["spec"]["attacher"] == self.workloads.driver and a["spec"]["nodeName"] == self.node]

    def wait_usable(self):
        def usable():
            found = self.stage.client.find("nodes", self.node)
            return found and node_ready(found) == "True" and not taints(found)
        wait_for(f"{self.node} is usable", usable, 60, every=0.05)

    def wait_loaded(self):
        def loaded():
            pods, held = self.pods(), self.attachments()
            return (sum(map(is_ready, pods)) == self.count and len(held) == len(self.claims)
                    and all(a.get("status", {}).get("attached") and "deletionTimestamp" not in a["metadata"] for a in held))
        wait_for(f"{self.count} pods with {len(self.claims)} attachments run on {self.node}", loaded, 600, every=1)

    def fail(self):
        """By the loss of its kubelet: nobody else detaches, because its volumes stay in use."""
        self.stage.hollow.fail(self.node, "silent")

    def wait_down(self):
        wait_for("the taint", lambda: ("node.kubernetes.io/unreachable", "NoSchedule") in taints(
            self.stage.client.get("nodes", self.node)), 90, every=0.005)

    def heal(self):
        self.stage.hollow.heal(self.node, reboot=True)
        self.wait_usable()
        self.wait_loaded()

    def remove(self):
        """The pods; volumes and claims stay, bound and unattached."""
        client = self.stage.client
        client.delete("statefulsets", "web", self.name)
        for pod in client.list("pods", self.name):
            client.delete("pods", pod["metadata"]["name"], self.name, grace=0, missing_ok=True)
        wait_for("the pods are gone", lambda: not client.list("pods", self.name), 120, every=0.5)

    # --- the engine

    def engine(self, verdict: str) -> Engine:
        """Started, with a policy that needs the volumes."""
        policy = Path(self.stage.folder) / f"{self.name}.lua"
        policy.write_text(policy_text(self.name, verdict, more='needs = { "volumes" },').replace(
            "live_kubelet = true", "live_kubelet = false"))
        engine = Engine(self.cluster, self.stage.folder, self.account, self.name, next(_numbers), policy,
                        config={"fencingDrivers": f"[{self.workloads.driver}]"}, witnessed=False).start()
        time.sleep(6)  # until its connections for deletions are open (kube/wire/heartbeat)
        return engine
