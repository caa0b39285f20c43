"""The shipped manifests against a real API server, and the engine as they start it: from the image, as its user, read-only, with
the token of their account and the roles of each mode."""

import base64
import json
import re
import shutil
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
import yaml

from .control_plane import REPO
from .documents import BLOCK
from .elected import RenewedLease
from .engine import binary
from .faults import metric
from .installation import (DEPLOY, NAMESPACE, Installation, Right, ShippedAccount, built, differences,
                           documented_rights, manifest, objects, one, policies_of_admission, rights, rights_of, run_with)
from .kube import ApiError, wait_for
from .policies import LAST_GOOD, STATUS, PolicyMap, policy_text
from .replica import Replica, make_image
from .workloads import taints

MODES = ("taint", "release", "kubelet", "fail-pods")
OBSERVING = ("observe", "longhorn", "storageos")
BINDINGS = "api: 1\nbindings:\n- {{policy: every, source: every.lua, namespaces: [{}], mode: enforce, holdDown: 0s}}\n"
OTHER = "- {policy: other, source: other.lua, namespaces: [elsewhere]}\n"
# of an incident that ended long ago: its leader removes it
OLD_RECORD = {"version": 1, "incident": "old", "node": {"name": "gone", "uid": "gone"}, "opened": "2020-01-01T00:00:00Z",
              "opened_for": "node_unknown", "closed": {"at": "2020-01-01T00:01:00Z", "reason": "settled"}}
JOBS = "/apis/batch/v1/namespaces/{}/jobs"


@pytest.fixture(scope="module")
def shipped(cluster):
    """The overlay `observe`, without its Deployment: nothing here runs images."""
    made = Installation(cluster)
    made.apply([each for each in manifest("observe") if each["kind"] != "Deployment"])
    yield made
    made.remove_all()


@pytest.fixture(scope="session")
def image():
    return make_image()


@pytest.fixture
def grant(shipped):
    """grant(mode): its rights on top, for this test."""
    added = []

    def add(mode: str):
        shipped.apply(rights_of(mode))
        added.extend(rights_of(mode))
    yield add
    shipped.remove(added)


@pytest.fixture
def enforcing(shipped, grant):
    grant("enforce")
    return shipped


@pytest.fixture
def token(cluster):
    """A client with the token of the shipped ServiceAccount."""
    account = ShippedAccount(cluster, NAMESPACE, "moonfence")
    return cluster.control_plane.token_client(account.token())


def everything() -> list:
    found = [*manifest("enforce"), *(each for mode in (*MODES, "remediation", "incidents") for each in rights_of(mode))]
    for overlay in OBSERVING:
        found.extend(each for each in manifest(overlay) if each not in found)
    return found


# --- manifests

def test_the_server_takes_every_manifest_and_drops_nothing_of_it(shipped):
    for each in everything():
        fresh = {**each, "metadata": {**each["metadata"], "name": f"{each['metadata']['name']}-dry"}}
        assert differences(fresh, shipped.dry_run(fresh)) == [], each["metadata"]["name"]


def test_the_pod_of_the_deployment_is_admitted_and_restricted(shipped):
    template = one(manifest("enforce"), "Deployment")["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "dry", "namespace": NAMESPACE},
           "spec": template["spec"]}
    kept = shipped.dry_run(pod)["spec"]
    assert differences({**template["spec"], "tolerations": kept["tolerations"]}, kept) == []
    # no second toleration of 300 s is added by admission, and no mount of the token that never expires
    seconds = [t["tolerationSeconds"] for t in kept["tolerations"] if "tolerationSeconds" in t]
    assert seconds == [10, 10] and len(kept["containers"][0]["volumeMounts"]) == 2
    assert "cpu" not in kept["containers"][0]["resources"]["limits"] and kept["priority"] == 2000000000


def test_the_shipped_configurations_are_read(tmp_path):
    config = one(manifest("observe"), "ConfigMap", "moonfence-config")["data"]["config.yaml"]
    assert "config.yaml" in run_with(binary(), config + "fencingDriver: []\n", tmp_path)
    for overlay in ("enforce", *OBSERVING):
        config = one(manifest(overlay), "ConfigMap", "moonfence-config")["data"]["config.yaml"]
        assert "config.yaml" not in run_with(binary(), config, tmp_path), overlay


