"""What operators type: plan, explain, status, incidents, against the real control plane. What is wrong with a command line
or a cluster is in test_command_errors.py."""

import json
import os
import re
import subprocess

import pytest
import yaml

from .engine import RULES, binary
from .hollow_objects import now_micro
from .installation import kubectl
from .kube import wait_for
from .policies import DELETES, PolicyMap, policy_text
from .storage_api import OpenApi
from .tool import UNBRAKED, names_of, same_as_golden, steady

NOTHING, WOULD_ACT, NOT_FOUND = 0, 10, 5


@pytest.fixture
def policies(cluster, workloads):
    return PolicyMap(cluster.client, workloads.namespace)


def calls(document: dict) -> set:
    """{(path, UID of the precondition)} of the deletions that a plan names."""
    return {(call["path"], call["preconditionUID"]) for node in document["nodes"] for pod in node["pods"]
            for call in pod["calls"] if call["method"] == "DELETE"}


def test_a_plan_is_what_the_engine_then_does(cluster, policies, victims_of, workloads, tool, unbraked, start_engine):
    victims = victims_of(2, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    planned = tool.document("plan", victims.node, "--assume-down", code=WOULD_ACT)
    assert planned["acts"] and planned["nodes"][0]["state"] == "supposed-down"
    assert calls(planned) == {(f"/api/v1/namespaces/{workloads.namespace}/pods/{pod['metadata']['name']}",
                               pod["metadata"]["uid"]) for pod in workloads.pods()}
    (one, _) = planned["nodes"][0]["pods"]
    assert one["verdict"] == "delete" and one["because"]["reason"] == "policy_deletes_pod"
    assert one["opinions"][0]["mode"] == "enforce" and one["opinions"][0]["digest"]
    table = tool.engine("plan", victims.node, "--assume-down", code=WOULD_ACT)
    same_as_golden(table, "plan.txt", names_of(victims, workloads))
    explained = tool.engine("explain", f"{workloads.namespace}/web-0", code=WOULD_ACT)
    assert 'It would be deleted. policy db: policy_deletes_pod, "a test says so".' in explained and "Next: " not in explained
    assert tool.writes() == []

    engine = start_engine(policy=None, mode=None, rules=(*RULES,))
    policies.wait_state("db", "Active")
    victims.fail("silent")
    victims.wait_replaced()
    assert {(d.uri.split("?")[0], d.uid_precondition) for d in engine.deletes()} == calls(planned)


def test_a_node_that_is_up_is_left_alone(policies, victims_of, tool, unbraked):
    victims = victims_of(1, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    out = tool.engine("plan", victims.node)
    assert out == (f"node {victims.node}: is up, nothing would be done; "
                   "--assume-down shows what if its machine died now\n")
    assert tool.writes() == []


def test_a_policy_in_observe_says_what_it_would_do(policies, victims_of, workloads, tool, unbraked):
    victims = victims_of(1, stateful=True)
    reads = policy_text("db", 'pod.phase == "Running" and fence.delete_pod("it runs") or fence.skip("it does not")')
    policies.write(db=reads, mode="observe")
    wide = tool.engine("plan", victims.node, "--assume-down", "-o", "wide", code=NOTHING)
    same_as_golden(wide, "plan_observe_wide.txt", names_of(victims, workloads))
    same_as_golden(tool.engine("explain", "web-0", "-n", workloads.namespace, code=NOTHING), "explain_observe.txt",
                   names_of(victims, workloads))
    assert tool.writes() == []


def test_what_is_asked_for_and_is_not_there(policies, make_nodes, workloads, tool):
    policies.write(db=policy_text("db", DELETES))
    node = tool.run("plan", "no-such-node", "-n", workloads.namespace)
    assert node.returncode == NOT_FOUND and "kubectl get nodes" in node.stderr
    pod = tool.run("explain", "no-such-pod", "-n", workloads.namespace)
    assert pod.returncode == NOT_FOUND and "kubectl get pods" in pod.stderr
    incident = tool.run("incident", "0123456789", "-n", workloads.namespace)
    assert incident.returncode == NOT_FOUND and "moonfence incidents" in incident.stderr
    assert tool.writes() == []


def test_a_pod_that_nobody_selects(policies, victims_of, workloads, tool, unbraked):
    victims = victims_of(1, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=other"))
    out = tool.engine("explain", f"{workloads.namespace}/web-0", code=NOTHING)
    same_as_golden(out, "explain_unselected.txt", names_of(victims, workloads))


def test_a_pod_of_a_node_that_a_policy_holds_or_fails_over(policies, victims_of, workloads, tool, unbraked):
    victims = victims_of(1, stateful=True)

    def explained(node: str) -> str:
        policies.write(db=policy_text("db", DELETES, "app=noobaa", f"node = function(node) {node} end,"))
        return tool.engine("explain", f"{workloads.namespace}/web-0", code=NOTHING)
    held = explained('return fence.hold("its storage rests", 40)')
    assert 'It would be kept for now. policy db: policy_holds_node, "its storage rests".' in held
    assert held.endswith("Next: nothing; it is asked about the node again by itself.\n")
    failed = explained(f'if node.name == "{victims.node}" then error("oh no") end return fence.proceed("well")')
    assert "It would be kept for now. policy db: policy_failed, " in failed and "Next: read `text` and mend the policy; " in failed
    assert tool.writes() == []


def test_an_incident_from_the_first_step_to_the_last(cluster, policies, victims_of, workloads, tool, unbraked,
                                                     start_engine):
    victims = victims_of(2, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    engine = start_engine(policy=None, mode=None, elect=True, witnessed=False)
    policies.wait_state("db", "Active")
    quiet = tool.document("status")
    assert quiet["leader"]["leads"] and quiet["leader"]["holder"].startswith(engine.name + "_")
    assert quiet["reportedBy"] == engine.name and quiet["report"]["mode"] == "enforce"
    assert victims.node not in [node["name"] for node in quiet["down"]] and quiet["openIncidents"] == []

    victims.fail("silent")
    victims.wait_replaced()
    status = tool.document("status")
    assert {"name": victims.node, "ready": "Unknown"}.items() <= next(
        node for node in status["down"] if node["name"] == victims.node).items()
    assert [incident["node"] for incident in status["openIncidents"]] == [victims.node]
    text = tool.engine("status")
    assert re.search(r"^LEADER +engine-\d+_[0-9a-f]{20}, renewed \d+s ago$", text, re.M)
    assert re.search(r"^ +db +Active +enforce +\S+ +sha256:[0-9a-f]{12} ", text, re.M)
    wait_for("it is closed", lambda: tool.document("incidents")["items"][0].get("closed"), 40, 1)

    (listed,) = tool.document("incidents")["items"]
    lines = tool.engine("incidents").splitlines()
    assert re.fullmatch(rf"{listed['incident']} +{victims.node} +\S+Z +node_unknown +settled +2/2 +\+\S+ +1", lines[1])
    shown = tool.engine("incident", listed["incident"])
    assert [line.split()[:3] for line in shown.splitlines() if line.startswith("  pod ")] == [
        ["pod", f"{workloads.namespace}/web-{i}", "db"] for i in range(2)]
    assert len(re.findall(r" done +a test says so", shown)) == 2
    assert json.loads(tool.engine("incident", listed["incident"], "-o", "json")) == listed
    names = {**names_of(victims, workloads), listed["incident"]: "ID"}
    same_as_golden(tool.engine("incidents"), "incidents.txt", names)
    same_as_golden(shown, "incident.txt", names)
    others = re.compile(r"^(NODES|BRAKE) .*\n(  .*\n)*", re.M)  # of other tests
    wait_for("that is told", lambda: "INCIDENTS   0 open" in tool.engine("status"), 10)
    same_as_golden(others.sub(r"\1\n", tool.engine("status")), "status.txt", names)
    for words, code in ((["incidents"], NOTHING), (["incident", listed["incident"]], NOTHING), (["plan", victims.node], NOTHING),
                        (["explain", f"{workloads.namespace}/web-0"], WOULD_ACT)):  # it runs elsewhere now
        in_yaml = tool.run(*words, "--engine-namespace", workloads.namespace, "-o", "yaml")
        in_json = tool.run(*words, "--engine-namespace", workloads.namespace, "-o", "json")
        assert in_yaml.returncode == in_json.returncode == code, in_yaml
        assert steady(yaml.safe_dump(yaml.safe_load(in_yaml.stdout)), {}) == steady(yaml.safe_dump(json.loads(in_json.stdout)), {})
    assert yaml.safe_load(tool.engine("status", "-o", "yaml")).keys() == status.keys()
    assert tool.writes() == []


def test_hold_downs_are_not_waited_for(policies, victims_of, tool, unbraked):
    victims = victims_of(1, stateful=True)
    slow = policy_text("db", DELETES, "app=noobaa").replace(
        "trigger = {", 'trigger = { failures = 3, interval = "20s",')
    policies.write(db=slow)
    planned = tool.document("plan", victims.node, "--assume-down", code=WOULD_ACT)
    # three times 20 s, less what has passed of it
    assert planned["holdDown"] in ("1m", *(f"{left}s" for left in range(30, 60))) and len(calls(planned)) == 1
    assert planned["nodes"][0]["held"][0]["reason"] == "holding_down"
    assert tool.writes() == []


def test_the_brake_holds_a_plan_as_it_holds_the_engine(policies, victims_of, tool):
    """Without its configuration the engine does nothing while more than half of the workers are down."""
    victims = victims_of(1, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    others = [node["metadata"]["name"] for node in tool.client.list("nodes")]
    planned = tool.document("plan", *others, "--assume-down", code=NOTHING)
    held = next(node for node in planned["nodes"] if node["name"] == victims.node)
    assert held["holdsFor"] == "too_many_down" and held["pods"] == [] and not planned["acts"]
    assert tool.writes() == []


def test_a_plan_quotes_a_leader_while_it_leads(policies, victims_of, unbraked, tool):
    victims = victims_of(1, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    tool.client.create("configmaps", {"metadata": {"name": "moonfence-status"}, "data": {"engine-1": json.dumps(
        {"situation": {"frozen": True, "state": {"title": "Frozen", "text": "It doubts."}}})}}, tool.space)

    def planned() -> dict:
        return tool.document("plan", victims.node, "--assume-down", code=WOULD_ACT)
    assert "frozen" not in planned() and not any("leads" in note for note in planned()["notes"])
    tool.client.create("leases", {"metadata": {"name": "moonfence"}, "spec": {
        "holderIdentity": "engine-1_x", "leaseDurationSeconds": 600, "renewTime": now_micro()}}, tool.space)
    assert planned()["frozen"] == "Frozen. It doubts."
    tool.client.patch("leases", "moonfence", {"spec": {"renewTime": "2026-01-01T00:00:00.000000Z"}}, tool.space)
    document = planned()
    assert "frozen" not in document
    assert "nobody leads: by the clock of this computer engine-1_x does not renew its Lease" in document["notes"]


# It goes by what the endpoint vendor says of nodes.
BY_SOURCE = """return policy { api = 1, name = "db", version = "1.0.0", summary = "a test",
  select = { labels = "app=noobaa" },
  source = { every = "5s", expiry = "1h",
    plan = function(s, got)
      if not got.nodes then return { nodes = fence.http("vendor", "/nodes") } end
    end,
    nodes = function(s, got)
      local states = {}
      for name, state in pairs(got.nodes.body) do states[name] = state end
      return states
    end },
  pod = function(pod) return fence.delete_pod("the vendor says so") end }
"""


@pytest.fixture
def vendor(cluster, policies, workloads):
    api = OpenApi()
    cluster.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": (
        "api: 1\nbrake: {maxDown: off, maxPerWindow: 1}\nendpoints: {vendor: {url: \"%s\", timeout: 2s}}\n" % api.url)}},
        workloads.namespace)
    policies.write(db=BY_SOURCE)
    yield api
    api.stop()


def test_a_plan_is_about_its_node_also_when_a_health_source_calls_others_failed(make_nodes, workloads, tool, vendor):
    """Kubernetes calls all of them Ready, and the other one would take the only turn that the brake gives."""
    nodes = make_nodes(3)
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "noobaa"}}}]}}
    workloads.stateful_set("web", 2, labels={"app": "noobaa"}, toleration_seconds=300, pod_spec={"affinity": apart})
    pods = {pod["spec"]["nodeName"]: pod["metadata"] for pod in workloads.wait_all_running("noobaa", 2)}
    vendor.nodes = {name: "failed" if name in pods else "healthy" for name in nodes}
    for name, pod in pods.items():
        planned = tool.document("plan", name, code=WOULD_ACT)
        assert calls(planned) == {(f"/api/v1/namespaces/{workloads.namespace}/pods/{pod['name']}", pod["uid"])}
        assert [node["name"] for node in planned["nodes"]] == [name] and planned["nodes"][0]["state"] == "down"
    shown = tool.engine("plan", *pods, code=WOULD_ACT)
    assert shown.count(": is called failed by a health source, incident source_failed") == 2, shown
    assert shown.count("  DELETE ") == 1 and "too_many_in_window" in shown, shown
    vendor.nodes = {name: "healthy" for name in nodes}
    (name, pod), *_ = pods.items()
    assert "is up, nothing would be done" in tool.engine("plan", name)
    supposed = tool.document("plan", name, "--assume-down", code=WOULD_ACT)
    assert {uid for _, uid in calls(supposed)} == {pod["uid"]}
    vendor.fail = 503
    assert "is up, nothing would be done" in tool.engine("plan", name)
    assert tool.writes() == []


