"""What CSI-Addons is on a bed: its kinds, the class of the bed's storage, and what a test does with them. storage/addons.go
stands in for its controller and sidecars.

The fields are those that csi-addons/kubernetes-csi-addons v0.14 publishes, with the rules that keep them from being changed.
Left out: descriptions, columns, and `conditions`, which its controller never sets.
"""

from typing import Optional

from e2e.kube import ApiError, Client, wait_for

from .volumes import DRIVER

GROUP = "csiaddons.openshift.io"
API = f"{GROUP}/v1alpha1"
CLASS = "san"  # the bed's storage
CLASSES = f"/apis/{API}/networkfenceclasses"
FENCED, UNFENCED = "fencing operation successful", "unfencing operation successful"
LIMIT = 180  # seconds until the API server serves the kinds, or the storage has done it; a bound, not a wait

TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
MAP = {"type": "object", "additionalProperties": TEXT}


def fixed(schema: dict) -> dict:
    return {**schema, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}]}


def table(*required: str, rules: tuple = (), **fields) -> dict:
    checks = {"x-kubernetes-validations": [{"rule": rule} for rule in rules]} if rules else {}
    return {"type": "object", "properties": fields, **({"required": list(required)} if required else {}), **checks}


def definition(kind: str, plural: str, scope: str, spec: dict, status: dict) -> dict:
    schema = table("spec", spec=spec, status=status)
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": {
        "group": GROUP, "scope": scope,
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                      "schema": {"openAPIV3Schema": schema}}]}}


DEFINITIONS = (
    definition(
        "NetworkFence", "networkfences", "Cluster",
        table("cidrs", "fenceState", networkFenceClassName=fixed(TEXT), driver=fixed(TEXT), parameters=fixed(MAP), cidrs=TEXTS,
              fenceState={**TEXT, "enum": ["Fenced", "Unfenced"], "default": "Fenced"},
              secret=fixed(table(name=fixed(TEXT), namespace=fixed(TEXT))),
              rules=("has(self.driver) || has(self.networkFenceClassName)", "has(self.networkFenceClassName) || has(self.secret)")),
        table(result=TEXT, message=TEXT)),
    definition("NetworkFenceClass", "networkfenceclasses", "Cluster",
               table("provisioner", provisioner=fixed(TEXT), parameters=fixed(MAP)), table()),
    definition(
        "CSIAddonsNode", "csiaddonsnodes", "Namespaced",
        table("driver", driver=table("endpoint", "name", "nodeID", endpoint=TEXT, name=fixed(TEXT), nodeID=fixed(TEXT))),
        table(state=TEXT, reason=TEXT, message=TEXT, capabilities=TEXTS, networkFenceClientStatus={
            "type": "array", "items": table("ClientDetails", "networkFenceClassName", networkFenceClassName=TEXT, ClientDetails={
                "type": "array", "items": table("cidrs", "id", id=TEXT, cidrs=TEXTS)})})),
)

# what storage/addons.go needs
RULES = (
    {"apiGroups": [GROUP], "resources": ["networkfenceclasses"], "verbs": ["list"]},
    {"apiGroups": [GROUP], "resources": ["networkfences"], "verbs": ["list", "watch", "patch"]},
    {"apiGroups": [GROUP], "resources": ["networkfences/status", "csiaddonsnodes/status"], "verbs": ["patch"]},
    {"apiGroups": [GROUP], "resources": ["csiaddonsnodes"], "verbs": ["list", "create", "patch", "delete"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["csinodes"], "verbs": ["list"]},
)


def install(client: Client):
    """Once more is fine: after a restart of the control plane all of it is there."""
    for each in DEFINITIONS:
        _create(client, "customresourcedefinitions", each)

    def made() -> bool:
        try:
            _create(client, CLASSES, {"apiVersion": API, "kind": "NetworkFenceClass", "metadata": {"name": CLASS},
                                      "spec": {"provisioner": DRIVER}})
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True
    wait_for("the kinds of CSI-Addons are served", made, LIMIT, 0.05)


def _create(client: Client, resource: str, body: dict):
    try:
        client.create(resource, body)
    except ApiError as error:
        if error.status != 409:
            raise


# --- what an operator does (docs/proof.md, Isolated by its storage)

def addresses(client: Client, node: str) -> list:
    """Under which the storage knows it; [] before it is told."""
    ours = [each for each in client.list("csiaddonsnodes")
            if (each["spec"]["driver"]["name"], each["spec"]["driver"]["nodeID"]) == (DRIVER, node)]
    return [cidr for each in ours for told in each.get("status", {}).get("networkFenceClientStatus", [])
            for detail in told["ClientDetails"] for cidr in detail["cidrs"]]


def lift(client: Client, name: str):
    """The machine must have been booted since."""
    client.patch("networkfences", name, {"spec": {"fenceState": "Unfenced"}})
    wait_message(client, name, UNFENCED)
    client.delete("networkfences", name)
    wait_for(f"NetworkFence {name} is gone", lambda: find(client, name) is None, LIMIT, 0.05)


def find(client: Client, name: str) -> Optional[dict]:
    return client.find("networkfences", name)


def wait_message(client: Client, name: str, message: str):
    def said() -> bool:
        status = client.get("networkfences", name).get("status", {})
        return (status.get("result"), status.get("message")) == ("Succeeded", message)
    wait_for(f"NetworkFence {name}: {message}", said, LIMIT, 0.05)