def ways_out(overlay: str) -> set:
    egress = one(manifest(overlay), "NetworkPolicy")["spec"]["egress"]
    assert not [rule for rule in egress if set(rule) != {"ports"}]
    return {(port["protocol"], port["port"]) for rule in egress for port in rule["ports"]}


def test_the_login_of_an_endpoint_is_mounted_and_its_service_let_out():
    config = yaml.safe_load(one(manifest("storageos"), "ConfigMap", "moonfence-config")["data"]["config.yaml"])
    (endpoint,) = config["endpoints"].values()
    pod = one(manifest("storageos"), "Deployment")["spec"]["template"]["spec"]
    (secret,) = [volume["name"] for volume in pod["volumes"] if "secret" in volume]
    (folder,) = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == secret]
    assert {endpoint["auth"][key] for key in ("usernameFile", "passwordFile")} == {f"{folder}/username", f"{folder}/password"}
    assert ways_out("storageos") - ways_out("observe") == {
        ("TCP", urlsplit(endpoint["url"]).port), *((protocol, port) for protocol in ("UDP", "TCP") for port in (53, 5353))}  # OpenShift's
    assert ways_out("observe") < ways_out("storageos")


# --- rights

def test_the_roles_grant_what_the_documentation_tells_and_nothing_else():
    granted = rights([*manifest("enforce"), *(each for mode in MODES for each in rights_of(mode)),
                      one(rights_of("remediation"), "ClusterRole", "moonfence-remediation"),
                      one(rights_of("incidents"), "Role", "moonfence-incidents"),
                      one(rights_of("serving"), "ClusterRole", "moonfence-serving")])
    told = documented_rights()
    assert len(told) > 30
    assert granted - told == set()
    # what is told of one namespace may be granted in all
    assert {right for right in told - granted if replace(right, namespace="") not in granted} == set()


def test_each_mode_adds_to_the_one_before():
    observe = rights(manifest("observe"))
    assert {(r.resource, r.verb) for r in observe if not r.namespace and r.verb not in ("get", "list", "watch")} == {
        ("events", "create"), ("events", "patch")}
    assert rights(manifest("enforce")) - observe == {
        Right("", "", "pods", "delete"), Right("", "storage.k8s.io", "volumeattachments", "delete"),
        Right("", "apps", "statefulsets", "get")}
    for overlay in OBSERVING:
        assert rights(manifest(overlay)) == observe


def refused(call) -> bool:
    try:
        call()
    except ApiError as error:
        return error.status == 403
    return False


def test_a_mode_may_nothing_that_belongs_to_another(cluster, shipped, token, make_nodes, workloads):
    """Asked with the token that an engine in mode observe has, whatever its program thinks of modes."""
    (node,) = make_nodes(1)
    workloads.stateful_set("web", labels={"app": "web"})
    pod = workloads.wait_running("web-0")
    uid = pod["metadata"]["uid"]
    tries = {
        "enforce": lambda: token.delete("pods", "web-0", workloads.namespace, grace=0, uid=uid),
        "enforce too": lambda: token.delete("volumeattachments", "csi-0"),
        "taint": lambda: token.patch("nodes", node, {"metadata": {"labels": {}}}),
        "release": lambda: token.patch("nodes", node, {"status": {"volumesInUse": []}}, subresource="status"),
        "fail-pods": lambda: token.patch("pods", "web-0", {"metadata": {"uid": uid}, "status": {}}, workloads.namespace, kind="strategic",
                                         subresource="status"),
        "kubelet": lambda: token.request("GET", f"/api/v1/nodes/{node}/proxy/pods"),
        "never": lambda: token.list("secrets", NAMESPACE),
        "never at all": lambda: token.delete("nodes", node),
        "never in bulk": lambda: token.request("DELETE", f"/api/v1/namespaces/{workloads.namespace}/pods"),
    }
    assert {name for name, call in tries.items() if refused(call)} == set(tries)
    for mode in MODES:
        added = rights_of(mode)
        shipped.apply(added)
        try:
            wait_for(f"{mode} is allowed", lambda: not refused(tries[mode]), 10, 0.02)
            assert {name for name, call in tries.items() if refused(call)} == set(tries) - {mode}
        finally:
            shipped.remove(added)
        wait_for(f"{mode} is refused again", lambda: refused(tries[mode]), 10, 0.02)
    assert workloads.get_pod("web-0")["metadata"]["uid"] == uid