def test_volumes_and_our_taint_are_in_the_plan(cluster, policies, make_nodes, workloads, tool):
    (node,) = make_nodes(1)
    workloads.stateful_set("web", volume=True, labels={"app": "noobaa"}, toleration_seconds=300)
    workloads.wait_running("web-0")
    make_nodes(2)
    cluster.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": (
        f"{UNBRAKED}quarantine: always\nfencingDrivers: [{workloads.driver}]\n")}}, workloads.namespace)
    policies.write(db=policy_text("db", 'fence.delete_pod_and_attachments("its storage fences")', "app=noobaa",
                                  'needs = { "volumes" },'))
    planned = tool.document("plan", node, "--assume-down", code=WOULD_ACT)
    (pod,) = planned["nodes"][0]["pods"]
    (attachment,) = workloads.attachments()
    assert [(call["action"], call["path"].rsplit("/", 1)[1], call["preconditionUID"]) for call in pod["calls"]] == [
        ("delete_pod", "web-0", pod["uid"]),
        ("delete_attachment", attachment["metadata"]["name"], attachment["metadata"]["uid"])]
    uid = cluster.client.get("nodes", node)["metadata"]["uid"]
    assert ("patch_node", uid) in [
        (call["action"], call.get("preconditionUID")) for call in planned["nodes"][0]["calls"]]
    assert tool.writes() == []


