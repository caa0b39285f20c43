"""Very many objects in the real API server, made in parallel over connections that stay open.

The nodes are objects as kubelets write them (50 images, 10 conditions) without a process behind each; their
heartbeats come from heartbeats.py. Pods are bound to them when they are made, so that no scheduler is asked.
"""

import asyncio
import os
import re
import sys
import time
from typing import Callable

from e2e.async_http import AsyncClient
from e2e.control_plane import REPO
from e2e.hollow_objects import conditions as kubelet_conditions
from e2e.hollow_objects import node, now
from e2e.kube import Access, path_of

IMAGES = 50
TOGETHER = 32  # requests at once
# What node-problem-detector and network plugins add to a kubelet's four.
MORE_CONDITIONS = ("NetworkUnavailable", "KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "FrequentKubeletRestart",
                   "FrequentContainerdRestart")


def conditions() -> list:
    stamp = now()
    more = [{"type": kind, "status": "False", "reason": f"No{kind}", "message": f"{kind} has not been seen on this node",
             "lastHeartbeatTime": stamp, "lastTransitionTime": stamp} for kind in MORE_CONDITIONS]
    return more + kubelet_conditions("True", stamp)


class Crowd:
    """`label` is what its nodes have as `bench`, `address` the InternalIP of a node by its number (others: made up)."""

    def __init__(self, stage, prefix: str = "crowd-", label: str = "crowd", address: Callable = None):
        self.stage, self.prefix, self.nodes, self.pods = stage, prefix, 0, 0
        self.label, self.address = label, address
        self.beats = f"{prefix}heartbeats"  # the process that sends them
        self.kubeconfig = stage.control_plane.folder / "hollow-nodes.kubeconfig"  # its heartbeats are not audited

    def add_nodes(self, count: int) -> float:
        """Until there are `count`; how many were made in a second."""
        def body(index: int) -> dict:
            made = node(f"{self.prefix}{index}", f"boot-{index}", {"bench": self.label}, IMAGES, True)
            if self.address:
                made["status"]["addresses"][0]["address"] = self.address(index)
            made["status"]["conditions"] = conditions()
            return made
        rate = self._create("nodes", "", map(body, range(self.nodes, count)), count - self.nodes)
        self.nodes = count
        return rate

    def add_pods(self, count: int, namespace: str) -> float:
        def body(index: int) -> dict:
            return {"metadata": {"name": f"pod-{index}", "labels": {"app": f"app-{index % 100}", "tier": "backend"},
                                 "annotations": {"example.com/revision": f"{index}" * 8}},
                    "spec": {"nodeName": f"{self.prefix}{index % self.nodes}", "automountServiceAccountToken": False,
                             "containers": [{"name": "main", "image": "registry.example.com/team/service:1.0",
                                             "env": [{"name": f"VARIABLE_{i}", "value": "v" * 40} for i in range(10)]}]}}
        rate = self._create("pods", namespace, map(body, range(self.pods, count)), count - self.pods)
        self.pods = count
        return rate

    def _create(self, resource: str, namespace: str, bodies, count: int) -> float:
        began = time.monotonic()
        asyncio.run(self._create_all(path_of(resource, "", namespace), iter(bodies)))
        return count / max(1e-9, time.monotonic() - began)

    async def _create_all(self, path: str, bodies):
        client = AsyncClient(Access.from_kubeconfig(self.kubeconfig), "bench-crowd/1.0", TOGETHER, timeout=60)

        async def worker():
            for body in bodies:
                status, answer = await client.request("POST", path, body)
                if status >= 300 and status != 409:
                    raise RuntimeError(f"{path}: {status} {answer}")
        await asyncio.gather(*(worker() for _ in range(TOGETHER)))

    # --- heartbeats

    def start_heartbeats(self, lease: float, status: float):
        env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
        self.stage.control_plane.processes.start(self.beats, [
            sys.executable, "-m", "bench.heartbeats", "--kubeconfig", self.kubeconfig, "--prefix", self.prefix,
            "--nodes", self.nodes, "--lease", lease, "--status", status], env)

    def heartbeats(self) -> dict:
        """What heartbeats.py said last of itself."""
        said = re.findall(r"(\d+) sent, (\d+) late, (\d+) failed in (\d+) s",
                          self.stage.control_plane.processes.log_tail(self.beats, 20))
        sent, late, failed, seconds = map(int, said[-1]) if said else (0, 0, 0, 1)
        return {"rate": sent / seconds, "late": late, "failed": failed}

    def end_heartbeats(self):
        self.stage.control_plane.processes.end(self.beats)