@pytest.fixture
def replicas(cluster, shipped):
    """replicas(name) -> a client with the token that the replica of this name has: bound to its pod."""
    made = []

    def make(name: str):
        template = one(manifest("enforce"), "Deployment")["spec"]["template"]
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": {**template["spec"], "nodeSelector": {"moonfence.io/none": ""}},
               "metadata": {"name": name, "namespace": NAMESPACE}}
        made.append(pod)
        shipped.apply([pod])
        account = ShippedAccount(cluster, NAMESPACE, "moonfence", cluster.client.get("pods", name, NAMESPACE))
        return cluster.control_plane.token_client(account.token())
    yield make
    for pod in made:
        cluster.client.delete("pods", pod["metadata"]["name"], NAMESPACE, grace=0)
    shipped.made = [each for each in shipped.made if each not in made]


def test_the_api_server_itself_holds_the_account_to_uids_the_lease_and_its_taint(
        cluster, enforcing, replicas, make_nodes, workloads):
    """The admission policies of the overlay `enforce`."""
    policies = policies_of_admission()
    assert len(policies) == 10
    (node,) = make_nodes(1)
    workloads.stateful_set("web", 2, labels={"app": "web"})
    uids = [pod["metadata"]["uid"] for pod in workloads.wait_all_running("web", 2)]
    leader, standby = replicas("replica-0"), replicas("replica-1")
    enforcing.apply([*policies, *rights_of("taint"), *rights_of("release"), *rights_of("fail-pods"), {
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": "replica-0_1"},
        "metadata": {"name": "moonfence", "namespace": NAMESPACE}}, policies_that_bind("[]")])
    silent, taint = ({"spec": {"taints": [{"key": f"moonfence.io/{key}", "effect": "NoSchedule"}]}} for key in ("silent", "fenced"))

    def says(call) -> str:
        try:
            call()
        except ApiError as error:
            return error.message
        return "done"

    def delete(client, index: int, uid: str = ""):
        return says(lambda: client.delete("pods", f"web-{index}", workloads.namespace, grace=0, uid=uid or None))
    try:
        wait_for("the policies are asked", lambda: "moonfence-no-uid: " in delete(leader, 1), 30)
        assert "moonfence-not-leader: " in delete(standby, 0, uids[0])
        wait_for("the Lease is known", lambda: delete(leader, 0, uids[0]) == "done", 10)
        assert "moonfence-not-leader: " in says(lambda: standby.patch("nodes", node, taint))
        fails = {"status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByMoonfence"}]}}

        def fail(client) -> str:
            return says(lambda: client.patch("pods", "web-1", fails, workloads.namespace, kind="strategic", subresource="status"))
        assert "moonfence-not-leader: " in fail(standby)
        assert fail(leader) == "done" and "has not ended" in fail(leader)
        assert says(lambda: leader.patch("nodes", node, silent)) == "done"
        assert says(lambda: leader.patch("nodes", node, taint)) == "done"
        for body, subresource, word in (
                ({"spec": {"unschedulable": True}}, "", "changes taints only"), ({"spec": {"taints": None}}, "", "done"),
                ({"spec": {"taints": [{"key": "moonfence.io/silent", "effect": "NoExecute"}]}}, "", "has the effect NoSchedule"),
                ({"metadata": {"labels": {"a": "b"}}}, "", "changes annotations only"),
                ({"metadata": {"annotations": {"a": "b"}}}, "", "its own annotation only"),
                ({"status": {"addresses": []}}, "status", "changes volumesInUse and its own condition only"),
                ({"status": {"volumesInUse": ["kubernetes.io/csi/a^b"]}}, "status", "adds none"),
                (taint, "", "done"), ({"status": {"volumesInUse": []}}, "status", "the node is Ready"),
                ({"metadata": {"annotations": {"moonfence.io/fenced": "{}"}}}, "", "done"),
                ({"status": {"volumesInUse": []}}, "status", "done")):
            assert word in says(lambda: leader.patch("nodes", node, body, subresource=subresource)), body
        assert "configured by" in says(lambda: leader.patch("configmaps", "moonfence-policies", {"data": {}}, NAMESPACE))
    finally:
        enforcing.remove([*policies, *rights_of("taint"), *rights_of("release"), *rights_of("fail-pods")])


def unattached(workloads) -> str:
    """The name of a driver whose volumes are not attached."""
    return f"{workloads.namespace}.local"