def test_captured_pods_are_decided_again(policies, victims_of, tool, unbraked, tmp_path):
    victims = victims_of(2, stateful=True)
    policies.write(db=policy_text("db", DELETES, "app=noobaa"))
    captures = tmp_path / "captures"
    out = tool.engine("policy", "capture", victims.node, "--assume-down", "-o", str(captures))
    assert "2 pods judged" in out
    same, other = tmp_path / "db.lua", tmp_path / "other.lua"
    same.write_text(policy_text("db", DELETES, "app=noobaa"))
    other.write_text(policy_text(
        "other", 'pod.name == "web-0" and fence.skip("kept now") or fence.delete_pod("as ever")'))

    def replay(*words: str) -> subprocess.CompletedProcess:
        return subprocess.run([binary(), "policy", "replay", *words, "--records", captures],
                              capture_output=True, text=True, timeout=60)
    unchanged = replay(same)
    assert (unchanged.returncode, unchanged.stdout) == (0, "2 decided again, 0 changed\n"), unchanged.stderr
    changed = replay(other, "--instead-of", "db")
    assert changed.returncode == 1 and changed.stdout.endswith("2 decided again, 1 changed\n"), changed.stderr
    assert re.search(r"/web-0 +delete_pod +skip +kept now$", changed.stdout, re.M)

    policies.write(db=policy_text("db", DELETES, "statefulset.kubernetes.io/pod-name=web-0"))
    assert "1 pods judged" in tool.engine("policy", "capture", victims.node, "--assume-down", "-o", str(captures))
    wider = replay(same)
    assert wider.returncode == 1 and wider.stdout.endswith("2 decided again, 1 changed\n"), wider.stderr
    assert re.search(r"/web-1 +not_selected +delete_pod +a test says so$", wider.stdout, re.M)
    assert tool.writes() == []


def test_as_a_plugin_of_kubectl(tool, workloads, tmp_path, monkeypatch):
    """Found by kubectl on the PATH, with its arguments, its exit code and its name in the help."""
    (tmp_path / "kubectl-moonfence").symlink_to(binary())
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    out = tool("moonfence", "status", "-n", workloads.namespace, program=kubectl())
    assert out.startswith("LEADER      nobody: there is no Lease moonfence")
    absent = tool.run("moonfence", "plan", "no-such-node", program=kubectl())
    assert absent.returncode == NOT_FOUND and "no node no-such-node" in absent.stderr
    assert "kubectl moonfence plan" in tool("moonfence", "plan", "--help", program=kubectl())
    listed = subprocess.run([kubectl(), "plugin", "list"], capture_output=True, text=True, timeout=30)
    assert str(tmp_path / "kubectl-moonfence") in listed.stdout
