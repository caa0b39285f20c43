"""Every pod that is shipped keeps to the pod security standard `restricted`, which the shipped namespace demands. The API
server of the tests is older than that admission, so the standard is a table here (restricted.py)."""

import copy

import pytest
import yaml

from .installation import DEPLOY, built, objects, one
from .restricted import RULES, broken_rules

FLAT = [DEPLOY / "install.yaml", *sorted((DEPLOY / "flat").glob("*.yaml"))]
FOLDERS = [path.parent for path in sorted(DEPLOY.glob("overlays/*/kustomization.yaml"))] + [DEPLOY / "examples" / "basalt"]


def templates(found: list) -> list:
    """Of whatever runs pods."""
    return [each["spec"]["template"] for each in found if "template" in (each.get("spec") or {})]


@pytest.mark.parametrize("place", [*FLAT, *FOLDERS], ids=lambda place: str(place.relative_to(DEPLOY)))
def test_every_shipped_pod_is_restricted(place):
    found = objects(place) if place.is_file() else built(place)
    (template,) = templates(found)
    assert broken_rules(template) == set()
    labels = one(found, "Namespace")["metadata"]["labels"]
    assert {labels[f"pod-security.kubernetes.io/{mode}"] for mode in ("enforce", "audit", "warn")} == {"restricted"}


def test_nothing_else_that_is_shipped_runs_pods():
    inspected = {DEPLOY / "base" / "deployment.yaml", *FLAT}  # and patches, which the folders have in them
    for path in sorted(set(DEPLOY.rglob("*.yaml")) - inspected):
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
# what breaks a rule, and which
BROKEN = [
    ("host namespaces", put("spec/hostNetwork", True)), ("host namespaces", put("spec/hostPID", True)),
    ("host namespaces", put("spec/hostIPC", True)), ("host ports", put("spec/containers/0/ports/0/hostPort", 8080)),
    ("host probes", put("spec/containers/0/livenessProbe/httpGet/host", "192.0.2.1")),
    ("host processes", put(POD + "windowsOptions", {"hostProcess": True})),
    ("host processes", put(MAIN + "windowsOptions", {"hostProcess": True})),
    ("privileged", put(MAIN + "privileged", True)),
    ("privilege escalation", put(MAIN + "allowPrivilegeEscalation", True)),
    ("privilege escalation", put(MAIN + "allowPrivilegeEscalation", None)),
    ("capabilities", put(MAIN + "capabilities", None)), ("capabilities", put(MAIN + "capabilities/drop", ["NET_RAW"])),
    ("capabilities", put(MAIN + "capabilities/add", ["NET_BIND_SERVICE", "SYS_TIME"])),
    ("volumes", put("spec/volumes/9", {"name": "host", "hostPath": {"path": "/"}})),
    ("volumes", put("spec/volumes/9", {"name": "far", "nfs": {"server": "192.0.2.1", "path": "/"}})),
    ("not root", put(POD + "runAsNonRoot", False)), ("not root", put(POD + "runAsNonRoot", None)),
    ("not root", put(MAIN + "runAsNonRoot", False)),
    ("user", put(POD + "runAsUser", 0)), ("user", put(MAIN + "runAsUser", 0)),
    ("seccomp", put(POD + "seccompProfile", None)), ("seccomp", put(POD + "seccompProfile/type", "Unconfined")),
    ("seccomp", put(MAIN + "seccompProfile", {"type": "Unconfined"})),
    ("AppArmor", put(MAIN + "appArmorProfile", {"type": "Unconfined"})),
    ("AppArmor", put("metadata/annotations", {"container.apparmor.security.beta.kubernetes.io/moonfence": "unconfined"})),
    ("SELinux", put(POD + "seLinuxOptions", {"type": "spc_t"})), ("SELinux", put(MAIN + "seLinuxOptions", {"user": "root"})),
    ("proc mount", put(MAIN + "procMount", "Unmasked")),
    ("sysctls", put(POD + "sysctls", [{"name": "kernel.msgmax", "value": "1"}])),
]


@pytest.mark.parametrize("rule, change", BROKEN, ids=[f"{rule}-{number}" for number, (rule, _) in enumerate(BROKEN)])
def test_what_breaks_a_rule_is_seen(rule, change):
    (template,) = copy.deepcopy(templates(objects(DEPLOY / "install.yaml")))
    change(template)
    assert broken_rules(template) == {rule}


@pytest.mark.parametrize("kind", ["initContainers", "containers", "ephemeralContainers"])
def test_no_container_is_overlooked(kind):
    (template,) = copy.deepcopy(templates(objects(DEPLOY / "install.yaml")))
    template["spec"].setdefault(kind, []).append(BARE)
    assert broken_rules(template) == {"privilege escalation", "capabilities"}


def test_what_the_standard_allows_is_no_fault():
    (template,) = copy.deepcopy(templates(objects(DEPLOY / "install.yaml")))
    for change in (put(MAIN + "capabilities/add", ["NET_BIND_SERVICE"]), put(POD + "seccompProfile/type", "Localhost"),
                   put("spec/volumes/9", {"name": "tmp", "emptyDir": {}}), put(MAIN + "runAsNonRoot", True),
                   put(POD + "sysctls", [{"name": "net.ipv4.tcp_syncookies", "value": "1"}])):
        change(template)
    assert broken_rules(template) == set()


def test_each_rule_has_been_broken():
    assert {rule for rule, _ in BROKEN} == set(RULES)
