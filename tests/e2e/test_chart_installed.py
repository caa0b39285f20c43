"""The Helm chart on a real API server: what an install, an upgrade, a rollback and an uninstall leave, and what they refuse."""

import json
import subprocess

import pytest
import yaml

from .helm import CHART, Helm, HelmError
from .installation import DEPLOY, NAMESPACE, Installation, differences, kubectl, objects, one
from .kube import ApiError, wait_for
from .test_removal import ours

POLICIES = "moonfence-policies"
STOP = {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}, "data": {"mode": "off"}}  # as README.md says
BINDINGS = [{"policy": "noobaa", "namespaces": ["noobaa"]}]
ENFORCE = {"mode": "enforce", "config": {"quarantine": "always", "protectedNamespaces": ["gold"]}}
# of the admission policies (deploy/chart/README.md, Uninstalling)
KEPT = {("admissionregistration.k8s.io", f"validatingadmissionpolic{end}", "", "moonfence-leader") for end in ("ies", "ybindings")}


@pytest.fixture
def helm_in(cluster, tmp_path):
    """helm_in(namespace): Helm as an administrator of the cluster, in which nothing of moonfence is; and so it is left."""
    made = []

    def make(namespace: str, release: str = "m") -> Helm:
        made.append(Helm(tmp_path / f"helm-{len(made)}", cluster.control_plane.kubeconfig, namespace, release))
        return made[-1]
    yield make
    for helm in made:
        remove_everything(cluster, helm)


@pytest.fixture
def helm(cluster, helm_in):
    """In the namespace of the manifests."""
    wait_for("earlier tests have cleaned up", lambda: not cluster.client.find("namespaces", NAMESPACE), 60)
    return helm_in(NAMESPACE)


def remove_everything(cluster, helm: Helm):
    """Whatever a test left, on whichever way it ended."""
    try:
        helm("uninstall", helm.release, "--namespace", helm.namespace, "--ignore-not-found")
    finally:
        installation = Installation(cluster)
        installation.remove([*objects(DEPLOY / "flat" / "enforce.yaml"), *objects(DEPLOY / "rights" / "taint" / "rights.yaml")])
        cluster.client.delete("namespaces", helm.namespace, missing_ok=True)


class Installed:
    """What the API server has of a rendering."""

    def __init__(self, cluster):
        self.client, self.paths = cluster.client, Installation(cluster)

    def check(self, rendered: list):
        for each in rendered:
            assert differences(each, self.client.request("GET", self.paths.path(each))) == [], each["metadata"]["name"]

    def there(self, rendered: list) -> set:
        """Which of these objects are there, by kind and name."""
        found = set()
        for each in rendered:
            try:
                self.client.request("GET", self.paths.path(each))
                found.add((each["kind"], each["metadata"]["name"]))
            except ApiError as error:
                assert error.status == 404
        return found


@pytest.fixture
def installed(cluster) -> Installed:
    return Installed(cluster)


def releases(client) -> set:
    """(namespace, name) of each. Helm writes down a release before it makes or changes any object of it."""
    return {(each["metadata"]["namespace"], each["metadata"]["labels"]["name"]) for each in client.list("secrets", labels="owner=helm")}


def names(rendered: list) -> set:
    return {(each["kind"], each["metadata"]["name"]) for each in rendered}


def bytes_of(client) -> str:
    return json.dumps(client.get("configmaps", POLICIES, NAMESPACE))