def hold_many(workloads, node: str, count: int = 110):
    """A bare pod with so many volumes that they are listed rather than read one by one (fence/read/lookups): 64 beside the 32 that are
    under way, and some. Nobody attaches them."""
    client, driver = workloads.client, unattached(workloads)
    client.create("csidrivers", {"metadata": {"name": driver}, "spec": {"attachRequired": False, "podInfoOnMount": False}})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    names = [f"many-{index}" for index in range(count)]
    for name in names:
        volume = f"pv-{workloads.namespace}-{name}"
        workloads.volumes.append(volume)
        client.create("persistentvolumes", {"metadata": {"name": volume}, "spec": {
            **spec, "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": workloads.namespace, "name": name},
            "csi": {"driver": driver, "volumeHandle": volume}}})
        client.create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": {
            **spec, "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}}, workloads.namespace)
    wait_for(f"{count} claims are bound", lambda: sum(
        claim["status"].get("phase") == "Bound" for claim in client.list("persistentvolumeclaims", workloads.namespace)
        if claim["metadata"]["name"] in names) == count, 300)
    workloads.pod("many", node=node, pod_spec={"volumes": [
        {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]})


def read_one_by_one(engine, workloads):
    """Without the pod of many volumes the few of the pod that is waited for are read one by one, when it changes."""
    client, space = workloads.client, workloads.namespace
    client.delete("pods", "many", space, grace=0)
    wait_for("the pod of many volumes is gone", lambda: not client.find("pods", "many", space))
    client.patch("pods", "late-0", {"metadata": {"annotations": {"changed": "now"}}}, space)
    for resource in ("persistentvolumes", "volumeattachments"):
        wait_for(f"{resource} are read one by one", lambda: engine.requests(resource=resource, verb="get"), 30)


def policies_that_bind(bindings: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "moonfence-policies", "namespace": NAMESPACE},
            "data": {"moonfence.yaml": f"api: 1\nbindings: {bindings}\n"}}


@pytest.fixture
def start_replica(cluster, shipped, image, start_engine):
    """start_replica(overlay, node, config) -> a running Replica, configured by this text, or as the overlay says."""
    start_engine.accounts["shipped"] = ShippedAccount(cluster, NAMESPACE, "moonfence")

    def start(overlay: str, node: str, config: str = "", **more) -> Replica:
        about = one(manifest(overlay), "ConfigMap", "moonfence-config")
        shipped.apply([{**about, "data": {"config.yaml": config}} if config else about])
        return start_engine(made_by=Replica, account="shipped", image=image, overlay=overlay, node=node, **more)
    yield start
    shipped.apply([one(manifest("observe"), "ConfigMap", "moonfence-config"), policies_that_bind("[]")])


