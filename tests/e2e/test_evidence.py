"""Evidence for others (docs/proof.md) on a real control plane, with the rights and the admission policies that are shipped: what a BMC says
stands on the Node until its kubelet is heard, moonfence may write nothing else there, and nobody else may write that."""

import json
import os
import re
import subprocess

import pytest

from .control_plane import REPO
from .engine import RULES, Account
from .installation import DEPLOY, NAMESPACE, USER, Installation, kubectl, objects, policies_of_admission
from .kube import ApiError, wait_for
from .redfish_api import RedfishApi
from .test_proof import with_bmc

KEY, CONDITION = "moonfence.io/fencing-evidence", "FencingEvidence"
FOLDER = DEPLOY / "rights" / "publish-evidence"


def documented() -> list:
    """The commands of the page that read it."""
    page = (REPO / "docs" / "proof.md").read_text().split("\n## Evidence for others\n")[1].split("\n## ")[0]
    return [line for line in re.findall(r"^\$ (.*)$", page, re.M) if CONDITION in line]


def condition(node: dict) -> dict:
    return next((each for each in node["status"]["conditions"] if each["type"] == CONDITION), {})


OF_NODES = [each for each in policies_of_admission() if each["metadata"]["name"] == "moonfence-nodes"]


@pytest.fixture
def shipped(cluster):
    """What the overlay `enforce` says about nodes, and the right of deploy/rights/publish-evidence."""
    made = Installation(cluster)
    made.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}, *objects(FOLDER / "rights.yaml"), *OF_NODES])
    yield made
    made.remove_all()


@pytest.fixture
def account(cluster, shipped):
    made = Account(cluster, NAMESPACE, "moonfence").create(RULES)
    yield made
    made.remove()


def test_pf_23_what_a_bmc_says_stands_on_the_node_until_it_is_heard_and_nobody_else_writes_it(
        cluster, shipped, account, victims_of, start_engine, tmp_path):
    victims = victims_of(1, stateful=True)
    name, client = victims.node, cluster.client
    bmc = RedfishApi(client.get("nodes", name)["status"]["nodeInfo"]["systemUUID"])
    bmc.power = "Off"
    client.patch("nodes", name, {"metadata": {"labels": {"bmc": "rack4-7"}}})
    start_engine.accounts["shipped"] = account
    engine = start_engine(account="shipped", config={**with_bmc(bmc, tmp_path), "publishEvidence": "on"})
    moonfence = cluster.control_plane.client(user=USER, group="system:serviceaccounts")
    others = cluster.control_plane.client(user="somebody", group="system:masters")

    def kubectl_says(command: str) -> str:
        env = {"PATH": f"{kubectl().parent}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.control_plane.kubeconfig), "HOME": str(tmp_path)}
        done = subprocess.run(["bash", "-c", command.replace(" NODE ", f" {name} ")], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def answer(who, body: dict, subresource: str = "/status") -> str:
        path = f"/api/v1/nodes/{victims.others[0]}{subresource}"
        try:
            who.request("PATCH", path, body, {"dryRun": "All"}, content_type="application/strategic-merge-patch+json")
        except ApiError as error:
            return str(error)
        return ""

    def stating(kind: str, status: str = "True") -> dict:
        return {"status": {"conditions": [{"type": kind, "status": status, "reason": "Off", "message": ""}]}}
    try:
        victims.fail("silent")
        # Meanwhile, what nobody is to write. It takes the API server a moment to know its policies.
        noted = {"metadata": {"annotations": {KEY: "{}"}}}
        wait_for("moonfence is held to its own", lambda: "its own condition only" in answer(moonfence, stating("Other")), 30)
        shipped.apply(objects(FOLDER / "admission.yaml"))
        wait_for("others are refused", lambda: "only moonfence says" in answer(others, noted), 30)
        assert "only moonfence says" in answer(others, noted, "") and "only moonfence says" in answer(others, stating(CONDITION))
        assert answer(others, stating(CONDITION, "False")) == "" and answer(others, stating("Other")) == ""
        assert answer(moonfence, {**noted, **stating(CONDITION)}) == ""

        show, wait = documented()
        kubectl_says(wait)
        assert f"{name} True\n" in kubectl_says(show) and f"{victims.others[0]} \n" in kubectl_says(show)
        node = client.get("nodes", name)
        told = json.loads(node["metadata"]["annotations"][KEY])
        ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
        lease = client.get("leases", name, "kube-node-lease")
        assert (told["node"], told["bootID"], told["lastHeartbeatTime"], told["renewTime"]) == (
            node["metadata"]["uid"], node["status"]["nodeInfo"]["bootID"], ready["lastHeartbeatTime"], lease["spec"]["renewTime"])
        assert [(each["kind"], each["source"], each["text"]) for each in told["evidence"]] == [("off", "redfish", "PowerState Off")]
        assert (condition(node)["reason"], condition(node)["lastHeartbeatTime"]) == ("Off", told["evidence"][0]["at"])
        wait_for("it has an Event", lambda: [each for each in client.list("events", "default") if each["reason"] == CONDITION
                                             and each["involvedObject"].get("uid") == node["metadata"]["uid"]], 30)

        cluster.hollow.heal(name)
        kubectl_says(f"kubectl wait node NODE --for=condition={CONDITION}=False --timeout=1m")
        node = client.get("nodes", name)
        assert condition(node)["reason"] == "Heard" and KEY not in node["metadata"]["annotations"]
        assert [entry.status for entry in engine.requests(verb="patch", resource="nodes")
                if entry.status != 409 and "dryRun" not in entry.uri] == [200, 200]

        shipped.remove(OF_NODES)  # what the right brings with it is enough
        wait_for("moonfence is held to it", lambda: "and no other" in answer(moonfence, stating("Other")), 30)
        assert answer(moonfence, {**noted, **stating(CONDITION)}) == ""
        for body, word in (({"metadata": {"annotations": {"a": "b"}}}, "and nothing else"), ({"metadata": {"labels": {"a": "b"}}}, "and nothing else"),
                           ({"status": {"addresses": [{"type": "InternalIP", "address": "10.1.2.3"}]}}, "changes nothing else"),
                           ({"status": {"volumesInUse": ["kubernetes.io/csi/a^b"]}}, "only where it may delete their attachments")):
            assert word in answer(moonfence, body), body
    finally:
        bmc.stop()
