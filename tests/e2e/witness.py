"""Tells in which state a node was when a pod on it was deleted, by the order of etcd's revisions.

Every write to the cluster has a revision, and the DELETED event of a pod carries the one of its deletion.
The node's state at that moment is its last version with a smaller revision: exact, without any clock.
"""

import math
import time

from .kube import Client, path_of
from .workloads import node_ready, taints

# with effect NoSchedule each of them keeps a replacement off the node
KEYS = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable",
        "node.kubernetes.io/out-of-service", "moonfence.io/fenced"}


def _revision(item: dict) -> int:
    return int(item["metadata"]["resourceVersion"])


def keeps_off(node: dict) -> bool:
    return bool({(key, "NoSchedule") for key in KEYS} & taints(node))


class Witness:
    """Remembers from when it was made. The API server keeps events for 75 s at least; not over its restart:
    then check() raises ApiError 410."""

    def __init__(self, client: Client, namespace: str):
        self.client, self.namespace = client, namespace
        nodes = client.request("GET", path_of("nodes"))
        self.since = nodes["metadata"]["resourceVersion"]
        self.nodes = nodes["items"]

    def deletions(self, uids) -> dict:
        """{uid: (revision, node)} of these pods' forced deletions."""
        found: dict = {}
        missing = set(uids)
        for event in self._events("pods", seconds=60) if missing else []:  # ends with the last of them
            pod = event["object"]
            meta = pod["metadata"]
            if meta["uid"] in missing and (event["type"] == "DELETED" or meta.get("deletionGracePeriodSeconds") == 0):
                found[meta["uid"]] = (_revision(pod), pod["spec"].get("nodeName", ""))
                missing.discard(meta["uid"])
                if not missing:
                    break
        assert not missing, f"no trace of the deletion of the pods {missing}"
        return found

    def history(self, name: str, until: int) -> list:
        """The versions of a node, oldest first, all that are older than the revision `until`."""
        versions = [node for node in self.nodes if node["metadata"]["name"] == name]
        # a write of our own, to know when all events before it have come
        other = next(iter(self.client.list("nodes")), None)
        mark = other and self.client.patch("nodes", other["metadata"]["name"], {
            "metadata": {"annotations": {"moonfence.io/mark": str(time.time_ns())}}})
        for event in self._events("nodes", seconds=10 if mark else 1):
            node = event["object"]
            if node["metadata"]["name"] == name and _revision(node) < until and event["type"] != "DELETED":
                versions.append(node)
            if mark and _revision(node) >= _revision(mark):
                break
        return versions

    def check(self, uids):
        """None of these pods was deleted while its node was Ready or without a taint that keeps
        replacements off."""
        for uid, (revision, name) in self.deletions(uids).items():
            versions = self.history(name, revision)
            assert versions, f"pod {uid} was deleted, and its node {name} never existed"
            node = versions[-1]
            assert node_ready(node) != "True", f"pod {uid} was deleted while {name} was Ready"
            assert keeps_off(node), (
                f"pod {uid} was deleted while {name} had only the taints {taints(node)}")

    def _events(self, resource: str, seconds: int):
        """Until so many seconds are over. An API server ends the watch of a reader that is slow, which goes on from the
        last event that it has read."""
        namespace = self.namespace if resource == "pods" else ""
        version, end = self.since, time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for event in self.client.watch(resource, namespace, version=version, seconds=math.ceil(left)):
                if event["type"] == "ERROR":
                    raise AssertionError(f"events since {version} are gone: {event['object'].get('message')}")
                version = event["object"]["metadata"]["resourceVersion"]
                yield event
