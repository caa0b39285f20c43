"""The shipped manifests (deploy/) on the cluster of the tests, as they are: their namespace is `moonfence`.

    shipped = Installation(cluster)
    shipped.apply(manifest("observe"))
    engine = start_engine(account="shipped", policy=None, ...)      # as their ServiceAccount, with their roles
"""

import copy
import functools
import json
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import yaml

from cluster import programs

from .control_plane import REPO
from .engine import Account
from .kube import ApiError, wait_for, wait_for_kinds_to_go

DEPLOY = REPO / "deploy"
NAMESPACE = ACCOUNT = "moonfence"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def objects(path: Path) -> list:
    return [each for each in yaml.safe_load_all(path.read_text()) if each]


def manifest(overlay: str) -> list:
    """The objects of an overlay, from its flat file, which scripts/manifests --check compares with it."""
    return objects(DEPLOY / "install.yaml" if overlay == "observe" else DEPLOY / "flat" / f"{overlay}.yaml")


def policies_of_admission() -> list:
    """Those of the overlay `enforce`."""
    return [each for each in manifest("enforce") if each["kind"].startswith("ValidatingAdmission")]


def lease_watch() -> list:
    """A policy that judges nothing, by a Lease. As long as it is bound, an API server watches Leases for its admission policies;
    one that stopped does not begin again before it restarts (kubernetes/kubernetes#130887). So of two tests that install
    and remove moonfence on one API server the second would find all deletions refused."""
    api, about = "admissionregistration.k8s.io/v1", {"name": "lease-watch"}
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": about, "spec": {
            "paramKind": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"},
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["bindings"]}]},
            "validations": [{"expression": "true"}]}},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": about, "spec": {
            "policyName": about["name"], "validationActions": ["Audit"],
            "paramRef": {"name": "none", "namespace": "default", "parameterNotFoundAction": "Allow"}}}]


def built(folder: Path) -> list:
    """What kustomize makes of a folder."""
    done = subprocess.run([REPO / "scripts" / "manifests", "--build", folder], stdout=subprocess.PIPE, text=True, check=True)
    return list(yaml.safe_load_all(done.stdout))


def kubectl() -> Path:
    return programs.find("kubectl")["kubectl"]


def rights_of(mode: str) -> list:
    """The objects of deploy/rights/MODE."""
    return objects(DEPLOY / "rights" / mode / "rights.yaml")


