"""The fencer fence-agents-remediation (fencers/fence-agents-remediation/README.md) on a real control plane: the test plays FAR's
controller and NodeHealthCheck, with the fields and defaults of FAR's published kind. The durations are as FAR's webhook writes
them when an object is made, so FAR's finalizer leaves generation 1. What has succeeded before the outage deletes nothing, and no
password of a parameter is told."""

import json
import time

import pytest

from .installation import one, rights_of
from .kube import ApiError, wait_for, wait_for_kinds_to_go
from .policies import policy_text
from .secrecy import check_untold

GROUP = "fence-agents-remediation.medik8s.io"
API, PLURAL = f"{GROUP}/v1alpha1", "fenceagentsremediations"
NODE = "remediation.medik8s.io/node-name"
PASSWORD = "correct-horse-battery"

TEXT = {"type": "string"}
TEXTS = {"type": "object", "additionalProperties": TEXT}
SPEC = {"type": "object", "required": ["agent"], "properties": {
    "agent": TEXT, "nodeSecretNames": TEXTS, "sharedSecretName": TEXT, "sharedparameters": TEXTS,
    "nodeparameters": {"type": "object", "additionalProperties": TEXTS},
    "retrycount": {"type": "integer", "default": 5}, "retryinterval": {**TEXT, "default": "5s"}, "timeout": {**TEXT, "default": "60s"},
    "remediationStrategy": {**TEXT, "default": "ResourceDeletion", "enum": ["ResourceDeletion", "OutOfServiceTaint"]}}}
CONDITION = {"type": "object", "required": ["lastTransitionTime", "message", "reason", "status", "type"], "properties": {
    "lastTransitionTime": {**TEXT, "format": "date-time"}, "message": TEXT, "reason": TEXT, "status": TEXT, "type": TEXT,
    "observedGeneration": {"type": "integer", "format": "int64"}}}
STATUS = {"type": "object", "properties": {
    "lastUpdateTime": {**TEXT, "format": "date-time"},
    "conditions": {"type": "array", "items": CONDITION, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}}}
KIND = {"metadata": {"name": f"{PLURAL}.{GROUP}"}, "spec": {
    "group": GROUP, "scope": "Namespaced",
    "names": {"kind": "FenceAgentsRemediation", "plural": PLURAL, "singular": PLURAL[:-1], "listKind": "FenceAgentsRemediationList"},
    "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                  "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}}}]}}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Far:
    """FAR, and NodeHealthCheck, which makes its objects in the namespace of the test."""

    def __init__(self, client, namespace: str):
        self.client, self.path = client, f"/apis/{API}/namespaces/{namespace}/{PLURAL}"
        client.create("customresourcedefinitions", KIND)
        wait_for("its kind is served", self._served, 60)

    def _served(self) -> bool:
        try:
            self.client.request("GET", self.path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def make(self, name: str, node: str):
        spec = {"agent": "fence_ipmilan", "sharedparameters": {"--method": "onoff", "--username": "admin", "--password": PASSWORD},
                "nodeparameters": {"--ip": {node: "10.0.0.1", "another": "10.0.0.2"}}, "timeout": "1m0s"}
        self.client.request("POST", self.path, {"apiVersion": API, "kind": "FenceAgentsRemediation",
                                                "metadata": {"name": name, "annotations": {NODE: node}}, "spec": spec},
                            {"fieldManager": "node-healthcheck"})

    def take_on(self, name: str):
        taken = self.client.request("GET", f"{self.path}/{name}")
        taken["metadata"]["finalizers"] = [f"{GROUP}/far-finalizer"]
        taken = self.client.request("PUT", f"{self.path}/{name}", taken, {"fieldManager": "manager"})
        assert taken["metadata"]["generation"] == 1
        self.says(name, "True", "Unknown", "RemediationStarted")

    def says(self, name: str, processing: str, succeeded: str, reason: str):
        told = self.client.request("GET", f"{self.path}/{name}")
        told["status"] = {"lastUpdateTime": now(), "conditions": [
            {"type": kind, "status": status, "reason": reason, "message": "-", "lastTransitionTime": now()}
            for kind, status in (("Processing", processing), ("FenceAgentActionSucceeded", succeeded), ("Succeeded", "Unknown"))]}
        self.client.request("PUT", f"{self.path}/{name}/status", told, {"fieldManager": "manager"})

    def end(self):
        for each in self.client.request("GET", self.path)["items"]:
            self.client.request("PATCH", f"{self.path}/{each['metadata']['name']}", {"metadata": {"finalizers": None}},
                                content_type="application/merge-patch+json")
        self.client.delete("customresourcedefinitions", KIND["metadata"]["name"], missing_ok=True)
        wait_for_kinds_to_go(self.client, [KIND])


@pytest.fixture
def far(cluster, workloads):
    made = Far(cluster.client, workloads.namespace)
    yield made
    made.end()


def test_the_pod_goes_when_the_agent_has_succeeded_in_this_outage(cluster, workloads, far, victims_of, start_engine, fencers, tool, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", 'fence.delete_pod("its node is dead")'))
    victims = victims_of(1, stateful=True)
    node = victims.node
    far.make(node, node)  # of an earlier outage
    far.take_on(node)
    far.says(node, "False", "True", "FenceAgentSucceeded")
    config = {"proof": "{everywhere: [off]}", "allowedReads": f"[v1/nodes, coordination.k8s.io/v1/leases, {API}/{PLURAL}]",
              "fencers": "[{fencer: fence-agents-remediation, settings: {verifying: [fence_ipmilan], "
                         f"namespace: {workloads.namespace}}}}}]"}
    made = now()
    engine = start_engine(policy=policy, config=config)
    engine.account.grant(f"{engine.account.name}-far", one(rights_of("fence-agents-remediation"), "Role")["rules"], workloads.namespace)
    wait_for("its kubelet is heard since", lambda: cluster.client.get("leases", node, "kube-node-lease")["spec"]["renewTime"][:19] > made[:19], 60)
    cluster.hollow.fail(node, "silent")

    def says(part: str):
        def newest() -> str:
            told = [each["text"] for each in engine.records() if each["kind"] == "verdict" and each["reason"] == "proof_missing"]
            return told[-1] if told else ""
        wait_for(part, lambda: part in newest(), 120)
    says(f"{node} is older than the kubelet's last sign: delete it, and have a new one made")
    (fallen,) = [each["lastTransitionTime"] for each in cluster.client.get("nodes", node)["status"]["conditions"] if each["type"] == "Ready"]
    wait_for("it is a second later", lambda: now() > fallen, 10)

    name = f"{node}-2"
    far.make(name, node)
    far.take_on(name)
    assert engine.deletes() == [] and victims.alive()
    far.says(name, "True", "True", "FenceAgentSucceeded")
    wait_for("the pod is gone", lambda: not victims.alive(), 120)

    intents = [each for each in engine.records() if each["kind"] == "intent"]
    assert [each["action"] for each in intents] == ["delete_pod"]
    assert f"{name}: agent fence_ipmilan has switched it off, and on again" in intents[0]["evidence"]
    fencers.write(config="api: 1\n" + "".join(f"{key}: {value}\n" for key, value in config.items()))
    checked = tool.engine("fencer", "check", node)
    told = checked + "".join(json.dumps(cluster.client.list(kind, workloads.namespace)) for kind in ("configmaps", "events"))
    assert "has switched it off" in checked and PASSWORD not in told
    check_untold([engine], (PASSWORD,))
