"""What a policy sees of a node, and lists that it has read, against the API server itself."""

from urllib.parse import parse_qs, urlsplit

import pytest

from .engine import RULES
from .kube import wait_for
from .policies import policy_text

MANY = 1000  # objects; more than that are no answer
READS = {"allowedReads": "[v1/configmaps]"}
LISTING = [*RULES, {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
PLANNED = {"type": "MaintenancePlanned", "status": "True", "reason": "AdminRequested", "message": "a test",
           "lastTransitionTime": "2026-01-02T03:00:00Z", "lastHeartbeatTime": "2026-01-02T03:00:00Z"}

# Holds the node unless it has two racks, by their metadata alone.
BY_RACKS = """
  node_fetch = function(node, s, got)
    if got.racks then return nil end
    return { racks = fence.list("v1", "configmaps", "NAMESPACE", { labels = "kind=rack", metadata = true }) }
  end,
  node = function(node)
    local racks = node.fetched.racks.body.items
    if #racks ~= 2 then return fence.hold(#racks .. " racks", 5) end
    if racks[1].data ~= nil then return fence.hold("not the metadata alone", 5) end
    return fence.proceed(racks[1].metadata.name)
  end,"""

# What it sees, as the reason of a skip.
SEEN = """fence.skip(table.concat({ tostring(node.lease_age ~= nil and node.lease_age >= 0), node.machine,
      table.concat(node.planned.types, ","), node.planned.MaintenancePlanned.reason,
      tostring(node.planned.MaintenancePlanned.last_transition_time), tostring(node.planned.Drained),
      tostring(node.uid == node.raw:get("metadata.uid")), tostring(node.raw:get("metadata.managedFields")),
      tostring(node.created_at <= cluster.now), tostring(#node.conditions >= 2), pod.owner_chain[1].api_group .. "/" .. pod.owner_chain[1].kind,
      }, " "))"""


@pytest.fixture
def listed(cluster, workloads):
    """Makes ConfigMaps of these names, with this label."""
    def make(kind: str, names: list):
        for name in names:
            cluster.client.create("configmaps", {"metadata": {"name": name, "labels": {"kind": kind}}, "data": {"a": "b"}},
                                  workloads.namespace)
    return make


def texts(engine, reason: str) -> list:
    return [record["text"] for record in engine.records() if record["reason"] == reason]


def lists_of(engine) -> list:
    """The policy's; the engine lists the records of its incidents too."""
    asked = [parse_qs(urlsplit(entry.uri).query) for entry in engine.requests(verb="list", resource="configmaps")]
    return [each for each in asked if "limit" in each and each.get("labelSelector") != ["moonfence.io/incident"]]


def test_a_policy_sees_all_of_a_node_and_what_is_planned_for_it(cluster, victims_of, start_engine, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", SEEN, more='needs = { "root_owner" },').replace(
        "function(pod)", "function(pod, s, cluster, node)"))
    victims = victims_of(1, stateful=True)
    node = cluster.client.patch("nodes", victims.node, {"status": {"conditions": [PLANNED]}}, kind="strategic", subresource="status")
    assert any(each["type"] == "MaintenancePlanned" for each in node["status"]["conditions"])
    engine = start_engine(policy=policy)
    victims.fail()
    wait_for("it is judged", lambda: texts(engine, "policy_skips"))
    assert texts(engine, "policy_skips")[0] == (
        "true not_observable MaintenancePlanned AdminRequested 1767322800 nil true nil true true apps/StatefulSet")


def test_a_node_is_judged_by_the_metadata_of_what_is_listed(workloads, listed, victims_of, start_engine, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", 'fence.delete_pod("a test says so")', more=BY_RACKS.replace("NAMESPACE", workloads.namespace)))
    listed("rack", ["rack-1"])
    listed("other", ["other-1"])
    victims = victims_of(2)
    engine = start_engine(policy=policy, rules=LISTING, config=READS)
    victims.fail()
    wait_for("it is held", lambda: "1 racks" in texts(engine, "policy_holds_node"))
    assert len(victims.alive()) == 2
    listed("rack", ["rack-2"])
    victims.wait_replaced()
    asked = lists_of(engine)
    assert asked and all(each == {"limit": [str(MANY)], "labelSelector": ["kind=rack"]} for each in asked)


def test_nobody_judges_by_a_part_of_a_list(cluster, workloads, listed, victims_of, start_engine, tmp_path):
    policy = tmp_path / "all.lua"
    policy.write_text(policy_text("all", 'fence.delete_pod("a test says so")', more="""
  fetch = function(pod, s, got)
    if got.all then return nil end
    return { all = fence.list("v1", "configmaps", pod.namespace, { labels = "kind=many", metadata = true }) }
  end,"""))
    listed("many", [f"many-{at}" for at in range(MANY + 1)])
    victims = victims_of(1)
    engine = start_engine(policy=policy, rules=LISTING, config=READS)
    victims.fail()
    wait_for("it says why it waits", lambda: texts(engine, "needs_unread"))
    assert f"there are more than {MANY} objects; ask for one namespace, or by labels" in texts(engine, "needs_unread")[0]
    assert len(victims.alive()) == 1 and engine.fenced() == []
    assert all("continue" not in each for each in lists_of(engine))
    cluster.client.delete("configmaps", "many-0", workloads.namespace)
    victims.wait_replaced()
