"""Every pod and attachment that was ever seen, with the node that it belongs to."""

import http.client
import threading
import time

from e2e.kube import ApiError, Client, path_of

BROKEN = (ApiError, OSError, http.client.HTTPException, ValueError)


class Register:
    """Follows pods of one namespace and attachments of one driver. What came and went while the API server was away
    is not in it."""

    def __init__(self, client: Client, namespace: str, driver: str):
        self.client, self.driver = client, driver
        self.node_of: dict = {}  # UID -> node
        self._over = threading.Event()
        for resource, space in (("pods", namespace), ("volumeattachments", "")):
            threading.Thread(target=self._follow, args=(resource, space), daemon=True).start()

    def bound_to(self, node: str) -> set:
        """UIDs of what has ever been bound, or attached, to that node."""
        return {uid for uid, name in list(self.node_of.items()) if name == node}

    def end(self):
        self._over.set()

    def _follow(self, resource: str, namespace: str):
        while not self._over.is_set():
            try:
                whole = self.client.request("GET", path_of(resource, "", namespace))
                for item in whole["items"]:
                    self._saw(item)
                for event in self.client.watch(resource, namespace, whole["metadata"]["resourceVersion"], seconds=5):
                    if event["type"] == "ERROR" or self._over.is_set():
                        break
                    self._saw(event["object"])
            except BROKEN:
                time.sleep(0.1)

    def _saw(self, item: dict):
        spec = item["spec"]
        if spec.get("nodeName") and spec.get("attacher", self.driver) == self.driver:
            self.node_of[item["metadata"]["uid"]] = spec["nodeName"]
