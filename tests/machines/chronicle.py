"""When something was first seen in a namespace and on its nodes: for tables of durations, never for assertions."""

import http.client
import threading
import time
from typing import Optional

from e2e.kube import ApiError, Client, path_of
from e2e.workloads import is_ready, node_ready


class Chronicle:
    """Follows pods and nodes by watches, which begin again after an outage of the API server."""

    def __init__(self, client: Client, namespace: str):
        self.client, self.namespace = client, namespace
        self.not_ready: dict = {}  # node: when
        self.unknown: dict = {}  # node: when its Ready condition was first seen to be Unknown
        self.deleted: dict = {}  # uid of a pod: when its deletion was first seen
        self.running: dict = {}  # uid of a pod: (when it was first Ready, the pod)
        self._ended = threading.Event()
        for resource, see in (("pods", self._see_pod), ("nodes", self._see_node)):
            threading.Thread(target=self._follow, args=(resource, see), daemon=True).start()

    def end(self):
        """What happens from now on is not of the story."""
        self._ended.set()

    def _follow(self, resource: str, see):
        namespace = self.namespace if resource == "pods" else ""
        while not self._ended.is_set():
            try:
                listed = self.client.request("GET", path_of(resource, "", namespace))
                for item in listed["items"]:
                    see("MODIFIED", item)
                for event in self.client.watch(resource, namespace, listed["metadata"]["resourceVersion"], seconds=20):
                    if event["type"] == "ERROR" or self._ended.is_set():
                        break
                    see(event["type"], event["object"])
            except (ApiError, OSError, http.client.HTTPException, ValueError):
                self._ended.wait(0.1)

    def _see_pod(self, kind: str, pod: dict):
        uid, now = pod["metadata"]["uid"], time.monotonic()
        if kind == "DELETED" or "deletionTimestamp" in pod["metadata"]:
            self.deleted.setdefault(uid, now)
        elif is_ready(pod):
            self.running.setdefault(uid, (now, pod))

    def _see_node(self, _, node: dict):
        if node_ready(node) != "True":
            self.not_ready.setdefault(node["metadata"]["name"], time.monotonic())
        if node_ready(node) == "Unknown":
            self.unknown.setdefault(node["metadata"]["name"], time.monotonic())


def seconds(since: float, moment: Optional[float]) -> Optional[float]:
    return None if moment is None else round(moment - since, 2)