def test_it_installs_upgrades_rolls_back_and_goes_and_never_touches_policies_of_somebody_else(cluster, helm, installed):
    client, before = cluster.client, ours(cluster.client)
    observing, enforcing = helm.template({}), helm.template(ENFORCE)
    more = [each for each in enforcing if (each["kind"], each["metadata"]["name"]) not in names(observing)]
    leader = {("ValidatingAdmissionPolicy", "moonfence-leader"), ("ValidatingAdmissionPolicyBinding", "moonfence-leader")}

    told = helm.on_release("install", {}, "--create-namespace")
    assert "mode observe" in told and "Nothing is fenced before a policy is bound" in told and "pod-security.kubernetes.io/enforce" in told
    installed.check(observing)
    assert installed.there(more) == set()
    client.create("configmaps", {"metadata": {"name": POLICIES}, "data": {"moonfence.yaml": "api: 1\nbindings: []\n"}}, NAMESPACE)
    kept = bytes_of(client)

    told = helm.on_release("upgrade", ENFORCE)
    assert "mode enforce" in told and "ConfigMap moonfence-policies, which is not of these values" in told
    installed.check(enforcing)
    deletions = one(enforcing, "ValidatingAdmissionPolicy", "moonfence-deletions")
    assert "['gold']" in json.dumps(deletions)
    with pytest.raises(HelmError, match="ConfigMap moonfence-policies is there, and is not of this release"):
        helm.on_release("upgrade", {**ENFORCE, "policies": {"bindings": BINDINGS}}, "--take-ownership")

    helm("rollback", "m", 1, "--namespace", NAMESPACE)
    installed.check(observing)
    assert installed.there(more) == leader, "no right to delete is left"

    helm("uninstall", "m", "--namespace", NAMESPACE)
    left = {("", "namespaces", "", NAMESPACE), ("", "configmaps", NAMESPACE, POLICIES), ("", "configmaps", NAMESPACE, "kube-root-ca.crt"),
            ("", "serviceaccounts", NAMESPACE, "default"), *KEPT}
    wait_for("nothing else is left", lambda: ours(client) - before == left, 60)
    assert bytes_of(client) == kept
    with pytest.raises(HelmError, match="moonfence-leader was left by release m in namespace moonfence"):
        helm("install", "other", CHART, "--namespace", "chart-other")
    helm.on_release("install", ENFORCE)
    installed.check(enforcing)
    assert bytes_of(client) == kept


def test_policies_of_the_release_follow_the_values_and_the_word_that_stops_them_is_peoples(cluster, helm_in):
    client, values, helm = cluster.client, {"policies": {"bindings": BINDINGS}}, helm_in("chart-policies")

    def data() -> dict:
        return client.get("configmaps", POLICIES, helm.namespace)["data"]
    helm.on_release("install", {}, "--create-namespace")
    helm.on_release("upgrade", values)
    first = data()
    assert set(first) == {"moonfence.yaml"}
    client.patch("configmaps", POLICIES, {"data": {"mode": "off"}}, helm.namespace)
    helm.on_release("upgrade", {"policies": {"bindings": [{**BINDINGS[0], "mode": "enforce"}], "files": {"a.lua": "--"}}})
    assert set(data()) == {"moonfence.yaml", "a.lua", "mode"} and data()["moonfence.yaml"] != first["moonfence.yaml"]
    helm("rollback", "m", "--namespace", helm.namespace)
    assert data() == {**first, "mode": "off"}
    with pytest.raises(HelmError, match="these values have none: they would be deleted"):
        helm.on_release("upgrade", {"replicas": 2})  # without any value Helm takes those of before
    client.patch("configmaps", POLICIES, {"data": {"moonfence.yaml": "api: 1\nbindings: []\n"}}, helm.namespace)
    with pytest.raises(HelmError, match="conflict"):  # somebody's edit is not lost in silence
        helm.on_release("upgrade", {"policies": {"bindings": [{**BINDINGS[0], "mode": "off"}]}})
    with pytest.raises(HelmError, match="has the key mode, by which somebody stopped moonfence"):
        helm.on_release("upgrade", {"reset": True})
    client.patch("configmaps", POLICIES, STOP, helm.namespace)
    helm("rollback", "m", 1, "--namespace", helm.namespace)  # which has no bindings
    assert data()["mode"] == "off", "Helm keeps the word that stops everything"
    with pytest.raises(HelmError, match="was left to somebody else"):
        helm.on_release("upgrade", values)
    helm("rollback", "m", 2, "--namespace", helm.namespace, "--force-conflicts")
    assert data() == {**first, "mode": "off"}, "and so it is when the bindings are back"
    client.patch("configmaps", POLICIES, {"metadata": {"annotations": {"helm.sh/resource-policy": None}}, "data": {"mode": None}}, helm.namespace)
    helm.on_release("upgrade", {"reset": True})
    assert not client.find("configmaps", POLICIES, helm.namespace)


def test_a_configuration_is_not_lost_by_a_forgotten_file_of_values(cluster, helm_in):
    helm = helm_in("chart-forgets")
    helm.on_release("install", {"config": {"protectedNamespaces": ["gold"]}}, "--create-namespace")
    with pytest.raises(HelmError, match="these values have none: it would become the default"):
        helm.on_release("upgrade", {"replicas": 1})
    helm.on_release("upgrade", {"replicas": 1, "reset": True})


