"""Proof before deletion (docs/proof.md) on a real control plane: what is demanded is awaited, a person's word is heard at once, is
void as soon as the kubelet speaks, and stands under its own name."""

import json

import pytest

from .engine import RULES
from .installation import DEPLOY, Installation, objects
from .kube import ApiError, wait_for
from .redfish_api import RedfishApi
from .tool import Tool

KEY = "moonfence.io/attested"
DEMANDED = {"proof": "{everywhere: [attested]}"}


def word(cluster, node: str) -> dict:
    return json.loads(cluster.client.get("nodes", node)["metadata"].get("annotations", {}).get(KEY, "{}"))


def verdicts(engine) -> list:
    return [record for record in engine.records() if record["kind"] == "verdict" and record["reason"] == "proof_missing"]


def test_pf_01_a_pod_waits_for_an_attestation_and_goes_on_it(cluster, victims_of, workloads, start_engine, tool):
    victims = victims_of(1, stateful=True)
    refused = tool.run("attest", victims.node, "--off", "--reason", "too early")
    assert refused.returncode == 1 and "is Ready" in refused.stderr
    engine = start_engine(config=DEMANDED, rules=RULES)
    victims.fail("silent")
    wait_for("it says what is missing", lambda: verdicts(engine), 90)
    assert verdicts(engine)[0]["text"] == (
        "the engine's configuration demands proof: attested; present: unreachable; if the machine has no power, run: "
        f"moonfence attest {victims.node} --off --reason TEXT")
    assert engine.deletes() == []
    wait_for("the pod has an Event", lambda: [each for each in cluster.client.list("events", workloads.namespace)
                                              if each["reason"] == "ProofMissing"], 30)

    said = tool("attest", victims.node, "--off", "--reason", "no light on it")
    assert said == (f"Node {victims.node} is attested to be off, by {tool.user}.\nThis counts until its kubelet or its machine is heard "
                    f"again. `moonfence attest {victims.node} --withdraw` takes it back.\n")
    assert {key: word(cluster, victims.node)[key] for key in ("state", "by", "reason")} == {
        "state": "off", "by": tool.user, "reason": "no light on it"}
    victims.wait_replaced()
    (intent,) = [record for record in engine.records() if record["kind"] == "intent" and record["action"] == "delete_pod"]
    assert intent["evidence"].startswith(f"unreachable, attested: off by {tool.user}, ")
    assert intent["evidence"].endswith(", no light on it")
    (incident,) = [each for each in json.loads(tool.engine("incidents", "-o", "json"))["items"]
                   if each["node"]["name"] == victims.node]
    assert incident["policies"][incident["steps"][0]["policy"]]["evidence"] == intent["evidence"]
    assert f"evidence  {intent['evidence']}" in tool.engine("incident", incident["incident"])


def test_pf_02_pf_04_an_attestation_does_not_count_when_the_kubelet_was_heard_since_and_can_be_taken_back(
        cluster, victims_of, workloads, start_engine, tool):
    victims = victims_of(1, stateful=True)
    victims.fail("silent")
    wait_for("Kubernetes notices", lambda: tool.run("attest", victims.node, "--off", "--reason", "first").returncode == 0, 90)
    first = word(cluster, victims.node)
    cluster.hollow.heal(victims.node)
    lease = cluster.client.get("leases", victims.node, "kube-node-lease")
    wait_for("its kubelet speaks", lambda: cluster.client.get(
        "leases", victims.node, "kube-node-lease")["spec"]["renewTime"] != first["renewTime"], 30)
    assert lease["metadata"]["uid"] == first["lease"]
    engine = start_engine(config=DEMANDED, rules=RULES)
    victims.fail("silent")
    wait_for("it says why it does not count", lambda: any(
        "an attestation does not count: the kubelet has renewed its Lease since" in each["text"] for each in verdicts(engine)), 120)
    assert word(cluster, victims.node) == first

    tool("attest", victims.node, "--withdraw")
    assert word(cluster, victims.node) == {}
    wait_for("it is not there any more", lambda: "does not count" not in verdicts(engine)[-1]["text"], 30)
    assert engine.deletes() == []