def one(found: list, kind: str, name: str = "") -> dict:
    (match,) = [each for each in found if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    return match


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource. `namespace` is "" in the whole cluster."""

    namespace: str
    group: str
    resource: str
    verb: str


def rights(found: list) -> set:
    """What the roles among these objects grant."""
    roles = [each for each in found if each["kind"] in ("Role", "ClusterRole")]
    return {Right(role["metadata"].get("namespace", ""), group, resource, verb)
            for role in roles for rule in role["rules"]
            for group in rule["apiGroups"] for resource in rule["resources"] for verb in rule["verbs"]}


def without(role: dict, right: Right) -> list:
    """The rules of a role, less one right."""
    rules = []
    for rule in copy.deepcopy(role["rules"]):
        if right.group in rule["apiGroups"] and right.resource in rule["resources"] and right.verb in rule["verbs"]:
            # the other resources of the rule keep the verb
            others = [name for name in rule["resources"] if name != right.resource]
            if others:
                rules.append({**rule, "resources": others})
            rule = {**rule, "resources": [right.resource], "verbs": [v for v in rule["verbs"] if v != right.verb]}
        if rule["verbs"]:
            rules.append(rule)
    return rules


def question(entry) -> tuple:
    """What the authorizer is asked about an entry of the audit log: the same of all requests for the same."""
    return (entry.verb, entry.raw["objectRef"].get("apiGroup", ""), entry.resource, entry.subresource, entry.namespace,
            entry.name)


# how the table of docs/reference.md says where a right is for
PLACES = {"": "", "in its own namespace": NAMESPACE,
          # in their shipped place; of `attacherLeases` none is shipped
          "the Leases of `controllerLease` and `attacherLeases`": "kube-system"}


def documented_rights() -> set:
    """The table of docs/reference.md."""
    page = (REPO / "docs" / "reference.md").read_text()
    table = page.split("## What it may do in the cluster")[1].split("\n## ")[0]
    found = set()
    for line in re.findall(r"^\| (?!API group|---)(.*) \|$", table, re.M):
        where, resources, verbs, _ = (cell.strip() for cell in re.split(r" \| ", line))
        groups, place = re.fullmatch(r"(.*?)(?:, ((?:in|the) .*))?", where).groups()
        named = re.fullmatch(r"in `(.*)`", place or "")
        namespace = named[1] if named else PLACES[place or ""]
        groups = ["" if group == "core" else group for group in groups.split(", ")]
        resources = resources.split(", ")
        pairs = zip(groups, resources, strict=True) if len(groups) > 1 else [(groups[0], each) for each in resources]
        found |= {Right(namespace, group, resource, verb) for group, resource in pairs for verb in verbs.split(", ")}
    return found


class Installation:
    """Takes away what it made when the cluster is shared by other tests."""

    def __init__(self, cluster):
        self.cluster, self.client, self.made = cluster, cluster.client, []

    # --- what the server serves

    @functools.cache
    def _resources(self, api: str) -> dict:
        """{kind: its resource} of an API version."""
        found = self.client.request("GET", f"/apis/{api}" if "/" in api else f"/api/{api}")["resources"]
        return {each["kind"]: each for each in found if "/" not in each["name"]}

    def path(self, each: dict, named: bool = True) -> str:
        api, about = each["apiVersion"], each["metadata"]
        resource = self._resources(api)[each["kind"]]
        space = f"/namespaces/{about['namespace']}" if resource["namespaced"] else ""
        name = f"/{about['name']}" if named else ""
        return f"/{'apis' if '/' in api else 'api'}/{api}{space}/{resource['name']}{name}"

    # --- as kubectl does

    def dry_run(self, each: dict) -> dict:
        """The object as the server would keep it, past admission and validation."""
        return self.client.request("POST", self.path(each, named=False), each, {"dryRun": "All"})

    def apply(self, found: list):
        for each in found:
            if each["kind"] == "Namespace":
                wait_for("an earlier test's is gone", lambda: not self._is_leaving(each["metadata"]["name"]), 90)
            try:
                self.client.request("POST", self.path(each, named=False), each)
                self.made.append(each)
            except ApiError as error:
                if error.status != 409:
                    raise
                self.client.request("PATCH", self.path(each), each, content_type="application/merge-patch+json")

    def _is_leaving(self, namespace: str) -> bool:
        there = self.client.find("namespaces", namespace)
        return there is not None and "deletionTimestamp" in there["metadata"]

    def remove(self, found: list):
        for each in reversed(found):
            self.client.delete(self.path(each), "", missing_ok=True)
        wait_for_kinds_to_go(self.client, [each for each in found if each["kind"] == "CustomResourceDefinition"])
        self.made = [each for each in self.made if each not in found]

    def remove_all(self):
        self.remove([each for each in self.made])

    # --- rights

    def allowed(self, asked: tuple) -> bool:
        """Whether the authorizer lets our account do this: what question() makes of an entry of the audit log."""
        names = ("verb", "group", "resource", "subresource", "namespace", "name")
        spec = {"user": USER, "groups": ["system:serviceaccounts", "system:authenticated"],
                "resourceAttributes": dict(zip(names, asked))}
        return self.client.request("POST", REVIEWS, {"spec": spec})["status"]["allowed"]

    def granting(self, found: list, right: Right) -> dict:
        """The one role that grants it."""
        (role,) = [each for each in found if each["kind"] in ("Role", "ClusterRole") and right in rights([each])]
        return role

    def needed_without(self, found: list, right: Right, requests: list) -> list:
        """Which questions of these requests the authorizer answers with no when the right is taken out of the shipped role."""
        role = self.granting(found, right)
        mine = sorted({question(entry) for entry in requests if entry.verb == right.verb
                       and right.namespace in ("", entry.namespace)
                       and entry.raw["objectRef"].get("apiGroup", "") == right.group
                       and "/".join(filter(None, (entry.resource, entry.subresource))) == right.resource})
        if not mine:
            return []
        patch = functools.partial(self.client.request, "PATCH", self.path(role),
                                  content_type="application/merge-patch+json")
        patch({"rules": without(role, right)})
        try:
            # its watch of the roles takes the authorizer some milliseconds
            wait_for(f"{right} is missed", lambda: not all(map(self.allowed, mine)), 5, 0.02)
            return [asked for asked in mine if not self.allowed(asked)]
        except TimeoutError:
            return []
        finally:
            patch({"rules": role["rules"]})
            wait_for(f"{right} is back", lambda: all(map(self.allowed, mine)), 10, 0.02)


@dataclass
class ShippedAccount(Account):
    """The ServiceAccount of the manifests with their roles; nothing is made and nothing removed. Its tokens are
    bound to `pod`, as those that the kubelet mounts are."""

    pod: dict | None = None

    def create(self, rules=()) -> "ShippedAccount":
        return self

    def remove(self):
        pass

    def token(self, seconds: int = 3600) -> str:
        return self.cluster.client.token(self.name, self.namespace, seconds, pod=self.pod)


def differences(wanted, got, place: str = "") -> list:
    """What of `wanted` is not in `got`: a field that the server does not know is dropped by it in silence."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        dropped = [f"{place}.{key} is dropped" for key in wanted if key not in got and wanted[key] is not None]
        return dropped + [fault for key in wanted if key in got
                          for fault in differences(wanted[key], got[key], f"{place}.{key}")]
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        return [fault for i, pair in enumerate(zip(wanted, got)) for fault in differences(*pair, f"{place}[{i}]")]
    return [] if wanted == got else [f"{place}: {json.dumps(wanted)} became {json.dumps(got)}"]


def run_with(binary: Path, config: str, folder: Path) -> str:
    """What `moonfence run` says with this configuration when it finds no kubeconfig."""
    file = folder / "config.yaml"
    file.write_text(config)
    done = subprocess.run([binary, "run", "--config", file, "--kubeconfig", folder / "missing"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert done.returncode == 3, done.stdout
    return done.stdout
