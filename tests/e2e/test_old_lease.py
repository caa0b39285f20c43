"""An API server whose admission policies judge by an old copy of the Lease (kubernetes/kubernetes#130887): it ends its watch of Leases
when the last binding that names one is deleted, or its policy wants no Lease any more, and does not begin another one before it
restarts."""

import copy
import os
import re
import subprocess

import pytest

from .control_plane import REPO
from .faults import metric
from .installation import (NAMESPACE, Installation, ShippedAccount, kubectl, lease_watch, manifest, one, policies_of_admission)
from .kube import ApiError, wait_for
from .policies import PolicyMap

BINDINGS = "api: 1\nbindings:\n- {{policy: noobaa, namespaces: [{}], mode: enforce, holdDown: 0s}}\n"
NAME = "engine-1"
THEN = "2026-11-29T17:17:29.000000Z"


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
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 5, "renewTime": THEN}}


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
                                               if each["reason"] == "FencingFailed" and f"another_1 renewed at {THEN}" in each["message"]], 30)

    # what docs/install.md says to do about it
    shipped.remove([one(policies_of_admission(), "ValidatingAdmissionPolicyBinding", "moonfence-leader")])
    victims.wait_replaced()
    assert metric(engine, "leader_election_master_status", name="moonfence") == 1
    assert lease(cluster)["holderIdentity"].startswith(f"{NAME}_")


# --- upgrades

OTHER, HOLDER = "another_1", f"{NAME}_1"


def earlier(found: list) -> list:
    """As manifests had them before 2026-11-30: two other policies had the Lease as their parameter, and there was no moonfence-leader."""
    made = [copy.deepcopy(each) for each in found if each["metadata"]["name"] != "moonfence-leader"]
    for each in made:
        if each["metadata"]["name"] not in ("moonfence-deletions", "moonfence-nodes"):
            continue
        if each["kind"] == "ValidatingAdmissionPolicy":
            each["spec"]["paramKind"] = one(found, "ValidatingAdmissionPolicy", "moonfence-leader")["spec"]["paramKind"]
            each["spec"]["validations"] += one(found, "ValidatingAdmissionPolicy", "moonfence-leader")["spec"]["validations"]
        else:
            each["spec"]["paramRef"] = {**one(found, "ValidatingAdmissionPolicyBinding", "moonfence-leader")["spec"]["paramRef"],
                                        "parameterNotFoundAction": "Deny"}
    return made


def of_today(each: dict) -> dict:
    """As kubectl patches it: what it had and has no more goes."""
    gone = {"ValidatingAdmissionPolicy": "paramKind", "ValidatingAdmissionPolicyBinding": "paramRef"}[each["kind"]]
    return {**each, "spec": {gone: None, **each["spec"]}}


@pytest.fixture
def upgraded(cluster, shipped, said, account, api_server):
    """upgraded(order): the admission policies of an earlier day have become today's, one object after the other, and the API server has
    looked at them after each. Then the replica takes the Lease from another one."""
    policies, watch = policies_of_admission(), Installation(cluster)
    by_uid = {"preconditions": {"uid": account.pod["metadata"]["uid"]}}
    log = cluster.control_plane.folder / "kube-apiserver.log"

    def looked() -> int:
        return log.read_text(errors="replace").count("refreshing policies")

    def change(each: dict):
        before = looked()
        about = {**each["metadata"], "annotations": {"changed": str(before)}}  # what does not change is no reason to look
        shipped.apply([{**each, "metadata": about}])
        wait_for("the API server has looked", lambda: looked() > before, 30)

    def make(order: list):
        shipped.remove(policies)
        shipped.apply([lease_of(OTHER), *earlier(policies)])
        wait_for("the policies of an earlier day are in force", lambda: "not-leader" in said(**by_uid), 30)
        watch.remove(lease_watch())
        for each in order:
            change(of_today(each))
        shipped.apply([lease_of(HOLDER)])
        change(order[0])  # whoever watches the Lease knows by then
    yield make
    watch.apply(lease_watch())
    shipped.remove(policies)
    api_server.stop()
    api_server.start()


def typed_check(cluster, folder) -> str:
    """What docs/install.md says to type after an upgrade."""
    page = (REPO / "docs" / "install.md").read_text().split("\n### Is it the leader for the API server?\n")[1]
    (session,) = re.findall(r"^```console\n(.*?)^```", page.split("\n## ")[0].split("\n### ")[0], re.M | re.S)
    script = "\n".join(line.removeprefix("$ ").removeprefix("> ") for line in session.splitlines())
    env = {"PATH": f"{kubectl().parent}:{os.environ['PATH']}", "HOME": str(folder), "KUBECONFIG": str(cluster.control_plane.kubeconfig)}
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.stdout


def test_an_upgrade_in_the_order_of_the_file_leaves_no_moment_without_a_lease_to_watch(cluster, account, said, upgraded, tmp_path):
    upgraded(policies_of_admission())
    by_uid = {"preconditions": {"uid": account.pod["metadata"]["uid"]}}
    wait_for("its leadership is known", lambda: not said(**by_uid), 30)
    assert "not-leader" not in typed_check(cluster, tmp_path)
    assert cluster.client.get("pods", NAME, NAMESPACE)["metadata"]["uid"] == account.pod["metadata"]["uid"]
    assert "no-uid" in said()


def test_in_the_order_of_kustomize_it_does_and_the_page_s_check_tells(cluster, shipped, account, said, upgraded, tmp_path):
    """Which Helm has too. Kubernetes' fault: when this fails, it is mended there, and the page can be shorter."""
    found = sorted(policies_of_admission(), key=lambda each: (each["kind"], each["metadata"]["name"]))
    upgraded(found)
    by_uid = {"preconditions": {"uid": account.pod["metadata"]["uid"]}}
    said_then = typed_check(cluster, tmp_path)
    assert f"moonfence-not-leader: by the Lease that this API server has seen, which {OTHER} renewed at {THEN}" in said_then
    (page,) = re.findall(r"see (docs/\S+)#all-deletions-are-refused-as-moonfence-not-leader", said_then)
    assert "### All deletions are refused as `moonfence-not-leader`\n" in (REPO / page).read_text()
    shipped.remove([one(found, "ValidatingAdmissionPolicyBinding", "moonfence-leader")])
    wait_for("nothing is refused to it", lambda: not said(**by_uid), 30)
    assert "not-leader" not in typed_check(cluster, tmp_path)
    assert "no-uid" in said()
