"""The fencer metal3 (fencers/metal3/README.md) on a real control plane: the test plays Metal3's operator, by the fields of
metal3.io/v1alpha1 that are read. What its status said before the outage deletes nothing; what it says of a host that is held off does."""

import time

import pytest

from .engine import RULES
from .installation import DEPLOY, USER, Installation, objects, one
from .kube import ApiError, wait_for, wait_for_kinds_to_go
from .policies import policy_text

GROUP, API = "metal3.io", "metal3.io/v1alpha1"
HOLD = "reboot.metal3.io/moonfence"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
HOSTS = {"metadata": {"name": f"baremetalhosts.{GROUP}"}, "spec": {
    "group": GROUP, "scope": "Namespaced",
    "names": {"kind": "BareMetalHost", "plural": "baremetalhosts", "singular": "baremetalhost", "listKind": "BareMetalHostList"},
    "versions": [{"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}},
                  "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANYTHING, "status": ANYTHING}}}}]}}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Metal3:
    """One host, of one node, in the namespace of the test."""

    def __init__(self, client, namespace: str):
        self.client, self.path = client, f"/apis/{API}/namespaces/{namespace}/baremetalhosts"
        if not client.find("customresourcedefinitions", HOSTS["metadata"]["name"]):
            client.create("customresourcedefinitions", HOSTS)
        wait_for("its kind is served", self._served, 60)

    def _served(self) -> bool:
        try:
            self.client.request("GET", self.path)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def make(self, machine: str = "m1"):
        self.client.request("POST", self.path, {
            "apiVersion": API, "kind": "BareMetalHost", "metadata": {"name": "h1"},
            "spec": {"online": True, "consumerRef": {"kind": "Metal3Machine", "name": machine}}})
        self.told(poweredOn=True)

    def told(self, **status):
        self.client.request("PATCH", f"{self.path}/h1/status", {"status": {
            "operationalStatus": "OK", "errorType": "", "provisioning": {"state": "provisioned"}, "lastUpdated": now(), **status}},
            content_type="application/merge-patch+json")

    def annotations(self) -> dict:
        return self.client.request("GET", f"{self.path}/h1")["metadata"].get("annotations", {})

    def end(self):
        self.client.delete("customresourcedefinitions", HOSTS["metadata"]["name"], missing_ok=True)
        wait_for_kinds_to_go(self.client, [HOSTS])


@pytest.fixture
def metal3(cluster, workloads):
    made = Metal3(cluster.client, workloads.namespace)
    yield made
    made.end()


def shipped(part: str) -> list:
    return objects(DEPLOY / "rights" / "metal3" / f"{part}.yaml")


def test_a_host_is_held_off_and_the_pod_goes_when_its_operator_has_seen_that(cluster, workloads, metal3, victims_of, start_engine, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", 'fence.delete_pod("its node is dead")'))
    victims = victims_of(1, stateful=True)
    node = victims.node
    cluster.client.patch("nodes", node, {"spec": {"providerID": f"metal3://{workloads.namespace}/h1/m1"}})
    metal3.make()
    engine = start_engine(policy=policy, rules=[*RULES, *one(shipped("rights"), "ClusterRole")["rules"]], config={
        "proof": "{everywhere: [off]}", "allowedReads": f"[v1/nodes, {API}/baremetalhosts]",
        "allowedWrites": f"[{API}/baremetalhosts]", "fencers": "[{fencer: metal3, switchOff: true}]"})
    cluster.hollow.fail(node, "silent")
    wait_for("it is held off", lambda: HOLD in metal3.annotations(), 120)
    assert metal3.annotations()[HOLD] == '{"mode":"hard"}'

    def says(part: str):
        def newest() -> str:
            told = [each["text"] for each in engine.records() if each["kind"] == "verdict" and each["reason"] == "proof_missing"]
            return told[-1] if told else ""
        wait_for(part, lambda: part in newest(), 120)
    metal3.told(poweredOn=False, operationalStatus="error", errorType="power management error")
    says("power management error")
    metal3.told(poweredOn=False, lastUpdated="2026-01-01T00:00:00Z")
    says("has said nothing since the kubelet was heard")
    assert engine.deletes() == []
    metal3.told(poweredOn=False)
    wait_for("the pod is gone", lambda: not victims.alive(), 120)
    intents = [each for each in engine.records() if each["kind"] == "intent"]
    assert [each["action"] for each in intents] == ["switch_off", "delete_pod"]
    assert f"held by {HOLD}" in intents[1]["evidence"]


def test_the_api_server_lets_moonfence_set_one_annotation_and_nothing_else(cluster, workloads, metal3):
    metal3.make()
    installation = Installation(cluster)
    installation.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "moonfence"}}, *shipped("rights"), *shipped("admission")])
    moonfence = cluster.control_plane.client(user=USER, group="system:serviceaccounts")

    def answer(change: dict, part: str = "") -> str:
        try:
            moonfence.request("PATCH", f"{metal3.path}/h1{part}", change, {"dryRun": "All"}, content_type="application/merge-patch+json")
        except ApiError as error:
            return str(error)
        return ""
    uid = cluster.client.request("GET", f"{metal3.path}/h1")["metadata"]["uid"]
    hold = {"metadata": {"uid": uid, "annotations": {HOLD: "{}"}}}  # as the engine sends it
    wait_for("it is in force", lambda: "nothing else" in answer({"spec": {"online": False}, **hold}), 60)
    assert answer(hold) == ""
    assert "and no other" in answer({"metadata": {"annotations": {HOLD: "{}", "baremetalhost.metal3.io/paused": ""}}})
    assert "and no other" in answer({"metadata": {"annotations": {"reboot.metal3.io/other": "{}"}}})
    assert "nothing else" in answer({"metadata": {"annotations": {HOLD: "{}"}, "labels": {"a": "b"}}})
    assert answer({"status": {"poweredOn": False}}, "/status")
    owner = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Machine", "name": "m1", "uid": "1"}
    cluster.client.request("PATCH", f"{metal3.path}/h1", {"metadata": {"ownerReferences": [owner]}},
                           content_type="application/merge-patch+json")
    assert answer(hold) == ""
    assert "nothing else" in answer({"metadata": {"annotations": {HOLD: "{}"}, "ownerReferences": [{**owner, "uid": "2"}]}})
    assert "nothing else" in answer({"metadata": {"annotations": {HOLD: "{}"}, "ownerReferences": None}})
    cluster.client.request("PATCH", f"{metal3.path}/h1", hold, content_type="application/merge-patch+json")
    assert "and no other" in answer({"metadata": {"annotations": {HOLD: None}}}), "that is for people"
    installation.remove_all()