@pytest.fixture
def failover(cluster, shipped, workloads, make_nodes, start_replica):
    """failover(mode) -> (engine, node, pods): a replica of the image that has judged the pods of a failed node, by a policy that needs
    everything: a StatefulSet's with a volume, a Deployment's and a Job's. Beside them are one that the policy waits for, and
    one of nobody's with many volumes. `more` are lines of its configuration, `options`
    of its verdict; `attach_delay` is how long the storage takes over volumes from then on."""
    def make(mode: str, more: str = "", options: str = "", failure: str = "silent", attach_delay: float = 0) -> tuple:
        (node,) = make_nodes(1)
        workloads.create_driver()
        workloads.stateful_set("db", volume=True, toleration_seconds=600)
        workloads.deployment("web", toleration_seconds=600)
        workloads.stateful_set("late", volume=True, toleration_seconds=600)
        workloads.client.request("POST", JOBS.format(workloads.namespace), {
            "metadata": {"name": "job"}, "spec": {"template": {
                "metadata": {"labels": {"app": "job"}}, "spec": {
                    "restartPolicy": "Never", "nodeSelector": workloads.node_labels, "containers": [
                        {"name": "main", "image": "example.com/image:1"}]}}}})
        pods = [workloads.wait_all_running(app, 1)[0] for app in ("db", "web", "job")]
        wait_for("its volume is published", lambda: workloads.attachment("data-db-0", node))
        workloads.wait_all_running("late", 1)
        hold_many(workloads, node)
        home, _ = make_nodes(2)

        config = one(manifest("observe"), "ConfigMap", "moonfence-config")["data"]["config.yaml"]
        declared = config.replace("fencingDrivers: []", f"fencingDrivers: [{workloads.driver}]")
        assert declared != config and "fencingDrivers" in config
        policies = PolicyMap(cluster.client, NAMESPACE)
        text = policy_text("every", 'pod.labels.app == "late" and fence.wait("a test says so", 600) or '
                                    f'fence.delete_pod_and_attachments("a test says so"{options})',
                           more='needs = { "volumes", "root_owner", "siblings" },')
        bindings = BINDINGS.format(workloads.namespace)
        for resource, name in (("leases", "moonfence"), ("configmaps", STATUS), ("configmaps", LAST_GOOD)):
            cluster.client.delete(resource, name, NAMESPACE, missing_ok=True)  # as before the first start
        policies.write(data={"every.lua": text, "moonfence.yaml": bindings})
        shipped.apply([{"apiVersion": "v1", "kind": "ConfigMap", "data": {"record.json": json.dumps(OLD_RECORD)}, "metadata": {
            "name": "moonfence-incident-old", "namespace": NAMESPACE, "labels": {"moonfence.io/incident": "closed"}}}])
        engine = start_replica("observe" if mode == "observe" else "enforce", home, declared + more)
        policies.wait_state("every", "Observe" if mode == "observe" else "Active")
        # what is told of an object again and again is one event that is patched: before the node fails, and after it
        reject_twice(policies, bindings, "return")
        wait_for("the rejection is told again", lambda: repeated(engine, "PolicyRejected") == 1, 10)
        wait_for("the old record is removed", lambda: not cluster.client.find(
            "configmaps", "moonfence-incident-old", NAMESPACE), 10)
        cluster.hollow.attacher(workloads.driver, attach_delay=attach_delay)
        cluster.hollow.fail(node, failure)
        wait_for("all three are judged", lambda: judged(engine) >= {pod["metadata"]["uid"] for pod in pods}, 60)
        reject_twice(policies, bindings, "return policy")
        wait_for("the other rejection is told again", lambda: repeated(engine, "PolicyRejected") == 2, 10)
        return engine, node, pods
    yield make
    cluster.client.delete("csidrivers", unattached(workloads), missing_ok=True)
    cluster.client.delete("configmaps", "moonfence-policies", NAMESPACE, missing_ok=True)


def judged(engine) -> set:
    return {r["pod_uid"] for r in engine.records() if r["kind"] == "verdict" and r["reason"].startswith("policy_deletes")}


def reject_twice(policies, bindings: str, broken: str):
    """Two edits with the same fault."""
    policies.edit(moonfence_yaml=bindings + OTHER)
    for text in (broken, broken + "  -- in the same way"):
        policies.wait_observed(policies.edit(other_lua=text))


def repeated(engine, reason: str) -> int:
    """How many events of this reason were written, and patched when the same was to be told again."""
    events = engine.requests(resource="events")
    # what is refused has no body in the log
    made = {entry.body["metadata"]["name"] for entry in events
            if entry.verb == "create" and entry.body and entry.body["reason"] == reason}
    return len({entry.name for entry in events if entry.verb == "patch" and entry.name in made})


def check_rights(engine, shipped, roles: list):
    """It was refused nothing; and whichever verb is taken out of its roles, the API server refuses it something that
    it has done here."""
    engine.stop()  # which sends what events wait, gives the Lease back, and ends the watches, which the log then has
    requests = engine.requests()
    assert [entry for entry in requests if entry.status == 403] == []
    needless = {right for right in rights(roles) if not shipped.needed_without(roles, right, requests)}
    assert needless == set()


def test_observing_works_with_its_roles_and_needs_each_of_their_verbs(shipped, failover, workloads):
    engine, _, pods = failover("observe")
    wait_for("it refuses itself all three", lambda: metric(
        engine, "moonfence_guard_refusals_total", reason="mode_observes") >= 3, 30)
    read_one_by_one(engine, workloads)
    check_rights(engine, shipped, manifest("observe"))
    assert [entry.name for entry in engine.deletes()] == ["moonfence-incident-old"] and len(judged(engine)) == 3


