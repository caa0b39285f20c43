"""Pods of Jobs (docs/writing-policies.md, "Pods of Jobs") on a real control plane, with the right and the admission policy that are shipped:
what a Job makes of a pod that is only deleted, and of one that fails before. The Job controller is Kubernetes' own."""

import pytest

from .engine import RULES, Account
from .faults import holds
from .installation import DEPLOY, NAMESPACE, USER, Installation, objects, policies_of_admission
from .kube import ApiError, wait_for
from .policies import policy_text
from .workloads import is_ready

FAILS, DELETES = 'fence.delete_pod("a test says so", { fail = true })', 'fence.delete_pod("a test says so")'
IGNORES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
# how each is set up, and its condition and its count of failed pods in the end
JOBS = {
    "replaces-failed": ({"podReplacementPolicy": "Failed", "backoffLimit": 3}, None, 1),
    "indexed": ({"podReplacementPolicy": "Failed", "backoffLimit": 3, "completionMode": "Indexed", "completions": 2, "parallelism": 2}, None, 2),
    "ignored": ({"podFailurePolicy": IGNORES, "backoffLimit": 0}, None, 0),
    "counted": ({"podReplacementPolicy": "Failed", "backoffLimit": 0}, "BackoffLimitExceeded", 1)}


@pytest.fixture
def shipped(cluster):
    """What the overlay `enforce` says about pods, and the right of deploy/rights/fail-pods."""
    made = Installation(cluster)
    made.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
                *objects(DEPLOY / "rights" / "fail-pods" / "rights.yaml"),
                *(each for each in policies_of_admission() if each["metadata"]["name"] in ("moonfence-pods", "moonfence-deletions"))])
    yield made
    made.remove_all()


@pytest.fixture
def start_shipped(cluster, shipped, start_engine, tmp_path):
    """The engine with the shipped account and a policy of this verdict."""
    account = Account(cluster, NAMESPACE, "moonfence").create(RULES)
    start_engine.accounts["shipped"] = account

    def start(verdict: str, config: dict):
        policy = tmp_path / "jobs.lua"
        policy.write_text(policy_text("jobs", verdict))
        return start_engine(account="shipped", policy=policy, config=config)
    yield start
    account.remove()


class Run:
    """A Job whose pods run on one node, and other nodes to go to."""

    def __init__(self, cluster, make_nodes, workloads, **spec):
        self.cluster, self.client, self.workloads = cluster, cluster.client, workloads
        (self.node,) = make_nodes(1)
        self.count = spec.get("parallelism", 1)
        workloads.job("run", labels={"app": "run"}, toleration_seconds=600, job_spec=spec)
        self.pods = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in workloads.wait_all_running("run", self.count)}
        self.others = make_nodes(2)

    def fail(self):
        self.cluster.hollow.fail(self.node)

    def elsewhere(self) -> list:
        return [pod for pod in self.workloads.pods("run") if is_ready(pod) and pod["spec"]["nodeName"] != self.node]

    def left(self) -> list:
        return [pod for pod in self.workloads.pods("run") if pod["metadata"]["uid"] in self.pods]

    def status(self) -> dict:
        return self.client.get("jobs", "run", self.workloads.namespace)["status"]

    def why_failed(self):
        return next((each["reason"] for each in self.status().get("conditions") or [] if each["type"] == "Failed" and each["status"] == "True"), None)


def patches(engine) -> list:
    return engine.requests(verb="patch", resource="pods")


@pytest.mark.parametrize("kind", JOBS)
def test_a_job_goes_on_when_its_pod_fails_before_it_is_deleted(cluster, make_nodes, workloads, start_shipped, kind):
    spec, ends, failed = JOBS[kind]
    run = Run(cluster, make_nodes, workloads, **spec)
    engine = start_shipped(FAILS, {"failPods": "on"})
    run.fail()
    if ends:
        wait_for("the Job has failed", lambda: run.why_failed() == ends, 120)
    else:
        workloads.wait("other pods run elsewhere", lambda: len(run.elsewhere()) == run.count, 120)
        assert run.why_failed() is None
    wait_for("the old pods are gone", lambda: not run.left(), 60)
    assert wait_for("they are counted", lambda: run.status().get("failed", 0) == failed or None, 60)
    # where Kubernetes itself wrote to the pod in that moment (409) it is read and patched anew
    assert [(entry.subresource, entry.status) for entry in patches(engine) if entry.status != 409] == [("status", 200)] * run.count
    if kind == "indexed":
        assert sorted(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in run.elsewhere()) == ["0", "1"]


@pytest.mark.parametrize("kind", ["replaces-failed", "indexed", "ignored"])
def test_before_a_pod_that_is_only_deleted_is_not_replaced(cluster, make_nodes, workloads, start_shipped, kind):
    run = Run(cluster, make_nodes, workloads, **JOBS[kind][0])
    engine = start_shipped(DELETES, {"failPods": "on"})
    run.fail()
    wait_for("they are marked", lambda: len([pod for pod in run.left() if "deletionTimestamp" in pod["metadata"]]) == run.count, 120)
    holds(10, lambda: len(run.left()) == run.count and not run.elsewhere())
    assert patches(engine) == []


def test_without_failpods_the_pod_is_held(cluster, make_nodes, workloads, start_shipped):
    run = Run(cluster, make_nodes, workloads, podReplacementPolicy="Failed")
    engine = start_shipped(FAILS, {})
    run.fail()
    wait_for("it says why", lambda: [each for each in engine.records() if each["reason"] == "failing_not_served"], 120)
    (pod,) = run.left()
    assert pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
    assert patches(engine) == [] and engine.fenced() == []


def test_the_right_permits_that_a_pod_fails_and_nothing_else(cluster, shipped, make_nodes, workloads):
    account = Account(cluster, NAMESPACE, "moonfence").create(RULES)
    try:
        make_nodes(1)
        workloads.deployment("web", labels={"app": "web"})
        (pod,) = workloads.wait_all_running("web", 1)
        moonfence = cluster.control_plane.client(user=USER, group="system:serviceaccounts")
        path = f"/api/v1/namespaces/{workloads.namespace}/pods/{pod['metadata']['name']}/status"

        def condition(**more) -> dict:
            return {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByMoonfence", "message": "a test", **more}

        def says(status: dict, metadata=None, at: str = path) -> str:
            try:
                moonfence.request("PATCH", at, {"metadata": metadata or {}, "status": status}, {"dryRun": "All"},
                                  content_type="application/strategic-merge-patch+json")
            except ApiError as error:
                return str(error)
            return ""
        good = {"phase": "Failed", "conditions": [condition()]}
        wait_for("the right is known", lambda: says(good) == "", 30)
        wait_for("moonfence is held to it", lambda: "bound to a node and has not ended" in says({"phase": "Succeeded"}), 30)
        assert says(good) == ""
        for status, word in (({**good, "podIP": "10.1.2.3"}, "phase and conditions only"),
                             ({**good, "reason": "Evicted"}, "phase and conditions only"),
                             ({"phase": "Failed", "conditions": [condition(reason="Other")]}, "its own reason only"),
                             ({"phase": "Failed", "conditions": [condition(type="Ready")]}, "its own reason only"),
                             ({"conditions": [condition()]}, "bound to a node and has not ended")):
            assert word in says(status), status
        assert "forbidden" in says({}, {"labels": {"a": "b"}}, path.removesuffix("/status"))
    finally:
        account.remove()
