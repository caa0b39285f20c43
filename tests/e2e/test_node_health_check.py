"""moonfence as a remediator of medik8s' NodeHealthCheck (docs/install.md) on a real control plane: the test plays NodeHealthCheck by
its published contract, with the rights that the shipped role gives it."""

import time

import pytest

from .engine import RULES
from .faults import holds
from .installation import DEPLOY, Installation, objects, one, rights_of
from .kube import ApiError, wait_for
from .policies import policy_text

GROUP = "/apis/remediation.moonfence.io/v1alpha1"
NODE_NAME, TIMED_OUT = "remediation.medik8s.io/node-name", "remediation.medik8s.io/nhc-timed-out"
OPERATOR = "nhc-operator"
ON = {"remediation": "nodeHealthCheck"}


def our_rules() -> list:
    """What the engine gets beside the rest: the shipped role."""
    return [*RULES, *one(rights_of("remediation"), "ClusterRole", "moonfence-remediation")["rules"]]


class NodeHealthCheck:
    """What the operator does with a template (its pkg/controllers: createRemediation, deleteRemediation, the time-out)."""

    def __init__(self, cluster, namespace: str):
        self.client = cluster.control_plane.client(user=OPERATOR, group="")
        self.path = f"{GROUP}/namespaces/{namespace}"
        self.admin, self.namespace = cluster.client, namespace

    def template(self, name: str = "moonfence", **annotations):
        self.admin.request("POST", f"{self.path}/moonfenceremediationtemplates", {
            "apiVersion": "remediation.moonfence.io/v1alpha1", "kind": "MoonfenceRemediationTemplate",
            "metadata": {"name": name, "annotations": annotations}, "spec": {"template": {"spec": {}}}})

    def remediate(self, node: str, said: str = "") -> str:
        """Makes the remediation of a node, whose name is returned."""
        (template,) = self.client.request("GET", f"{self.path}/moonfenceremediationtemplates")["items"]
        many = "remediation.medik8s.io/multiple-templates-support" in template["metadata"].get("annotations", {})
        made = self.client.request("POST", f"{self.path}/moonfenceremediations", {
            "apiVersion": template["apiVersion"], "kind": template["kind"].removesuffix("Template"),
            "metadata": {**({"generateName": f"{node}-"} if many else {"name": node}),
                         "labels": {"app.kubernetes.io/part-of": "node-healthcheck-controller"},
                         "annotations": {NODE_NAME: said or node, "remediation.medik8s.io/template-name": template["metadata"]["name"]},
                         "ownerReferences": [{"apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                                              "name": "workers", "uid": "7b1c4c52-0c8e-4f1f-a0a9-000000000000", "controller": False}]},
            "spec": template["spec"]["template"]["spec"]})
        return made["metadata"]["name"]

    def get(self, name: str) -> dict:
        return self.client.request("GET", f"{self.path}/moonfenceremediations/{name}")

    def conditions(self, name: str) -> dict:
        return {each["type"]: each for each in self.get(name).get("status", {}).get("conditions", [])}

    def told(self, name: str) -> tuple:
        """(Processing, Succeeded, reason)."""
        found = self.conditions(name)
        return (found["Processing"]["status"], found["Succeeded"]["status"], found["Succeeded"]["reason"]) if found else ()

    def wait(self, name: str, *told: str, seconds: float = 60):
        wait_for(f"{name} says {told}, not {self.told(name)}", lambda: self.told(name) == told, seconds)

    def story(self, name: str, last: tuple, seconds: float = 120) -> list:
        """What it says of itself, one after the other, until it says this."""
        seen, end = [], time.monotonic() + seconds
        while time.monotonic() < end and seen[-1:] != [last]:
            told = self.told(name)[:2]
            seen += [told] if told and seen[-1:] != [told] else []
            time.sleep(0.05)
        return seen

    def time_out(self, name: str):
        self.client.request("PATCH", f"{self.path}/moonfenceremediations/{name}",
                            {"metadata": {"annotations": {TIMED_OUT: "2026-01-02T03:04:05Z"}}},
                            content_type="application/merge-patch+json")

    def delete(self, name: str):
        """The node is healthy, or gone. Nothing keeps the object."""
        self.client.request("DELETE", f"{self.path}/moonfenceremediations/{name}")
        with pytest.raises(ApiError) as gone:
            self.get(name)
        assert gone.value.status == 404


@pytest.fixture
def kinds(cluster):
    """deploy/rights/remediation without its kinds; kinds() adds these. The operator's role takes in what has its label."""
    shipped = Installation(cluster)
    api = "rbac.authorization.k8s.io/v1"
    shipped.apply([
        one(rights_of("remediation"), "ClusterRole", "moonfence-ext-remediation"),
        {"apiVersion": api, "kind": "ClusterRole", "metadata": {"name": OPERATOR}, "aggregationRule": {"clusterRoleSelectors": [
            {"matchLabels": {"rbac.ext-remediation/aggregate-to-ext-remediation": "true"}}]}, "rules": []},
        {"apiVersion": api, "kind": "ClusterRoleBinding", "metadata": {"name": OPERATOR},
         "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR},
         "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": OPERATOR}]}])

    def install():
        shipped.apply(objects(DEPLOY / "rights" / "remediation" / "kinds.yaml"))
        operator = cluster.control_plane.client(user=OPERATOR, group="")
        for kind in ("moonfenceremediationtemplates", "moonfenceremediations"):
            wait_for(f"{kind} are served to the operator", lambda: "items" in operator.request("GET", f"{GROUP}/{kind}"), 60)
    yield install
    shipped.remove_all()


@pytest.fixture
def nhc(cluster, kinds, workloads) -> NodeHealthCheck:
    kinds()
    return NodeHealthCheck(cluster, workloads.namespace)


def opened(engine) -> list:
    return [record["reason"] for record in engine.records() if record["kind"] == "incident_opened"]


def test_nh_01_an_unhealthy_node_is_remediated_and_the_object_goes_with_the_outage(cluster, nhc, victims_of, start_engine):
    victims = victims_of(1, stateful=True)
    nhc.template()
    engine = start_engine(config=ON, rules=our_rules())
    victims.fail("silent")
    replacements = victims.wait_replaced()  # moonfence waits for Kubernetes and not for the operator
    wait_for("its incident is over", lambda: any(r["kind"] == "incident_closed" for r in engine.records()), 120)
    name = nhc.remediate(victims.node)
    assert nhc.story(name, ("False", "True")) == [("True", "Unknown"), ("False", "True")]
    assert opened(engine)[-1] == "remediation_asked"
    said = nhc.conditions(name)
    assert said["PermanentNodeDeletionExpected"]["status"] == "False"
    assert said["Succeeded"]["message"].startswith(f"Nothing is left to delete on node {victims.node} (incident ")
    made = nhc.get(name)
    assert "finalizers" not in made["metadata"]
    assert made["status"]["nodeUID"] == cluster.client.get("nodes", victims.node)["metadata"]["uid"]
    written = len(engine.requests(resource="moonfenceremediations", verb="patch"))
    assert written <= 3, "at the beginning and at the end, and once more at most"
    victims.wait_survive(replacements)
    cluster.hollow.heal(victims.node)
    nhc.delete(name)
    assert len(engine.requests(resource="moonfenceremediations", verb="patch")) == written


def test_nh_02_what_the_operator_gives_up_is_over_and_a_new_leader_goes_on_from_the_objects(cluster, nhc, victims_of, start_engine):
    victims = victims_of(1, stateful=True)
    nhc.template(**{"remediation.medik8s.io/multiple-templates-support": "true"})
    engine = start_engine(config={**ON, "proof": "{everywhere: [attested]}"}, rules=our_rules())
    victims.fail("silent")
    wait_for("Kubernetes notices", lambda: opened(engine), 90)
    name = nhc.remediate(victims.node)
    assert name != victims.node
    wait_for("it says what it waits for", lambda: "proof_missing" in nhc.conditions(name).get("Processing", {}).get("message", ""), 120)
    assert nhc.told(name) == ("True", "Unknown", "IncidentOpen")
    since = {each: said["lastTransitionTime"] for each, said in nhc.conditions(name).items()}
    engine.kill9()
    engine.start()
    holds(15, lambda: nhc.told(name)[:2] == ("True", "Unknown"))
    assert {each: said["lastTransitionTime"] for each, said in nhc.conditions(name).items()} == since
    nhc.time_out(name)
    nhc.wait(name, "False", "False", "TimedOut")
    # A next remediator may be at work: here only the object is over. What Kubernetes' word opened waits for its proof as before.
    assert victims.alive() == victims.uids and engine.deletes() == []
    nhc.delete(name)


def test_nh_02_what_only_the_object_had_opened_ends_with_its_time_out(cluster, nhc, victims_of, start_engine, tmp_path):
    policy = tmp_path / "noobaa.lua"
    policy.write_text(policy_text("noobaa", 'pod.labels.stage == "wait" and fence.wait("a test says so", 2) or '
                                            'pod.labels.stage == "go" and fence.delete_pod("a test says so") or '
                                            'fence.skip("a test says so")', "app=noobaa"))
    victims = victims_of(1, stateful=True)
    (pod,) = [each["metadata"]["name"] for each in victims.workloads.pods("noobaa")]

    def label(stage: str):
        cluster.client.patch("pods", pod, {"metadata": {"labels": {"stage": stage}}}, victims.workloads.namespace)

    def closed() -> list:
        return [record["reason"] for record in engine.records() if record["kind"] == "incident_closed"]
    nhc.template()
    engine = start_engine(config=ON, rules=our_rules(), policy=policy)
    victims.fail("silent")
    wait_for("what Kubernetes' word opened is over", lambda: closed() == ["settled"], 120)
    label("wait")
    name = nhc.remediate(victims.node)
    nhc.wait(name, "True", "Unknown", "IncidentOpen")
    assert opened(engine)[-1] == "remediation_asked"
    nhc.time_out(name)
    nhc.wait(name, "False", "False", "TimedOut")
    wait_for("its incident is over", lambda: closed() == ["settled", "remediation_over"], 30)
    label("go")
    holds(20, lambda: victims.alive() == victims.uids and engine.deletes() == [])
    assert len(opened(engine)) == 2
    # Another object of the node is another wish.
    nhc.delete(name)
    name = nhc.remediate(victims.node)
    nhc.wait(name, "False", "True", "NothingLeftToDo", seconds=120)
    assert not victims.alive()
    nhc.delete(name)


def test_nh_03_a_word_against_what_kubernetes_says_and_hostile_objects_do_nothing(cluster, kinds, victims_of, start_engine):
    victims = victims_of(1)
    engine = start_engine(config=ON, rules=our_rules())
    wait_for("it says that the kind is missing", lambda: "MoonfenceRemediation is not installed" in engine.get("/readyz?verbose")[1], 30)
    assert engine.get("/readyz")[0] == 200
    kinds()
    nhc = NodeHealthCheck(cluster, victims.workloads.namespace)
    nhc.template()
    healthy = nhc.remediate(victims.node)
    nhc.wait(healthy, "True", "Unknown", "NodeIsReady", seconds=120)  # it looks for the kind once a minute
    nowhere = nhc.remediate("nowhere")
    garbage = nhc.remediate("garbage", said="../../secrets")
    nhc.wait(nowhere, "False", "False", "NodeNotFound")
    nhc.wait(garbage, "False", "False", "InvalidNodeName")
    assert nhc.told(healthy) == ("True", "Unknown", "NodeIsReady")
    assert opened(engine) == [] and engine.deletes() == [] and victims.alive() == victims.uids

    (other, _) = victims.others
    gone = nhc.remediate(other)
    nhc.wait(gone, "True", "Unknown", "NodeIsReady")
    cluster.hollow.remove([other])
    cluster.client.delete("nodes", other, missing_ok=True)
    nhc.wait(gone, "False", "False", "NodeDeleted")
    for name in (healthy, nowhere, garbage, gone):
        nhc.delete(name)


def test_what_breaks_the_schema_is_refused_by_the_api_server(cluster, nhc):
    nhc.template()
    name = nhc.remediate("nowhere")
    for status in ({"conditions": [{"type": "Processing"}]}, {"conditions": [{"type": "Processing", "status": "Yes"}]},
                   {"conditions": [{"type": f"t{i}", "status": "True"} for i in range(17)]}, {"nodeUID": "x" * 65}):
        with pytest.raises(ApiError) as refused:
            cluster.client.request("PATCH", f"{nhc.path}/moonfenceremediations/{name}/status", {"status": status},
                                   content_type="application/merge-patch+json")
        assert refused.value.status == 422, status
    with pytest.raises(ApiError):  # the operator may not write a remediator's status
        nhc.client.request("PATCH", f"{nhc.path}/moonfenceremediations/{name}/status", {"status": {"nodeUID": "x"}},
                           content_type="application/merge-patch+json")
