"""Evidence `isolated` (docs/proof.md) on a real control plane: the storage refuses a node, by a NetworkFence of CSI-Addons. Whatever such
an object says that is no proof deletes nothing; what is, takes the pods that keep all that lasts in that storage. With `isolate: true` the
engine makes the object."""

import pytest

from .csi_addons import CLASS, FENCED, GROUP, UNFENCED, CsiAddons
from .engine import RULES, STORAGE_RULES
from .installation import DEPLOY, USER, Installation, objects, one
from .kube import ApiError, wait_for
from .policies import policy_text

OURS, OTHER = "10.8.0.1/32", "10.8.0.2/32"
ADDONS_RULES = ({"apiGroups": [GROUP], "resources": ["csiaddonsnodes", "networkfences"], "verbs": ["list"]},)
API = f"{GROUP}/v1alpha1"


@pytest.fixture
def addons(cluster, workloads):
    made = CsiAddons(cluster.client, workloads.namespace, workloads.driver)
    yield made
    made.end()


@pytest.fixture
def fallen(cluster, workloads, addons, make_nodes, start_engine, tmp_path):
    """fallen() -> (engine, node): web-0 with a volume and bare-0 without one on a node that has fallen silent."""
    def make(allowed: str = f"v1/nodes, {API}/csiaddonsnodes, {API}/networkfences", isolate: bool = False, rules=(), held: bool = False):
        (node,) = make_nodes(1)
        workloads.create_driver()
        workloads.stateful_set("web", volume=True, toleration_seconds=600)
        workloads.stateful_set("bare", toleration_seconds=600)
        for name in ("web-0", "bare-0"):
            workloads.wait_running(name)
        (other, _) = make_nodes(2)
        addons.node(node, OURS)
        addons.node(other, OTHER)
        policy = tmp_path / "both.lua"
        policy.write_text(policy_text("both", 'fence.delete_pod_and_attachments("its node is dead")', more='needs = { "volumes" },'))
        engine = start_engine(policy=policy, rules=[*RULES, *STORAGE_RULES, *ADDONS_RULES, *rules], config={
            "proof": "{everywhere: [off, isolated]}", "fencingDrivers": "[]", "allowedReads": f"[{allowed}]",
            "allowedWrites": f"[{API}/networkfences]" if isolate else "[]",
            "fencers": f"[{{fencer: network-fence, isolate: {str(isolate).lower()}, "
                       f"settings: {{drivers: [{workloads.driver}], classes: [{CLASS}]}}}}]"})
        if held:
            cluster.client.patch("nodes", node, {"metadata": {"annotations": {"moonfence.io/hold": "a test"}}})
        cluster.hollow.fail(node, "silent")
        return engine, node
    return make


def says(engine, part: str, pod: str = "web-0"):
    """The newest verdict about the pod has this in it."""
    def newest() -> str:
        told = [each["text"] for each in engine.records()
                if each["kind"] == "verdict" and each["reason"] == "proof_missing" and each["pod"] == pod]
        return told[-1] if told else ""
    wait_for(part, lambda: part in newest(), 120)


def test_pf_20_pf_21_what_is_no_isolation_deletes_nothing_and_what_is_takes_the_pods_of_that_storage(
        cluster, workloads, addons, fallen):
    engine, node = fallen()
    says(engine, f"{workloads.driver} served: no NetworkFence of class ceph is over its addresses")

    addons.fence("other", OTHER)  # another node is cut off
    addons.result("other", "Succeeded", FENCED)
    addons.fence("first", OURS)  # and the controller has nothing to say
    says(engine, "NetworkFence first has no result yet")
    addons.result("first", "Failed", "no such cluster")
    says(engine, "NetworkFence first Failed: no such cluster")
    addons.result("first", "Succeeded", UNFENCED)
    says(engine, "NetworkFence first says 'unfencing operation successful'")
    addons.lift("first")
    says(engine, "NetworkFence first lifts it")
    # The result of what it was before stays.
    cluster.client.patch("networkfences", "first", {"spec": {"fenceState": "Fenced"}})
    addons.result("first", "Succeeded", FENCED)
    says(engine, "NetworkFence first was changed since it was made")
    addons.remove("first")
    addons.fence("wide", OURS, "10.8.0.0/24")
    addons.result("wide", "Succeeded", FENCED)
    says(engine, "NetworkFence wide names other addresses")
    addons.remove("wide")
    addons.node("shares", OURS)
    addons.fence("second", OURS)
    addons.result("second", "Succeeded", FENCED)
    says(engine, f"{OURS} is an address of node shares too")
    assert engine.deletes() == []

    addons.node("shares", "10.8.0.3/32")
    workloads.wait_running("web-0", not_on=node, seconds=120)
    intents = [each for each in engine.records() if each["kind"] == "intent"]
    assert [each["action"] for each in intents] == ["delete_pod", "delete_attachment"]
    for intent in intents:
        assert intent["evidence"] == (
            f"unreachable, isolated (network-fence: {workloads.driver} isolated: NetworkFence second)")
    # It may write elsewhere: nobody knows.
    says(engine, "that is not enough for this pod", "bare-0")
    assert [each.resource for each in engine.deletes()] == ["pods", "volumeattachments"]
    assert not [volume for volume in cluster.hollow.status()["double"] if workloads.driver in str(volume)]


