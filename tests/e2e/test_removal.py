"""docs/install.md, Removing: what was installed goes away by the commands of that page, typed as they stand, and
nothing of ours is left in the API server."""

import os
import re
import subprocess

import pytest

from .control_plane import REPO
from .installation import DEPLOY, NAMESPACE, Installation, ShippedAccount, kubectl, manifest, objects, rights_of
from .kube import wait_for
from .policies import LAST_GOOD, STATUS, PolicyMap
from .workloads import taints

BINDING = "api: 1\nbindings:\n- {policy: noobaa, namespaces: [noobaa], mode: enforce}\n"
OURS, SILENT, OUT_OF_SERVICE = "moonfence.io/fenced", "moonfence.io/silent", "moonfence.io/out-of-service"


def documented() -> list:
    """The commands of the page, block by block."""
    page = (REPO / "docs" / "install.md").read_text().split("\n## Removing\n")[1]
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.M | re.S)
    return [[re.sub(r"\s+#.*", "", line) for line in re.findall(r"^\$ (.*)$", block, re.M)] for block in blocks]


@pytest.fixture
def shell(cluster, tmp_path):
    """shell(command): as an administrator of the cluster, in the repository."""
    def run(command: str, codes: tuple = (0,)):
        env = {"PATH": f"{kubectl().parent}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.control_plane.kubeconfig), "HOME": str(tmp_path)}
        done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=REPO, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        assert done.returncode in codes, f"{command}: {done.stdout}"
    return run


def served(client) -> list:
    """(group, resource, path) of everything that can be listed."""
    groups = [("", "/api/v1")] + [(group["name"], f"/apis/{version['groupVersion']}")
                                  for group in client.request("GET", "/apis")["groups"] for version in group["versions"]]
    return [(group, each["name"], f"{path}/{each['name']}") for group, path in groups
            for each in client.request("GET", path)["resources"] if "list" in each["verbs"]]


def ours(client) -> set:
    """(group, resource, namespace, name) of all that is in our namespace, or has our label, or our name; but events, which expire."""
    found = set()
    for group, resource, path in served(client):
        for each in client.request("GET", path)["items"] if resource != "events" else ():
            about = each["metadata"]
            if NAMESPACE in (about.get("namespace"), (about.get("labels") or {}).get("app.kubernetes.io/name")) \
                    or NAMESPACE in about["name"]:
                found.add((group, resource, about.get("namespace", ""), about["name"]))
    return found


def install(shell) -> list:
    """Everything that there is to install; its objects."""
    shell("kubectl apply -f deploy/flat/enforce.yaml")
    for mode in ("taint", "release", "kubelet", "detection"):
        shell(f"kubectl apply -k deploy/rights/{mode}")
    return [*manifest("enforce"), *rights_of("taint"), *rights_of("release"), *rights_of("kubelet"),
            *objects(DEPLOY / "rights" / "kubelet" / "admission.yaml")]


def mark(cluster, name: str, key: str, taint: str, effect: str):
    cluster.client.patch("nodes", name, {"metadata": {"annotations": {key: "{}"}}, "spec": {"taints": [
        {"key": taint, "effect": effect}]}})


def test_what_was_installed_is_removed_as_documented_and_nothing_is_left(cluster, shell, make_nodes, start_engine):
    nodes, client = make_nodes(3), cluster.client
    wait_for("earlier tests have cleaned up", lambda: not client.find("namespaces", NAMESPACE), 60)
    before, made = ours(client), Installation(cluster)
    installed = install(shell)
    try:
        start_engine.accounts["shipped"] = ShippedAccount(cluster, NAMESPACE, "moonfence")
        engine = start_engine(account="shipped", policy=None, mode=None, elect=None, status=False)
        policies = PolicyMap(client, NAMESPACE)
        policies.write(data={"moonfence.yaml": BINDING})
        policies.wait_state("noobaa", "Active")
        wait_for("the replicas run", lambda: len([pod for pod in client.list("pods", NAMESPACE)
                                                  if pod["status"].get("phase") == "Running"]) == 2, 60)
        there = {each[-1] for each in ours(client) - before}
        assert {each["metadata"]["name"] for each in installed} | {STATUS, LAST_GOOD, "moonfence-fencing"} <= there
        (stop, *remove), clean = documented()
        shell(stop)
        wait_for("it is off", lambda: policies.told("noobaa")["state"] != "Active", 10)
        engine.stop()
        mark(cluster, nodes[0], OUT_OF_SERVICE, "node.kubernetes.io/out-of-service", "NoExecute")
        mark(cluster, nodes[1], OURS, OURS, "NoSchedule")
        mark(cluster, nodes[2], SILENT, SILENT, "NoSchedule")
        for command in remove:
            shell(command)
        for command in clean:
            of_all = command.startswith("kubectl taint nodes --all ")
            shell(command.replace(" NODE ", f" {nodes[0]} "), codes=(0, 1) if of_all else (0,))  # 1: a node has no such taint
        assert ours(client) - before == set()
        for name in nodes:
            node = client.get("nodes", name)
            assert not taints(node) and not {OURS, SILENT, OUT_OF_SERVICE} & set(node["metadata"]["annotations"]), name
    finally:
        made.remove(installed)