def test_policies_that_somebody_made_anew_are_not_deleted_as_the_releases(cluster, helm_in):
    client, helm = cluster.client, helm_in("chart-anew")
    helm.on_release("install", {"policies": {"bindings": BINDINGS}}, "--create-namespace")
    client.delete("configmaps", POLICIES, helm.namespace)
    client.create("configmaps", {"metadata": {"name": POLICIES}, "data": {"moonfence.yaml": "api: 1\nbindings: []\n"}}, helm.namespace)
    with pytest.raises(HelmError, match="somebody made ConfigMap moonfence-policies anew"):
        helm.on_release("upgrade", {"replicas": 2})
    client.patch("configmaps", POLICIES, {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}, helm.namespace)
    kept = client.get("configmaps", POLICIES, helm.namespace)
    helm.on_release("upgrade", {"replicas": 2})
    with pytest.raises(HelmError, match="conflict"):
        helm("rollback", "m", 1, "--namespace", helm.namespace)
    helm("uninstall", "m", "--namespace", helm.namespace)
    assert client.get("configmaps", POLICIES, helm.namespace) == kept


def test_a_second_moonfence_is_refused_before_anything_is_changed(cluster, helm_in):
    helm, other = helm_in("chart-first"), helm_in("chart-second", "second")
    helm.on_release("install", {}, "--create-namespace")
    for namespace in (helm.namespace, other.namespace):  # also beside it
        with pytest.raises(HelmError, match="belongs to release m in namespace chart-first. There is one moonfence in a cluster"):
            other.on_release("install", {"takeOver": True}, "--take-ownership", "--create-namespace", "--namespace", namespace)
    assert releases(cluster.client) == {("chart-first", "m")}


@pytest.mark.slow  # a second test in the namespace of the manifests; the one above has the other way
def test_manifests_are_refused_or_taken_over_in_their_namespace_alone(cluster, helm, helm_in, installed):
    subprocess.run([kubectl(), "--kubeconfig", cluster.control_plane.kubeconfig, "apply", "-f", DEPLOY / "flat" / "enforce.yaml"],
                   check=True, stdout=subprocess.PIPE)
    client = cluster.client
    account = client.get("serviceaccounts", "moonfence", NAMESPACE)["metadata"]["uid"]
    with pytest.raises(HelmError, match="is there already, and no release of Helm has it: moonfence was installed by other means"):
        helm.on_release("install", ENFORCE)
    with pytest.raises(HelmError, match="is of the moonfence in namespace moonfence"):
        helm_in("chart-other").on_release("install", {**ENFORCE, "takeOver": True}, "--take-ownership", "--force-conflicts")
    assert releases(client) == set()
    take_over = {**ENFORCE, "takeOver": True}
    with pytest.raises(HelmError, match="has another configuration than these values, and would be overwritten"):
        helm.on_release("install", take_over, "--take-ownership", "--force-conflicts")
    with pytest.raises(HelmError, match="moonfence-enforce is there and gives moonfence a right that these values do not ask for"):
        helm.on_release("install", {"takeOver": True}, "--take-ownership", "--force-conflicts")
    configured = yaml.safe_dump({"api": 1, "fencingDrivers": [], **ENFORCE["config"]})
    client.patch("configmaps", "moonfence-config", {"data": {"config.yaml": configured}}, NAMESPACE)
    helm.on_release("install", take_over, "--take-ownership", "--force-conflicts")
    installed.check(helm.template(ENFORCE))
    assert client.get("serviceaccounts", "moonfence", NAMESPACE)["metadata"]["uid"] == account


@pytest.mark.parametrize("values, told", [
    ({"monitoring": {"alerts": {"enabled": True}}}, "this cluster has no kind PrometheusRule"),
    ({"config": {"fencers": [{"fencer": "fence-agents-remediation"}], "allowedReads": [
        "v1/nodes", "coordination.k8s.io/v1/leases", "fence-agents-remediation.medik8s.io/v1alpha1/fenceagentsremediations"]}}, "names namespace fence-agents-remediation, which is not there"),
    ({"mode": "enforce", "config": {"release": "on", "attacherLeases": {"a.example.com": "storage/leader"}}}, "names namespace storage, which is not there"),
])
def test_what_the_cluster_lacks_is_refused_before_anything_is_changed(cluster, helm_in, values, told):
    with pytest.raises(HelmError, match=told):
        helm_in("chart-lacks").on_release("install", values)
    assert releases(cluster.client) == set()
