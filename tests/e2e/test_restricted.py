"""Every pod that is shipped keeps to the pod security standard `restricted`, which the shipped namespace demands: the API
server admits it there, and refuses it as soon as it breaks one of the rules."""

import copy

import pytest
import yaml

from .installation import ACCOUNT, DEPLOY, built, objects, one
from .kube import ApiError, wait_for

FLAT = [DEPLOY / "install.yaml", *sorted((DEPLOY / "flat").glob("*.yaml"))]
FOLDERS = [path.parent for path in sorted(DEPLOY.glob("overlays/*/kustomization.yaml"))] + [DEPLOY / "examples" / "basalt"]
LABELS = one(objects(DEPLOY / "base" / "namespace.yaml"), "Namespace")["metadata"]["labels"]


@pytest.fixture(scope="module")
def refusal(cluster):
    """refusal(template) -> why a namespace like the shipped one does not admit a pod of it; "" when it does."""
    client, space = cluster.client, "restricted"
    client.create("namespaces", {"metadata": {"name": space, "labels": LABELS}})
    client.create("serviceaccounts", {"metadata": {"name": ACCOUNT}}, space)

    def ask(template: dict) -> str:
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            **(template.get("metadata") or {}), "name": "pod", "namespace": space}}
        try:
            client.request("POST", f"/api/v1/namespaces/{space}/pods", pod, {"dryRun": "All"})
        except ApiError as error:
            return error.message
        return ""
    wait_for("the account is known", lambda: "serviceaccount" not in ask(template_of(DEPLOY / "install.yaml")))
    yield ask
    client.delete("namespaces", space)


def templates(found: list) -> list:
    """Of whatever runs pods."""
    return [each["spec"]["template"] for each in found if "template" in (each.get("spec") or {})]


def template_of(place) -> dict:
    (template,) = templates(objects(place) if place.is_file() else built(place))
    return template


@pytest.mark.parametrize("place", [*FLAT, *FOLDERS], ids=lambda place: str(place.relative_to(DEPLOY)))
def test_every_shipped_pod_is_restricted(refusal, place):
    assert refusal(template_of(place)) == ""
    labels = one(objects(place) if place.is_file() else built(place), "Namespace")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


def test_nothing_else_that_is_shipped_runs_pods():
    inspected = {DEPLOY / "base" / "deployment.yaml", *FLAT}  # and patches, which the folders have in them
    templates = set((DEPLOY / "chart" / "templates").iterdir())  # test_chart.py has what they render
    for path in sorted(set(DEPLOY.rglob("*.yaml")) - inspected - templates):
        kinds = {each.get("kind") for each in yaml.safe_load_all(path.read_text()) if isinstance(each, dict)}
        assert not kinds & {"Pod", "DaemonSet", "StatefulSet", "ReplicaSet", "Job", "CronJob"}, path
        assert "Deployment" not in kinds or any(folder in path.parents for folder in FOLDERS), path


def put(path: str, value):
    """In the template of a pod, at `spec/hostPID`; numbers stand for places in a list, which grows when the last word is one.
    None takes a field away."""
    def change(template: dict):
        *way, last = [int(word) if word.isdigit() else word for word in path.split("/")]
        place = template
        for word in way:
            place = place[word] if isinstance(word, int) else place.setdefault(word, {})
        if value is None:
            del place[last]
        elif isinstance(place, list):
            place.append(value)
        else:
            place[last] = value
    return change


POD, MAIN = "spec/securityContext/", "spec/containers/0/securityContext/"
BARE = {"name": "more", "image": "more:1"}
# each breaks a rule of the standard
BROKEN = [
    put("spec/hostNetwork", True), put("spec/hostPID", True),
    put("spec/hostIPC", True), put("spec/containers/0/ports/0/hostPort", 8080),
    put("spec/containers/0/livenessProbe/httpGet/host", "192.0.2.1"),
    put(MAIN + "allowPrivilegeEscalation", True),
    put(MAIN + "allowPrivilegeEscalation", None),
    put(MAIN + "capabilities", None), put(MAIN + "capabilities/drop", ["NET_RAW"]),
    put(MAIN + "capabilities/add", ["NET_BIND_SERVICE", "SYS_TIME"]),
    put("spec/volumes/9", {"name": "host", "hostPath": {"path": "/"}}),
    put("spec/volumes/9", {"name": "far", "nfs": {"server": "192.0.2.1", "path": "/"}}),
    put(POD + "runAsNonRoot", False), put(POD + "runAsNonRoot", None),
    put(MAIN + "runAsNonRoot", False),
    put(POD + "runAsUser", 0), put(MAIN + "runAsUser", 0),
    put(POD + "seccompProfile", None), put(POD + "seccompProfile/type", "Unconfined"),
    put(MAIN + "seccompProfile", {"type": "Unconfined"}),
    put(MAIN + "appArmorProfile", {"type": "Unconfined"}),
    put("metadata/annotations", {"container.apparmor.security.beta.kubernetes.io/moonfence": "unconfined"}),
    put(POD + "seLinuxOptions", {"type": "spc_t"}), put(MAIN + "seLinuxOptions", {"user": "root"}),
    put(POD + "sysctls", [{"name": "kernel.msgmax", "value": "1"}]),
]


@pytest.mark.parametrize("change", BROKEN, ids=map(str, range(len(BROKEN))))
def test_a_pod_that_breaks_a_rule_is_refused(refusal, change):
    template = copy.deepcopy(template_of(DEPLOY / "install.yaml"))
    change(template)
    assert 'violates PodSecurity "restricted' in refusal(template)


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_no_container_is_overlooked(refusal, kind):
    template = copy.deepcopy(template_of(DEPLOY / "install.yaml"))
    template["spec"].setdefault(kind, []).append(BARE)
    assert 'container "more" must set' in refusal(template)
