"""An API server whose admission policies judge by an old copy of the Lease (kubernetes/kubernetes#130887): it ends its watch of Leases
when the last binding that names one is deleted, and does not begin another one before it restarts."""

import pytest

from .faults import metric
from .installation import (NAMESPACE, Installation, ShippedAccount, lease_watch, manifest, one, policies_of_admission)
from .kube import ApiError, wait_for
from .policies import PolicyMap

BINDINGS = "api: 1\nbindings:\n- {{policy: noobaa, namespaces: [{}], mode: enforce, holdDown: 0s}}\n"
NAME = "engine-1"


@pytest.fixture
def shipped(cluster):
    """The overlay `enforce`, without its Deployment, whose place an engine takes that has the token of a pod of that name."""
    template = one(manifest("enforce"), "Deployment")["spec"]["template"]
    def gone() -> bool:
        return not cluster.client.find("namespaces", NAMESPACE)
    wait_for("earlier tests have cleaned up", gone, 60)
    made = Installation(cluster)
    made.apply([each for each in manifest("enforce") if each["kind"] != "Deployment"])
    made.apply([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME, "namespace": NAMESPACE},
                 "spec": {**template["spec"], "nodeSelector": {"moonfence.io/none": ""}}}])
    yield made
    made.remove_all()
    cluster.client.delete("pods", NAME, NAMESPACE, grace=0, missing_ok=True)
    wait_for("this one has cleaned up", gone, 60)


@pytest.fixture
def account(cluster, shipped):
    return ShippedAccount(cluster, NAMESPACE, "moonfence", cluster.client.get("pods", NAME, NAMESPACE))


def lease_of(holder: str) -> dict:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "moonfence", "namespace": NAMESPACE},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5}}


@pytest.fixture
def said(cluster, account):
    """said(**options) -> what the API server answers when the replica deletes its own pod; "": it would be done."""
    token = cluster.control_plane.token_client(account.token())

    def ask(**options) -> str:
        try:
            token.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods/{NAME}",
                          {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"], **options})
        except ApiError as error:
            return error.message
        return ""
    return ask


@pytest.fixture
def stale(cluster, shipped, account, said, api_server):
    """stale(holder): from now on, whoever holds the Lease, the admission policies believe that this one does."""
    policies, watch = policies_of_admission(), Installation(cluster)
    by_uid = {"preconditions": {"uid": account.pod["metadata"]["uid"]}}

    def make(holder: str):
        held = lease_of(f"{NAME}_1")
        shipped.apply([held])
        wait_for("the Lease is known", lambda: "no-uid" in said() and not said(**by_uid), 30)
        shipped.apply([lease_of(holder)])
        wait_for("its change is known", lambda: "not-leader" in said(**by_uid), 30)
        shipped.remove(policies)
        watch.remove(lease_watch())
        wait_for("nothing is refused", lambda: not said(), 30)
        shipped.apply(policies)
        wait_for("the policies are there again", lambda: "not-leader" in said(**by_uid), 30)
        shipped.remove([held])
    yield make
    watch.apply(lease_watch())
    shipped.remove(policies)
    api_server.stop()
    api_server.start()


def lease(cluster) -> dict:
    return cluster.client.get("leases", "moonfence", NAMESPACE)["spec"]


def refusals(engine) -> list:
    return [record for record in engine.records() if record["kind"] == "outcome" and record["reason"] == "deposed"]


def test_while_there_is_no_lease_nobody_else_is_refused_anything(cluster, shipped, account, said, nodes, workloads):
    """Whatever lacks its parameter was refused, before anybody asked who sent it: all kubelets were."""
    assert not cluster.client.find("leases", "moonfence", NAMESPACE)
    wait_for("the policies are asked", lambda: "no-uid" in said(), 30)
    assert not said(preconditions={"uid": account.pod["metadata"]["uid"]})
    for subresource in ("", "status"):
        cluster.client.patch("nodes", nodes[0], {"metadata": {"labels": {"changed": "yes"}}}, subresource=subresource)
    workloads.pod("any", node=nodes[0])
    workloads.wait_running("any")
    cluster.client.delete("pods", "any", workloads.namespace)
    workloads.wait_pod("any", "is gone", lambda pod: pod is None)


def test_a_leader_that_is_refused_by_an_old_copy_of_the_lease_leads_on_and_says_so(
        cluster, shipped, account, stale, victims_of, start_engine):
    start_engine.accounts["shipped"] = account
    victims = victims_of(1)
    PolicyMap(cluster.client, NAMESPACE).write(data={"moonfence.yaml": BINDINGS.format(victims.workloads.namespace)})
    stale("another_1")
    engine = start_engine(account="shipped", policy=None, mode=None, elect=True, witnessed=False)
    victims.fail("notready")
    wait_for("it is refused six times", lambda: len(refusals(engine)) >= 6, 120)
    assert lease(cluster)["holderIdentity"].startswith(f"{NAME}_") and victims.alive() == victims.uids
    # it stepped down once, for the server may have been right; then it went on with the same incident
    opened = [record["reason"] for record in engine.records() if record["kind"] == "incident_opened"]
    assert opened == ["node_not_ready", "took_over"], opened
    wait_for("it says so at the pod", lambda: [each for each in cluster.client.list("events", victims.workloads.namespace)
                                               if each["reason"] == "FencingFailed" and "moonfence-not-leader" in each["message"]], 30)

    # what docs/install.md says to do about it
    shipped.remove([one(policies_of_admission(), "ValidatingAdmissionPolicyBinding", "moonfence-leader")])
    victims.wait_replaced()
    assert metric(engine, "leader_election_master_status", name="moonfence") == 1
    assert lease(cluster)["holderIdentity"].startswith(f"{NAME}_")