def test_one_of_an_earlier_outage_and_one_that_is_lifted_count_no_more(workloads, addons, fallen):
    addons.fence("earlier", OURS)  # its result stays, although the machine was back since
    addons.result("earlier", "Succeeded", FENCED)
    engine, _ = fallen()
    says(engine, "NetworkFence earlier is older than this outage: make a new one")
    addons.fence("lifts", OURS, state="Unfenced")
    addons.fence("now", OURS)
    addons.result("now", "Succeeded", FENCED)
    says(engine, "NetworkFence lifts lifts it")
    assert engine.deletes() == []


def test_without_the_right_to_read_it_nothing_is_known(addons, fallen):
    addons.fence("held", OURS)
    addons.result("held", "Succeeded", FENCED)
    engine, _ = fallen(allowed="v1/nodes")
    says(engine, "is not among allowedReads")
    assert engine.deletes() == []


def shipped_rules() -> list:
    return one(objects(DEPLOY / "rights" / "isolate" / "rights.yaml"), "ClusterRole")["rules"]


def fences(cluster) -> list:
    return cluster.client.list("networkfences")


def test_pf_22_it_has_a_node_isolated_whose_pod_would_go_and_believes_only_what_is_read(cluster, workloads, addons, fallen):
    engine, node = fallen(isolate=True, rules=shipped_rules())
    wait_for("it is isolated", lambda: fences(cluster), 120)
    (made,) = fences(cluster)
    name = made["metadata"]["name"]
    (uid,) = [each["metadata"]["uid"] for each in cluster.client.list("nodes") if each["metadata"]["name"] == node]
    assert name.startswith(f"moonfence-{uid}-{CLASS}-") and made["metadata"]["annotations"] == {"moonfence.io/node": node}
    assert made["spec"] == {"networkFenceClassName": CLASS, "fenceState": "Fenced", "cidrs": [OURS]}
    says(engine, f"NetworkFence {name} has no result yet")
    addons.result(name, "Failed", "no such cluster")
    says(engine, "no such cluster")
    assert engine.deletes() == []
    addons.result(name, "Succeeded", FENCED)
    workloads.wait_running("web-0", not_on=node, seconds=120)
    intents = [each["action"] for each in engine.records() if each["kind"] == "intent"]
    assert intents == ["isolate", "delete_pod", "delete_attachment"]
    assert [each["metadata"]["uid"] for each in fences(cluster)] == [made["metadata"]["uid"]]
    assert [each.resource for each in engine.deletes()] == ["pods", "volumeattachments"]
    events = {each["reason"] for each in cluster.client.list("events") if each["involvedObject"].get("name") == node}
    assert "IsolationAccepted" in events


@pytest.mark.slow  # IsolationOrderTest.without_the_right_to_make_it_it_is_tried_on
def test_pf_22_without_the_right_nothing_is_made(cluster, addons, fallen):
    engine, _ = fallen(isolate=True)
    failed = lambda: [each for each in engine.records() if each.get("action") == "isolate" and each["kind"] == "outcome"]  # noqa: E731
    wait_for("it is refused", failed, 120)
    assert {each["reason"] for each in failed()} == {"refused"}
    assert fences(cluster) == [] and engine.deletes() == []


def test_pf_22_while_somebody_holds_the_node_nothing_is_made(cluster, addons, fallen):
    engine, _ = fallen(isolate=True, rules=shipped_rules(), held=True)
    wait_for("it is held", lambda: [each for each in engine.records() if each.get("action") == "isolate" and each["kind"] == "refusal"
                                    and each["reason"] == "on_hold"], 120)
    assert fences(cluster) == [] and engine.deletes() == []


def test_the_api_server_refuses_it_whatever_the_fencer_does_not_make(cluster, addons):
    shipped = Installation(cluster)
    shipped.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "moonfence"}},
                   *objects(DEPLOY / "rights" / "isolate" / "rights.yaml"), *objects(DEPLOY / "rights" / "isolate" / "admission.yaml")])
    moonfence = cluster.control_plane.client(user=USER, group="system:serviceaccounts")
    good = {"apiVersion": API, "kind": "NetworkFence",
            "metadata": {"name": "moonfence-a", "annotations": {"moonfence.io/node": "a"}},
            "spec": {"networkFenceClassName": CLASS, "fenceState": "Fenced", "cidrs": [OURS, "fd00::1/128"]}}

    def answer(spec=None, metadata=None) -> str:
        try:
            moonfence.request("POST", f"/apis/{API}/networkfences", {
                **good, "metadata": {**good["metadata"], **(metadata or {})}, "spec": {**good["spec"], **(spec or {})}}, {"dryRun": "All"})
        except ApiError as error:
            return str(error)
        return ""
    wait_for("it is in force", lambda: "single addresses" in answer({"cidrs": ["10.8.0.0/24"]}), 60)
    wait_for("it may make one", lambda: answer() == "", 60)
    for spec in ({"cidrs": []}, {"cidrs": ["0.0.0.0/0"]}, {"cidrs": [OURS, "::/0"]}, {"cidrs": ["fd00::/32"]}):
        assert "single addresses" in answer(spec), spec
    assert "lifts nothing" in answer({"fenceState": "Unfenced"}) and "by a class" in answer({"networkFenceClassName": ""})
    assert "are named moonfence-" in answer(metadata={"name": "other"}) and "are named" in answer(metadata={"annotations": {}})
    shipped.remove_all()
