"""moonfence where OpenShift's SCC `restricted-v2` decides, by its stand-in (openshift.py): what is shipped comes in, gets a user of the
namespace's range, and becomes Ready. What the SCC refuses, the stand-in refuses."""

import copy
import subprocess

import pytest

from .cluster import running_cluster
from .helm import Helm
from .installation import DEPLOY, NAMESPACE, kubectl, one
from .kube import wait_for
from .openshift import LEVEL, UID, RestrictedV2, flags, ids_of
from .test_restricted import FLAT, FOLDERS, MAIN, POD, put, template_of
from .workloads import is_ready

GIVEN = ({UID}, UID, LEVEL)
LABEL = "app.kubernetes.io/name=moonfence"


@pytest.fixture(scope="module")
def openshift():
    with running_cluster("e2e", 8, apiserver_flags=flags()) as running:
        running.hollow.add(["worker-1", "worker-2"])
        yield running


@pytest.fixture
def scc(openshift):
    """scc(namespace): in force there."""
    made = []

    def enforce(namespace: str = NAMESPACE) -> RestrictedV2:
        made.append(RestrictedV2(openshift, namespace))
        made[-1].enforce()
        return made[-1]
    yield enforce
    for each in made:
        each.remove()
        wait_for("its namespace is gone", lambda: not openshift.client.find("namespaces", each.namespace), 60)


# Each breaks a rule of the SCC: (how, what the refusal names). The first three are what many charts do, and what OpenShift refuses them for.
REFUSED = [
    (put(POD + "runAsUser", 65532), "runAsUser"), (put(MAIN + "runAsUser", 65532), "runAsUser"), (put(POD + "fsGroup", 65532), "fsGroup"),
    (put(MAIN + "runAsUser", 0), "runAsUser"), (put(POD + "runAsUser", UID + 10000), "runAsUser"),
    (put(POD + "seLinuxOptions", {"level": "s0:c1,c2"}), "seLinuxOptions"), (put(POD + "seccompProfile", None), "seccompProfile"),
    (put(MAIN + "allowPrivilegeEscalation", True), "allowPrivilegeEscalation"), (put(MAIN + "capabilities/add", ["SYS_TIME"]), "capabilities"),
    (put(MAIN + "capabilities/drop", ["NET_RAW"]), "capabilities"), (put("spec/hostNetwork", True), "the host's"),
    (put("spec/containers/0/ports/0/hostPort", 8080), "the host's"),
    (put("spec/volumes/9", {"name": "host", "hostPath": {"path": "/"}}), "volumes"),
]


def test_the_stand_in_refuses_what_the_scc_refuses_and_sets_what_it_sets(scc):
    scc = scc("elsewhere")
    template = template_of(DEPLOY / "install.yaml")
    template["spec"].pop("serviceAccountName")  # that of the namespace
    template["spec"].pop("priorityClassName", None)
    assert ids_of(scc.dry_run(template)) == GIVEN
    for change, named in REFUSED:
        broken = copy.deepcopy(template)
        change(broken)
        assert f"restricted-v2: {named}" in scc.refusal(broken), named
    own = copy.deepcopy(template)
    put(POD + "runAsUser", UID + 7)(own)
    assert ids_of(scc.dry_run(own))[0] == {UID + 7}, "a pod may name one of the range"


def wait_runs(cluster, namespace: str):
    """Both replicas are Ready, with what the SCC gave them, and no user or group but that."""
    def ready():
        found = [pod for pod in cluster.client.list("pods", namespace, labels=LABEL) if is_ready(pod)]
        return found if len(found) == 2 else None
    try:
        pods = wait_for("two replicas are Ready", ready, 60)
    except TimeoutError as error:
        events = [each["message"] for each in cluster.client.list("events", namespace) if each["type"] == "Warning"]
        raise TimeoutError(f"{error}\n" + "\n".join(events)) from None
    for pod in pods:
        assert ids_of(pod) == GIVEN
        assert "runAsGroup" not in pod["spec"]["securityContext"] and pod["spec"]["securityContext"]["runAsNonRoot"]
        (container,) = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] and "runAsGroup" not in container["securityContext"]


@pytest.mark.parametrize("file", ["install.yaml", "flat/enforce.yaml"])
def test_the_manifests_come_in(openshift, scc, file):
    scc()
    command = [kubectl(), "--kubeconfig", openshift.control_plane.kubeconfig]
    subprocess.run([*command, "apply", "-f", DEPLOY / file], check=True, stdout=subprocess.PIPE)
    try:
        wait_runs(openshift, NAMESPACE)
    finally:
        subprocess.run([*command, "delete", "--wait=false", "-f", DEPLOY / file], check=True, stdout=subprocess.PIPE)


@pytest.mark.parametrize("place", [*FLAT, *FOLDERS], ids=lambda place: str(place.relative_to(DEPLOY)))
def test_no_shipped_pod_names_a_user_or_a_group(place):
    """So the SCC can give it its own."""
    for about in [template_of(place)["spec"]["securityContext"], *(
            each["securityContext"] for each in template_of(place)["spec"]["containers"])]:
        assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups", "seLinuxOptions"} & set(about)


@pytest.mark.parametrize("values", [
    {}, {"mode": "enforce", "credentials": [{"name": "vendor", "secretName": "vendor"}], "configFiles": {"ca.crt": "none"}}])
def test_the_chart_comes_in(openshift, scc, tmp_path, values):
    scc("fencing")
    openshift.client.create("secrets", {"metadata": {"name": "vendor"}, "stringData": {"password": "none"}}, "fencing")
    helm = Helm(tmp_path / "helm", openshift.control_plane.kubeconfig, "fencing")
    try:
        helm.on_release("install", values)
        wait_runs(openshift, "fencing")
        assert one(helm.template(values), "Deployment")["spec"]["replicas"] == 2
    finally:
        helm("uninstall", helm.release, "--namespace", "fencing", "--ignore-not-found")