def test_enforcing_works_with_its_roles_and_needs_each_of_their_verbs(enforcing, failover, workloads):
    # the database would follow when Kubernetes has noticed that its volume is free: at once, or within a minute
    engine, node, pods = failover("enforce", attach_delay=120)
    for app in ("web", "job"):
        workloads.wait_all_running(app, 1, not_on=node)
    wait_for("the attachment is deleted", lambda: engine.deletes(resource="volumeattachments", status=200), 30)
    assert {entry.uid_precondition for entry in engine.deletes(resource="pods")} == {
        pod["metadata"]["uid"] for pod in pods}
    workloads.client.patch("statefulsets", "db", {"spec": {"replicas": 0}}, workloads.namespace)
    wait_for("nobody awaits the database any more", lambda: sum(metric(
        engine, "moonfence_replacements_total", reason=f"replacement_{how}") for how in ("ready", "not_needed")) == 3, 60)
    read_one_by_one(engine, workloads)
    check_rights(engine, enforcing, manifest("enforce"))


def test_tainting_works_with_its_role_and_needs_each_of_its_verbs(cluster, enforcing, grant, failover):
    grant("taint")
    engine, node, _ = failover("enforce", "quarantine: always\n", failure="notready")

    def is_ours() -> bool:
        return ("moonfence.io/fenced", "NoSchedule") in taints(cluster.client.get("nodes", node))
    assert is_ours()
    wait_for("the attachment is deleted", lambda: engine.deletes(resource="volumeattachments", status=200), 30)
    cluster.hollow.heal(node, reboot=True)
    wait_for("it is handed back", lambda: not is_ours(), 90)
    check_rights(engine, enforcing, rights_of("taint"))


def test_asking_kubelets_is_all_that_the_right_to_it_is_good_for(cluster, enforcing, token, make_nodes):
    """RBAC lets whoever may ask a kubelet anything ask it everything, commands in containers included; the admission
    policy beside the right does not. No kubelet answers here: what is let through fails behind the API server."""
    (node,) = make_nodes(1)
    added = [*rights_of("kubelet"), *objects(DEPLOY / "rights" / "kubelet" / "admission.yaml")]
    assert [each["kind"] for each in added] == ["ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy",
                                                "ValidatingAdmissionPolicyBinding"]
    proxy = f"/api/v1/nodes/{node}/proxy"

    def says(path: str, method: str = "GET") -> str:
        try:
            token.request(method, path)
        except ApiError as error:
            return error.message
        return "done"
    enforcing.apply(added)
    try:
        wait_for("it is allowed, and held", lambda: "pods and metrics only" in says(f"{proxy}/healthz"), 30)
        for path in ("/pods", "/runningpods/", "/metrics"):
            assert "forbidden" not in says(proxy + path) and "denied" not in says(proxy + path), path
        for path in ("", "/", "/exec/db/web-0/main?command=sh&output=1", "/run/db/web-0/main", "/attach/db/web-0/main",
                     "/portForward/db/web-0", "/containerLogs/db/web-0/main", "/logs/", "/configz", "/checkpoint/a/b/c",
                     "/pods/", "/pods/../exec/a/b/c", "/pods%2F..%2Fexec/a/b/c", "/metrics/cadvisor", "/runningpods",
                     "/PODS"):
            assert "pods and metrics only" in says(proxy + path), path
        for name in (f"{node}:9100", f"https:{node}:10250", f"http:{node}:"):
            assert "at their own port only" in says(f"/api/v1/nodes/{name}/proxy/pods"), name
        for method in ("POST", "PUT", "DELETE"):
            assert "cannot" in says(f"{proxy}/pods", method), method
    finally:
        enforcing.remove(added)


def test_releasing_works_with_its_roles_and_needs_each_of_their_verbs(cluster, enforcing, grant, failover, workloads):
    grant("release")
    # the control plane of the tests elects nobody
    with RenewedLease(cluster.client, "kube-system", "kube-controller-manager"):
        engine, node, _ = failover("enforce", "release: on\n", options=", { release = true }")
        wait_for("the volume is released", lambda: "release_acknowledged" in {
            record["reason"] for record in engine.records() if record["kind"] == "outcome"}, 30)
        workloads.wait_running("db-0", not_on=node, unaided=True)
    check_rights(engine, enforcing, rights_of("release"))


def test_the_shipped_bindings_are_accepted(cluster, shipped, make_nodes, start_replica):
    (home,) = make_nodes(1)
    policies = PolicyMap(cluster.client, NAMESPACE)
    shipped.apply([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "moonfence-storageos", "namespace": NAMESPACE},
                    "data": {key: base64.b64encode(b"a test").decode() for key in ("username", "password")}}])
    for name in ("noobaa", "longhorn", "storageos", "iomesh"):
        engine = start_replica(name if name in OBSERVING else "observe", home)
        shipped.apply(objects(DEPLOY / "policies" / f"{name}.yaml"))
        policies.wait_state(name, "Observe")
        engine.stop()
        assert engine.requests(status=403) == []


