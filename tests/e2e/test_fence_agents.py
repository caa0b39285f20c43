"""The fencer fence-agents-remediation (fencers/fence-agents-remediation/README.md) on a real control plane: the test plays FAR's
controller, by the fields of fence-agents-remediation.medik8s.io/v1alpha1 that are read. What has succeeded before the outage deletes
nothing; moonfence has one remediation made, and its pod goes when the agent has succeeded in that one."""

import time

import pytest

from .engine import RULES
from .installation import DEPLOY, USER, Installation, objects, one
from .kube import ApiError, wait_for, wait_for_kinds_to_go
from .policies import policy_text

GROUP = "fence-agents-remediation.medik8s.io"
API, PLURAL = f"{GROUP}/v1alpha1", "fenceagentsremediations"
NODE = "remediation.medik8s.io/node-name"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def kind_of(name: str) -> dict:
    plural = f"{name.lower()}s"
    return {"metadata": {"name": f"{plural}.{GROUP}"}, "spec": {
        "group": GROUP, "scope": "Namespaced",
        "names": {"kind": name, "plural": plural, "singular": name.lower(), "listKind": f"{name}List"},
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                      "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}}}]}}


KINDS = [kind_of("FenceAgentsRemediation"), kind_of("FenceAgentsRemediationTemplate")]


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Far:
    """FAR in the namespace of the test, with one template."""

    def __init__(self, client, namespace: str):
        self.client, self.namespace, self.path = client, namespace, f"/apis/{API}/namespaces/{namespace}/{PLURAL}"
        for kind in KINDS:
            client.create("customresourcedefinitions", kind)
        for path in (self.path, self.templates):
            wait_for("its kind is served", lambda path=path: self._served(path), 60)

    @property
    def templates(self) -> str:
        return f"/apis/{API}/namespaces/{self.namespace}/fenceagentsremediationtemplates"

    def _served(self, path: str) -> bool:
        try:
            self.client.request("GET", path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def template(self, *nodes: str):
        spec = {"agent": "fence_ipmilan", "retrycount": 5, "sharedSecretName": "bmc", "sharedparameters": {"--method": "onoff", "--action": "off"},
                "nodeparameters": {"--ip": {node: f"10.0.0.{i}" for i, node in enumerate(nodes)}}}
        self.client.request("POST", self.templates, {"apiVersion": API, "kind": "FenceAgentsRemediationTemplate",
                                                     "metadata": {"name": "moonfence"}, "spec": {"template": {"spec": spec}}})
        return spec

    def make(self, name: str, spec: dict):
        self.client.request("POST", self.path, {"apiVersion": API, "kind": "FenceAgentsRemediation", "metadata": {"name": name}, "spec": spec})

    def says(self, name: str, processing: str, succeeded: str, reason: str, at: str = ""):
        conditions = [{"type": kind, "status": status, "reason": reason, "message": "-", "lastTransitionTime": at or now()}
                      for kind, status in (("Processing", processing), ("FenceAgentActionSucceeded", succeeded))]
        self.client.request("PATCH", f"{self.path}/{name}/status", {"status": {"conditions": conditions}},
                            content_type="application/merge-patch+json")

    def made(self) -> list:
        """By moonfence."""
        return [each for each in self.client.request("GET", self.path)["items"] if each["metadata"]["name"].startswith("moonfence-")]

    def end(self):
        for kind in KINDS:
            self.client.delete("customresourcedefinitions", kind["metadata"]["name"], missing_ok=True)
        wait_for_kinds_to_go(self.client, KINDS)


@pytest.fixture
def far(cluster, workloads):
    made = Far(cluster.client, workloads.namespace)
    yield made
    made.end()


def shipped(part: str) -> list:
    return objects(DEPLOY / "rights" / "fence-agents-remediation" / f"{part}.yaml")


def only_as_the_template_says(cluster, far, made: dict):
    """What the API server lets moonfence make, by the object that it has made."""
    installation = Installation(cluster)
    installation.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "moonfence"}}, *shipped("rights"), *shipped("admission")])
    moonfence = cluster.control_plane.client(user=USER, group="system:serviceaccounts")

    def answer(spec: dict | None = None, method: str = "POST", path: str = far.path, **metadata) -> str:
        about = {"name": "moonfence-2", "annotations": made["metadata"]["annotations"], **metadata}
        try:
            moonfence.request(method, path, {"apiVersion": API, "kind": "FenceAgentsRemediation", "metadata": about,
                                             "spec": {**made["spec"], **(spec or {})}}, {"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return ""
    elsewhere = {"--ip": {made["metadata"]["annotations"][NODE]: "192.0.2.1"}}
    wait_for("it is in force", lambda: "of no other" in answer({"nodeparameters": elsewhere}), 60)
    assert answer() == ""
    assert "the shared parameters" in answer({"sharedparameters": {"--ip": "192.0.2.1"}})
    assert "the shared parameters" in answer({"agent": "fence_other"})
    assert "the shared parameters" in answer({"sharedSecretName": "another"})
    assert "of no other" in answer({"nodeSecretNames": {"n1": "another"}})
    assert "no owners" in answer(name="other")
    assert "no owners" in answer(finalizers=["example.com/stay"])
    assert answer(method="PUT", path=f"{far.path}/{made['metadata']['name']}", name=made["metadata"]["name"])
    installation.remove_all()


def test_a_remediation_is_made_once_and_the_pod_goes_when_its_agent_has_succeeded(cluster, workloads, far, victims_of, start_engine, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", 'fence.delete_pod("its node is dead")'))
    victims = victims_of(1, stateful=True)
    node = victims.node
    spec = far.template(node, "another")
    far.make(node, spec)  # of an earlier outage: FAR takes its name for the node's
    far.says(node, "False", "True", "FenceAgentSucceeded")
    settings = f"{{namespace: {workloads.namespace}, verifying: [fence_ipmilan/onoff]}}"
    engine = start_engine(policy=policy, rules=[*RULES, *one(shipped("rights"), "ClusterRole")["rules"]], config={
        "proof": "{everywhere: [off]}", "allowedReads": f"[v1/nodes, coordination.k8s.io/v1/leases, {API}/{PLURAL}, {API}/fenceagentsremediationtemplates]",
        "allowedWrites": f"[{API}/{PLURAL}]", "fencers": f"[{{fencer: fence-agents-remediation, switchOff: true, settings: {settings}}}]"})
    cluster.hollow.fail(node, "silent")
    wait_for("it is made", far.made, 120)
    (made,) = far.made()
    name = made["metadata"]["name"]
    far.says(name, "False", "True", "FenceAgentSucceeded", at="2026-01-01T00:00:00Z")
    assert made["metadata"]["annotations"][NODE] == node
    assert made["spec"] == {**spec, "nodeparameters": {"--ip": {node: "10.0.0.0"}}}

    def says(part: str):
        def newest() -> str:
            told = [each["text"] for each in engine.records() if each["kind"] == "verdict" and each["reason"] == "proof_missing"]
            return told[-1] if told else ""
        wait_for(part, lambda: part in newest(), 120)
    says("succeeded before the kubelet was last heard")
    assert engine.deletes() == []
    far.says(name, "True", "True", "FenceAgentSucceeded")
    wait_for("the pod is gone", lambda: not victims.alive(), 120)
    assert [each["metadata"]["name"] for each in far.made()] == [name]
    intents = [each for each in engine.records() if each["kind"] == "intent"]
    assert [each["action"] for each in intents] == ["switch_off", "delete_pod"]
    assert "fence_ipmilan has switched it off" in intents[1]["evidence"]
    only_as_the_template_says(cluster, far, made)