@pytest.fixture
def admitted(cluster):
    """deploy/rights/attest, as it is shipped."""
    shipped = Installation(cluster)
    made = [*objects(DEPLOY / "rights" / "attest" / "rights.yaml"), *objects(DEPLOY / "rights" / "attest" / "admission.yaml")]
    shipped.apply(made)
    yield shipped
    shipped.remove_all()


def test_only_who_may_attest_does_and_under_its_own_name(cluster, admitted, make_nodes, workloads, tmp_path):
    (node,) = make_nodes(1)
    users = {}
    for name, more in (("patcher", []), ("attester", ["moonfence-attest"])):
        user = f"{name}-{workloads.namespace}"
        users[name] = cluster.control_plane.write_kubeconfig(user, user)
        made = [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": [
            {"apiGroups": [""], "resources": ["nodes", "nodes/status"], "verbs": ["get", "patch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}]}]
        made += [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"{user}-{role}"},
                  "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                  "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]} for role in (user, *more)]
        admitted.apply(made)
    cluster.hollow.fail(node, "silent")

    def attest(who: str):
        tool = Tool(cluster, workloads, tmp_path)
        tool.kubeconfig = users[who]
        return tool.run("attest", node, "--off", "--reason", "no light on it")

    wait_for("who may does", lambda: attest("attester").returncode == 0, 90)
    mine = word(cluster, node)
    assert mine["by"] == f"attester-{workloads.namespace}"

    def refusal() -> str:
        done = attest("patcher")
        return done.stderr if done.returncode else ""
    wait_for("who may not is refused", lambda: "ClusterRole moonfence-attest" in refusal(), 30)
    # An administrator may, and not under another name; by the status neither.
    forged = json.dumps({**mine, "by": "somebody else"}, separators=(",", ":"))
    for subresource in ("", "status"):
        with pytest.raises(ApiError) as refused:
            cluster.client.patch("nodes", node, {"metadata": {"annotations": {KEY: forged}}}, subresource=subresource)
        assert "under the name of who gives it" in refused.value.message
    assert word(cluster, node) == mine
    # What stands is nobody's business: other changes of the node pass, and so does taking it off.
    cluster.client.patch("nodes", node, {"metadata": {"annotations": {"a": "b"}}})
    cluster.client.patch("nodes", node, {"metadata": {"annotations": {KEY: None}}})
    assert word(cluster, node) == {}


def test_a_command_line_that_says_nothing_clear_is_refused(tool):
    for words, said in ((("n1",), "say either --off or --withdraw"), (("n1", "--off", "--withdraw", "--reason", "x"), "say either"),
                        (("n1", "--off"), "--reason is missing"), (("n1", "--off", "--reason", " "), "--reason is missing"),
                        (("n1", "--withdraw", "--reason", "x"), "belongs to --off"),
                        (("n1", "--off", "--reason", "x" * 513), "at most 512 bytes")):
        done = tool.run("attest", *words)
        assert done.returncode == 2 and said in done.stderr, (words, done)
    gone = tool.run("attest", "nowhere", "--off", "--reason", "x")
    assert gone.returncode == 5 and gone.stdout == ""
    assert tool.writes() == []


def with_bmc(bmc: RedfishApi, folder, more: str = "") -> dict:
    """The configuration of an engine that asks the BMC of nodes with a label `bmc`, and demands that their machines are off."""
    for name, text in (("user", "admin"), ("password", bmc.password)):
        (folder / name).write_text(text)
    return {"proof": "{everywhere: [off]}",
            "fencers": f"[{{fencer: redfish, nodes: bmc, settings: {{endpoint_label: bmc}}{more}}}]",
            "endpoints": f"{{rack4-7: {{url: '{bmc.url}', auth: {{type: basic, usernameFile: {folder}/user, "
                         f"passwordFile: {folder}/password}}}}}}"}