def unlocked(spec: dict):
    spec["containers"][0]["securityContext"]["readOnlyRootFilesystem"] = False


def of_root(spec: dict):
    spec["securityContext"]["runAsUser"] = 0


def privileged(spec: dict):
    spec["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = True


@pytest.mark.parametrize("change, told", [
    (unlocked, "/'\\] may be written"), (of_root, "its user is 0"), (privileged, "its privileges: .*CapBnd")])
def test_a_replica_that_may_more_than_it_should_is_noticed(make_nodes, start_replica, change, told):
    replica = start_replica("observe", *make_nodes(1), change=change, ready=False)
    with pytest.raises(AssertionError, match=told):
        replica.wait_ready()


# --- as docs/install.md says

def documented_overlay(tmp_path):
    """deploy/ with a folder of one's own, as the page shows it."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    mine = tmp_path / "deploy" / "mine"
    mine.mkdir()
    for block in BLOCK.finditer((REPO / "docs" / "install.md").read_text()):
        (mine / block["name"]).write_text(block["text"])
    return mine


def test_a_folder_of_ones_own_changes_what_it_says_and_nothing_else(tmp_path):
    mine = documented_overlay(tmp_path)
    found, shipped = built(mine), manifest("enforce")
    image = one(found, "Deployment")["spec"]["template"]["spec"]["containers"][0].pop("image")
    assert image.startswith("registry.example.com/moonfence@sha256:")
    assert "mode: enforce" in one(found, "ConfigMap", "moonfence-policies")["data"]["moonfence.yaml"]
    config = one(found, "ConfigMap", "moonfence-config")["data"]["config.yaml"]
    assert "[driver.longhorn.io]" in config and "config.yaml" not in run_with(binary(), config, tmp_path)
    one(shipped, "Deployment")["spec"]["template"]["spec"]["containers"][0].pop("image")

    def rest(objects_of):
        return sorted((each for each in objects_of if each["kind"] != "ConfigMap"), key=str)
    assert rest(found) == rest(shipped)


def test_configuration_is_what_an_upgrade_can_leave_alone():
    labelled = [each["metadata"]["name"] for each in manifest("enforce")
                if each["metadata"]["labels"].get("app.kubernetes.io/component") == "configuration"]
    assert sorted(labelled) == ["moonfence-config"]


def test_no_overlay_has_the_policies():
    """Applied after the policies were written, it would take them out of force."""
    for path in (DEPLOY / "install.yaml", *sorted((DEPLOY / "flat").glob("*.yaml"))):
        names = [each["metadata"]["name"] for each in objects(path)]
        assert "moonfence-policies" not in names and "moonfence" in names, path


def test_no_kustomization_makes_the_policies():
    """The example did: applied again, it took `mode: off` away and put every binding back to observe."""
    for path in DEPLOY.rglob("kustomization.yaml"):
        made = [each["name"] for each in yaml.safe_load(path.read_text()).get("configMapGenerator", [])]
        assert "moonfence-policies" not in made, path


def test_the_manifests_name_no_user():
    """OpenShift refuses ids outside of the namespace's range."""
    for path in (DEPLOY / "install.yaml", *sorted((DEPLOY / "flat").glob("*.yaml"))):
        spec = one(objects(path), "Deployment")["spec"]["template"]["spec"]
        for context in (spec["securityContext"], spec["containers"][0]["securityContext"]):
            assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} & set(context), path
        assert spec["securityContext"]["runAsNonRoot"] is True


def test_the_ways_out_are_those_of_the_documentation():
    page = " ".join((REPO / "docs" / "install.md").read_text().split())
    (listed,) = re.findall(r"allows connections to the ports ([0-9, and]+) only", page)
    assert {("TCP", int(port)) for port in re.findall(r"\d+", listed)} == ways_out("observe")


def test_the_image_of_the_manifests_is_of_this_version():
    version = re.search(r"project\(moonfence VERSION (\S+)", (REPO / "CMakeLists.txt").read_text())[1]
    image = one(manifest("enforce"), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"moonfence:{version}"
