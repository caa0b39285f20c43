"""Watches nodes, pods and VolumeAttachments and writes down when it saw what, by its own clock alone.

One process, one clock: `python3 -m bench.observer --kubeconfig FILE --out FILE [--only nodes]`. A line is a JSON object with `at`
(nanoseconds, monotonic), `kind` (ADDED, MODIFIED, DELETED) and what of the object is of interest.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path

from e2e.async_http import AsyncClient, follow
from e2e.control_plane import REPO
from e2e.growing_file import whole_lines
from e2e.kube import Access, path_of, wait_for
from e2e.workloads import is_ready, node_ready, taints


def of_node(node: dict) -> dict:
    return {"ready": node_ready(node), "taints": sorted(key for key, effect in taints(node) if effect == "NoSchedule"),
            "attached": [v["name"] for v in node["status"].get("volumesAttached") or []],
            "in_use": node["status"].get("volumesInUse") or []}


def of_pod(pod: dict) -> dict:
    return {"namespace": pod["metadata"]["namespace"], "node": pod["spec"].get("nodeName", ""), "ready": is_ready(pod)}


def of_attachment(attachment: dict) -> dict:
    return {"node": attachment["spec"]["nodeName"], "pv": attachment["spec"]["source"].get("persistentVolumeName", ""),
            "attached": attachment.get("status", {}).get("attached", False)}


WATCHED = {"nodes": of_node, "pods": of_pod, "volumeattachments": of_attachment}


async def observe(access: Access, out, resources: list):
    client = AsyncClient(access, "bench-observer/1.0")

    def write(resource: str, kind: str, item: dict):
        at, meta = time.monotonic_ns(), item["metadata"]
        out.write(json.dumps({"at": at, "resource": resource, "kind": kind, "name": meta["name"], "uid": meta["uid"],
                              "revision": int(meta["resourceVersion"]), **WATCHED[resource](item)}) + "\n")

    def follow_one(resource: str):
        return follow(client, path_of(resource), {}, lambda items: [write(resource, "ADDED", i) for i in items],
                      lambda kind, item: write(resource, kind, item))
    await asyncio.gather(*map(follow_one, resources))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=list(WATCHED), action="append")
    arguments = parser.parse_args()
    with open(arguments.out, "a", buffering=1) as out:
        asyncio.run(observe(Access.from_kubeconfig(arguments.kubeconfig), out, arguments.only or list(WATCHED)))


class Observer:
    """The process, and what it has written."""

    def __init__(self, control_plane, only: tuple = ()):
        self.out = control_plane.folder / "observed.jsonl"
        self.processes = control_plane.processes
        env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
        self.processes.start("observer", [sys.executable, "-m", __name__, "--kubeconfig", control_plane.kubeconfig,
                                          "--out", self.out, *(word for each in only for word in ("--only", each))], env)
        wait_for("the observer runs", self.out.exists, 30)  # what is there already it will list

    def end(self):
        self.processes.end("observer")

    def seen(self) -> list:
        """All that was seen, in the order in which it was."""
        return [json.loads(line) for line in whole_lines(self.out)]


if __name__ == "__main__":
    main()