@pytest.fixture
def bmc_of(cluster):
    """bmc_of(node) -> RedfishApi of its machine."""
    made = []

    def make(node: str) -> RedfishApi:
        made.append(RedfishApi(cluster.client.get("nodes", node)["status"]["nodeInfo"]["systemUUID"]))
        cluster.client.patch("nodes", node, {"metadata": {"labels": {"bmc": "rack4-7"}}})
        return made[-1]
    yield make
    for bmc in made:
        bmc.stop()


def test_pf_05_pf_06_a_pod_goes_when_its_own_machine_s_bmc_says_off(cluster, victims_of, start_engine, bmc_of, tmp_path):
    victims = victims_of(1, stateful=True)
    bmc = bmc_of(victims.node)
    ours, bmc.uuid = bmc.uuid, "another machine"
    config = with_bmc(bmc, tmp_path)
    (tmp_path / "password").write_text("wrong")
    engine = start_engine(config=config, rules=RULES)
    victims.fail("silent")

    def says(part: str):
        wait_for(part, lambda: any(part in each["text"] for each in verdicts(engine)), 90)
    says("redfish: unknown, ")  # a wrong password is an answer that says nothing
    (tmp_path / "password").write_text(bmc.password)
    says("redfish: failed, the BMC is another machine's")
    bmc.uuid, bmc.power = ours.upper(), "PoweringOff"
    says("redfish: unknown, PowerState PoweringOff")
    bmc.power = "On"
    says("redfish: on, PowerState On")
    assert engine.deletes() == []

    bmc.power = "Off"
    victims.wait_replaced()
    (intent,) = [record for record in engine.records() if record["kind"] == "intent" and record["action"] == "delete_pod"]
    assert intent["evidence"] == "unreachable, off (redfish: PowerState Off)"
    assert set(bmc.gets) == {"/redfish/v1/Systems", "/redfish/v1/Systems/System.Embedded.1"}


def test_pf_07_a_machine_that_may_be_alive_is_switched_off_and_its_pod_goes_when_that_is_read(
        cluster, victims_of, start_engine, bmc_of, tmp_path):
    victims = victims_of(1, stateful=True)
    bmc = bmc_of(victims.node)
    bmc.reset_status = 503
    engine = start_engine(config=with_bmc(bmc, tmp_path, ", switchOff: true"), rules=RULES)

    def acts(kind: str) -> list:
        return [each for each in engine.records() if each.get("action") == "switch_off" and each["kind"] == kind]
    assert bmc.gets == []  # of a node that is well nobody is asked
    victims.fail("silent")
    wait_for("it is tried", lambda: acts("outcome"), 120)
    assert [each["reason"] for each in acts("outcome")] == ["outcome_lost"]  # 503 may come after it was done
    assert bmc.resets == [] and engine.deletes() == []

    bmc.reset_status = 204  # and it does nothing: that it was accepted proves nothing
    wait_for("it is accepted", lambda: bmc.resets, 90)
    assert acts("intent")[-1]["text"].startswith("for pod ") and acts("intent")[-1]["text"].endswith(
        'by fencer redfish: post rack4-7 /redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset {"ResetType":"ForceOff"}')
    wait_for("it says what it waits for", lambda: "redfish: on" in verdicts(engine)[-1]["text"], 30)
    assert engine.deletes() == []

    bmc.obey = lambda: setattr(bmc, "power", "Off")
    victims.wait_replaced()
    (intent,) = [record for record in engine.records() if record["kind"] == "intent" and record["action"] == "delete_pod"]
    assert intent["evidence"] == "unreachable, off (redfish: PowerState Off)"
    assert set(bmc.resets) == {"ForceOff"} and len(bmc.resets) == 2


def test_a_fencer_that_may_only_ask_switches_nothing_off(victims_of, start_engine, bmc_of, tmp_path):
    victims = victims_of(1, stateful=True)
    bmc = bmc_of(victims.node)
    engine = start_engine(config=with_bmc(bmc, tmp_path), rules=RULES)
    victims.fail("silent")
    wait_for("it is on", lambda: any("redfish: on" in each["text"] for each in verdicts(engine)), 120)
    asked = len(bmc.gets)
    wait_for("it was asked three times more", lambda: len(bmc.gets) >= asked + 6, 60)
    assert bmc.resets == [] and engine.deletes() == []
