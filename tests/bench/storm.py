"""Many nodes that fail together, with some pods on each, and others that have room for all of them."""

from concurrent.futures import ThreadPoolExecutor

from e2e.kube import wait_for
from e2e.workloads import Workloads, is_ready, node_ready, taints

from .stage import Stage

TOGETHER = 8
NODE_CPUS = 64  # of a stand-in node (hollow_objects.py)


class Storm:
    """`failing` nodes of `crowd` with `each` pods of a Deployment; behaves as a stage.Pair."""

    def __init__(self, stage: Stage, name: str, failing: int, each: int, crowd: int):
        self.stage, self.namespace, self.pods, self.each = stage, name, failing * each, each
        label = {"bench": name}
        names = [f"{name}-{i:03}" for i in range(crowd)]
        self.doomed, self.others = names[:failing], names[failing:]
        stage.hollow.add(names, labels=label)
        self.wait_usable(names)
        self.workloads = Workloads(stage.client, name, node_labels=label).create_namespace()
        self.place()

    def place(self):
        """Only the doomed take pods at first, and each is full with `each` of them: the others have as much room."""
        share = {"cpu": f"{1000 * NODE_CPUS // self.each}m", "memory": "16Mi"}
        self._cordon(True)
        self.workloads.deployment("noobaa", replicas=self.pods, pod_spec={"containers": [
            {"name": "main", "image": "example.com/image:1", "resources": {"requests": share}}]})
        wait_for(f"{self.each} pods run on each of {len(self.doomed)} nodes", self._placed, 60 + self.pods, every=0.5)
        self._cordon(False)

    def _placed(self) -> bool:
        counts = dict.fromkeys(self.doomed, 0)
        for pod in self._all():
            if is_ready(pod) and pod["spec"].get("nodeName") in counts:
                counts[pod["spec"]["nodeName"]] += 1
        return all(count == self.each for count in counts.values())

    def _cordon(self, on: bool):
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(lambda n: self.stage.client.patch("nodes", n, {"spec": {"unschedulable": on or None}}), self.others))

    def _all(self) -> list:
        return self.stage.client.list("pods", self.namespace, labels="app=noobaa")

    # --- as a Pair

    def failing_nodes(self) -> set:
        return set(self.doomed)

    def doomed_pods(self) -> list:
        doomed = self.failing_nodes()
        return [p for p in self._all() if p["spec"].get("nodeName") in doomed]

    def fail(self):
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(lambda node: self.stage.hollow.fail(node, "notready"), self.doomed))

    def tainted(self, taint: tuple) -> bool:
        doomed = self.failing_nodes()
        nodes = [n for n in self.stage.client.list("nodes", labels=f"bench={self.namespace}") if n["metadata"]["name"] in doomed]
        return all(taint in taints(n) for n in nodes)

    def wait_usable(self, names: list):
        def usable():
            found = {n["metadata"]["name"]: n for n in self.stage.client.list("nodes", labels=f"bench={self.namespace}")}
            return all(n in found and node_ready(found[n]) == "True" and not taints(found[n]) for n in names)
        wait_for(f"{len(names)} nodes are usable", usable, 120, every=0.2)

    def wait_fled(self):
        doomed = self.failing_nodes()

        def fled():
            pods = self._all()
            return len(pods) == self.pods and all(is_ready(p) and p["spec"]["nodeName"] not in doomed for p in pods)
        wait_for(f"{self.pods} pods have fled", fled, 300, every=0.5)

    def swap(self):
        """The nodes come back, and so do the pods: as new ones."""
        self.wait_fled()
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(self.stage.hollow.heal, self.doomed))
        self.wait_usable(self.doomed)
        self._delete_pods()
        self.place()

    def _delete_pods(self):
        self.stage.client.delete("deployments", "noobaa", self.namespace)
        wait_for("the pods are gone", lambda: not self._all(), 300, every=0.5)

    def remove(self):
        self._delete_pods()
