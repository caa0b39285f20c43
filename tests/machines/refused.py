"""A workload whose storage refuses a node: nothing lasts in its pod but its volume, which a node that it was detached from
writes on to. What its containers say is in an emptyDir, on the machine's disk, for as long as the pod is there.

Beside the writer, which ends on its first error, another container of the pod tries to write to the volume for ever.
"""

import os
from pathlib import Path

from cluster import san, volumes
from cluster.image import BOX
from cluster.node import Node
from e2e.kube import wait_for
from e2e.workloads import WORKLOAD

from .disks import LABEL, LIMIT, RISKED, Disks

TRIES = """trap 'exit 0' TERM
while :; do
  if echo line | busybox dd of=/data/tries oflag=append conv=notrunc,fsync 2>/dev/null; then echo done; else echo failed; fi >>/witness/tries
  sleep 0.2 & wait $!
done"""
STUBBORN = {"name": "stubborn", "image": BOX, "command": ["sh", "-c", TRIES],
            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "witness", "mountPath": "/witness"}]}


class Refused(Disks):
    detach = {RISKED: volumes.BOOKKEEPING}

    def writers(self, name: str, prefer: dict) -> dict:
        return volumes.writers(name, self.detach[name], namespace=self.namespace, labels={WORKLOAD: name, LABEL[name]: "true"},
                               more=prefer, beside=(STUBBORN,), lasting=False)

    def said(self, name: str) -> list:
        """A second name for each writer's file keeps it when its pod goes."""
        for node in self.bed.nodes:
            for file in node.folder.glob(f"disk/kubelet/pods/*/volumes/kubernetes.io~empty-dir/witness/{name}-0_*"):
                kept = node.folder / "kept" / volumes.witness(self.namespace).lstrip("/") / file.name
                kept.parent.mkdir(parents=True, exist_ok=True)
                if not kept.exists():
                    os.link(file, kept)
        return san.witnesses([node.folder / "kept" for node in self.bed.nodes], self.namespace, f"{name}-0")

    def tries(self, node: Node, pod: dict) -> tuple:
        """How often the other container has written to the volume, and how often that failed."""
        uid = pod["metadata"]["uid"]
        lines = Path(node.folder, "disk/kubelet/pods", uid, "volumes/kubernetes.io~empty-dir/witness/tries").read_text().split()
        return lines.count("done"), lines.count("failed")

    def wait_tries(self, node: Node, pod: dict, done: int = 0, failed: int = 0):
        """So many more."""
        before = self.tries(node, pod)

        def seen() -> bool:
            now = self.tries(node, pod)
            return now[0] >= before[0] + done and now[1] >= before[1] + failed
        wait_for(f"a container tries to write, {done} times well and {failed} times not", seen, LIMIT, 0.05)
