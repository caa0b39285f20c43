"""Two workloads with a volume each, and what their writers left on the disks.

`fenced` has a volume that takes no more writes of a node once it is detached from it; to that of `risked` a node that is
cut off goes on writing, as with most storage.
"""

from typing import Optional

from cluster import leftover, san, volumes
from cluster.bed_with_volumes import BedWithVolumes
from cluster.checker import Report
from e2e.hollow_objects import attachment_name
from e2e.kube import wait_for
from e2e.workloads import WORKLOAD, free, is_ready

from .bindings import FENCED_LABEL, FENCED_WORDS, RISK, RISKED_LABEL

FENCED, RISKED = "fenced", "risked"
DETACH = {FENCED: volumes.FENCE, RISKED: volumes.BOOKKEEPING}
LABEL = {FENCED: FENCED_LABEL, RISKED: RISKED_LABEL}
# whose verdict moves each, and the words that stand in the record beside it
SAID = {FENCED: ("generic", FENCED_WORDS), RISKED: ("risks", RISK)}
LIMIT = 240  # seconds; a bound, not a wait


class Disks:
    """Each has one pod, NAME-0."""

    detach = DETACH

    def __init__(self, bed: BedWithVolumes, namespace: str):
        self.bed, self.client, self.namespace = bed, bed.client, namespace

    def volume(self, name: str) -> str:
        """The PersistentVolume, and what the storage calls it."""
        return f"{self.namespace}-{name}"

    # --- before

    def create(self, prefer: dict):
        """`prefer` goes into the pods' spec: where they like to run."""
        for name, detach in self.detach.items():
            claim = f"data-{name}-0"
            self.bed.san.create(self.volume(name), detach)
            self.client.create("persistentvolumes", volumes.persistent_volume(
                self.volume(name), detach, claim, self.namespace))
            self.client.create("persistentvolumeclaims", volumes.claim(claim, detach), self.namespace)
        # a pod that comes before its claim is bound costs the scheduler up to 10 s of back-off
        wait_for("the claims are bound", lambda: all(
            claim["status"].get("phase") == "Bound"
            for claim in self.client.list("persistentvolumeclaims", self.namespace)), LIMIT, 0.02)
        for name in self.detach:
            self.client.create("statefulsets", self.writers(name, prefer))

    def writers(self, name: str, prefer: dict) -> dict:
        """The StatefulSet."""
        return volumes.writers(name, self.detach[name], namespace=self.namespace,
                               labels={WORKLOAD: name, LABEL[name]: "true"}, more=prefer)

    # --- where they are

    def pod(self, name: str) -> dict:
        return self.client.find("pods", f"{name}-0", self.namespace)

    def attachments(self, name: str) -> list:
        return [each for each in self.client.list("volumeattachments")
                if each["spec"]["source"].get("persistentVolumeName") == self.volume(name)]

    def attachment_name(self, name: str, node: str) -> str:
        return attachment_name(volumes.DRIVER, self.volume(name), node)

    def attached_to(self, name: str) -> list:
        """Nodes, if Kubernetes and the storage agree on them."""
        nodes = sorted(each["spec"]["nodeName"] for each in self.attachments(name) if each["status"]["attached"])
        return nodes if nodes == self.bed.san.attached_to(self.volume(name)) else []

    def wait_attached(self, name: str, pod: dict):
        """Its volume is attached to the pod's node, and to no other."""
        node = pod["spec"]["nodeName"]
        wait_for(f"the volume of {name} is attached to {node} alone", lambda: (
            len(self.attachments(name)) == 1 and self.attached_to(name) == [node]), LIMIT)

    # --- what was said

    def check_record(self, record: dict, names: list, found_gone: tuple = ()):
        """The incident's record has a step for the volume of each of these workloads: it was detached, by whose verdict,
        and what that said of the risk. `found_gone`: UIDs of pods that were found gone; their attachments may have been
        too."""
        steps = {step["attachment"]["handle"]: step for step in record["steps"] if step["step"] == "delete_attachment"}
        assert set(steps) == {self.volume(name) for name in names}
        for name in names:
            step = steps[self.volume(name)]
            assert (record["policies"][step["policy"]]["name"], step["why"]) == SAID[name]
            gone = ("already_gone",) if step["pod"]["uid"] in found_gone else ()
            assert step["outcome"] in ("done", "marked_only", *gone) and "gone" in step, step

    def wait_told_withdrawn(self, names: list):
        """An event at each of the old pods: look at the file system."""
        def told():
            return {event["involvedObject"]["name"] for event in self.client.list("events", self.namespace)
                    if event["reason"] == "StorageWithdrawn"}
        wait_for("it is told that storage was withdrawn", lambda: told() == {f"{name}-0" for name in names}, LIMIT)

    # --- what is on them

    def said(self, name: str) -> list:
        """What its writers called durable, on all nodes."""
        return san.witnesses([node.folder / "disk" for node in self.bed.nodes], self.namespace, f"{name}-0")

    def wait_more(self, name: str, lines: int = 5, pod: Optional[dict] = None):
        """A writer goes on: that of this pod, wherever it is, or any."""
        uid = pod["metadata"]["uid"] if pod else ""

        def written():
            return sum(1 for text in self.said(name) for line in text.splitlines() if uid in line)
        before = written()
        wait_for(f"{name} writes", lambda: written() >= before + lines, LIMIT)

    def judge(self, sound) -> dict:
        """{workload: Report}. Those that are `sound` must still write. Then the writers end, and every node lets go of
        their volumes; also one from which a volume was taken by force."""
        for name in sound:
            wait_for(f"{name} runs", lambda name=name: is_ready(self.pod(name)), LIMIT)
            self.wait_more(name, 1)
        for name in self.detach:
            self.client.delete("statefulsets", name, self.namespace)
        return {name: self._judge(name) for name in self.detach}

    def _judge(self, name: str) -> Report:
        storage, volume = self.bed.san, self.volume(name)
        wait_for(f"the volume of {name} is attached and mounted nowhere", lambda: not (
            self.attachments(name) or storage.attached_to(volume) or leftover.loops_of(storage.folder / volume)), LIMIT)
        return storage.check(volume, self.said(name))

    # --- the end of a test

    def remove(self):
        """The pods are gone. What is still attached, because the test failed, is forgotten by Kubernetes."""
        for name in self.detach:
            for attachment in self.attachments(name):
                free(self.client, "volumeattachments", attachment)
            found = self.client.find("persistentvolumes", self.volume(name))
            if found:
                free(self.client, "persistentvolumes", found)
