"""What CSI-Addons has in a cluster, as csi-addons/kubernetes-csi-addons v0.14 writes it: two of its kinds, with the fields that are
read, and a controller that does what a test says.

    addons = CsiAddons(client, namespace, driver)
    addons.node("n1", "10.0.0.1/32")                    # what the sidecar on n1 has told
    addons.fence("f1", "10.0.0.1/32")                   # somebody isolates it
    addons.result("f1", "Succeeded", FENCED)            # what the controller says of it
    addons.end()
"""

from .kube import ApiError, wait_for, wait_for_kinds_to_go

GROUP, CLASS = "csiaddons.openshift.io", "ceph"
CLASSES = f"{GROUP}/networkfenceclass-names"
FENCED, UNFENCED = "fencing operation successful", "unfencing operation successful"
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}


def table(**fields) -> dict:
    return {"type": "object", "properties": fields}


def definition(kind: str, scope: str, spec: dict, status: dict) -> dict:
    plural = f"{kind.lower()}s"
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": {
        "group": GROUP, "scope": scope, "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                      "schema": {"openAPIV3Schema": table(spec=spec, status=status)}}]}}


DEFINITIONS = (
    definition("NetworkFence", "Cluster",
               table(networkFenceClassName=TEXT, driver=TEXT, fenceState={**TEXT, "enum": ["Fenced", "Unfenced"], "default": "Fenced"},
                     cidrs=TEXTS), table(result=TEXT, message=TEXT)),
    definition("CSIAddonsNode", "Namespaced", table(driver=table(name=TEXT, nodeID=TEXT, endpoint=TEXT)),
               table(state=TEXT, networkFenceClientStatus={"type": "array", "items": table(
                   networkFenceClassName=TEXT, ClientDetails={"type": "array", "items": table(id=TEXT, cidrs=TEXTS)})})),
)


class CsiAddons:
    def __init__(self, client, namespace: str, driver: str):
        self.client, self.namespace, self.driver = client, namespace, driver
        for each in DEFINITIONS:
            if not client.find("customresourcedefinitions", each["metadata"]["name"]):
                client.create("customresourcedefinitions", each)
        wait_for("its kinds are served", self._served, 60)

    def _served(self) -> bool:
        try:
            self.client.list("csiaddonsnodes", self.namespace)
            self.client.list("networkfences")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def node(self, name: str, *cidrs: str):
        """Made anew."""
        self.client.delete("csiaddonsnodes", name, self.namespace, missing_ok=True)
        self.client.create("csiaddonsnodes", {
            "apiVersion": f"{GROUP}/v1alpha1", "kind": "CSIAddonsNode", "metadata": {"name": name, "annotations": {CLASSES: f'["{CLASS}"]'}},
            "spec": {"driver": {"name": self.driver, "nodeID": name, "endpoint": "pod://x"}}}, self.namespace)
        self.client.patch("csiaddonsnodes", name, {"status": {"state": "Connected", "networkFenceClientStatus": [
            {"networkFenceClassName": CLASS, "ClientDetails": [{"id": "1", "cidrs": list(cidrs)}]}]}},
            self.namespace, subresource="status")

    def fence(self, name: str, *cidrs: str, state: str = "Fenced"):
        self.client.create("networkfences", {
            "apiVersion": f"{GROUP}/v1alpha1", "kind": "NetworkFence", "metadata": {"name": name},
            "spec": {"networkFenceClassName": CLASS, "fenceState": state, "cidrs": list(cidrs)}})

    def result(self, name: str, result: str, message: str):
        self.client.patch("networkfences", name, {"status": {"result": result, "message": message}}, subresource="status")

    def lift(self, name: str):
        self.client.patch("networkfences", name, {"spec": {"fenceState": "Unfenced"}})

    def remove(self, name: str):
        self.client.delete("networkfences", name)

    def end(self):
        for each in self.client.list("networkfences"):
            self.client.delete("networkfences", each["metadata"]["name"])
        for each in DEFINITIONS:
            self.client.delete("customresourcedefinitions", each["metadata"]["name"], missing_ok=True)
        wait_for_kinds_to_go(self.client, DEFINITIONS)
