"""A node that is going to fail, a StatefulSet whose pods are all on it, and nodes to flee to.

Many of them can live side by side or one after another in one namespace, with one engine that looks after it: the
names of each are its own. Whoever lets one fail reads here what must be gone afterwards and what must not.
"""

from typing import Optional

from .kube import ApiError, Client, wait_for
from .workloads import Workloads, free, is_ready, node_ready, taints

NOBODY_ELSE = 600  # seconds of toleration: no controller evicts these pods while it matters


def uid_of(item: dict) -> str:
    return item["metadata"]["uid"]


class Doomed:
    """
    name       of the StatefulSet; its nodes are NAME-dead and NAME-1, NAME-2 …
    pods       how many
    volumes    whether each has a CSI volume of its own
    refuges    nodes to flee to
    """

    def __init__(self, cluster, namespace: str, name: str, pods: int = 1, volumes: bool = False, refuges: int = 1):
        self.cluster, self.client = cluster, cluster.client
        self.namespace, self.name, self.count, self.volumes = namespace, name, pods, volumes
        self.label = {"moonfence.io/doomed": name}
        self.workloads = Workloads(self.client, namespace, self.label, cluster.control_plane)
        self.node = f"{name}-dead"
        self.refuges = [f"{name}-{number + 1}" for number in range(refuges)]
        self.pods: dict = {}         # uid -> name, of those on the node
        self.attachments: dict = {}  # uid -> name, of theirs to the node

    def place(self) -> "Doomed":
        """All pods run on the node, and the others are there."""
        self._add([self.node])
        self.workloads.stateful_set(self.name, self.count, self.volumes, toleration_seconds=NOBODY_ELSE)
        found = self.workloads.wait_all_running(self.name, self.count, seconds=120)
        assert {pod["spec"]["nodeName"] for pod in found} == {self.node}
        self.pods = {uid_of(pod): pod["metadata"]["name"] for pod in found}
        if self.volumes:
            self.attachments = {uid_of(a): a["metadata"]["name"] for a in self.attached_to(self.node)}
            assert len(self.attachments) == self.count, self.attachments
        self._add(self.refuges)
        return self

    def _add(self, names: list):
        self.cluster.hollow.add(names, labels=self.label, drivers=[self.workloads.driver])
        self.workloads.wait(f"{names} are usable", lambda: all(
            node_ready(n) == "True" and not taints(n) for n in map(lambda x: self.client.get("nodes", x), names)), 60)

    def fail(self, mode: str = "notready"):
        self.cluster.hollow.fail(self.node, mode)

    def heal(self, reboot: bool = False):
        self.cluster.hollow.heal(self.node, reboot)

    # --- looking

    def now(self) -> list:
        """The pods of its StatefulSet."""
        return self.workloads.pods(self.name)

    def attached_to(self, node: str, client: Optional[Client] = None) -> list:
        return [a for a in (client or self.client).list("volumeattachments")
                if a["spec"]["attacher"] == self.workloads.driver and a["spec"]["nodeName"] == node]

    def ready(self) -> list:
        """Its pods that run, wherever."""
        return [pod for pod in self.now() if is_ready(pod)]

    def usable(self) -> bool:
        """The node lives and takes pods."""
        node = self.client.get("nodes", self.node)
        return node_ready(node) == "True" and not taints(node)

    def delete_pod(self, uid: str):
        """As somebody else would who was told to: this pod and no other of its name."""
        try:
            self.client.delete("pods", self.pods[uid], self.namespace, grace=0, uid=uid)
        except ApiError as error:
            if error.status not in (404, 409):
                raise

    def moved(self) -> list:
        """The pods that replaced all of the old ones and run elsewhere, [] until it is so. The volumes that they had
        on the node are not attached there any more."""
        found = self.now()
        fled = [p for p in found if is_ready(p) and p["spec"]["nodeName"] != self.node and uid_of(p) not in self.pods]
        if len(found) != self.count or len(fled) != self.count:
            return []
        left = {uid_of(a) for a in self.attached_to(self.node)} if self.volumes else set()
        return [] if left & set(self.attachments) else fled

    # --- the end

    def remove(self):
        """Pods, attachments and nodes; volumes and claims stay for the namespace's end."""
        self.client.delete("statefulsets", self.name, self.namespace, missing_ok=True)

        def no_pods():
            found = self.now()
            for pod in found:
                free(self.client, "pods", pod, grace=0)
            return not found
        wait_for(f"the pods of {self.name} are gone", no_pods, 60)
        nodes = [self.node, *self.refuges]
        for attachment in self.client.list("volumeattachments") if self.volumes else []:
            if attachment["spec"]["nodeName"] in nodes:
                free(self.client, "volumeattachments", attachment)
        self.cluster.hollow.remove(nodes)
