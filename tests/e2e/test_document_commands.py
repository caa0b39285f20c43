"""Every command of docs/install.md and docs/writing-policies.md is run, on a cluster, in the order of the page; those that
need a registry, a machine of their own or a browser are named here, with who runs them instead."""

import os
import re
import shutil
import subprocess

import pytest

from cluster import programs

from .control_plane import REPO
from .documents import BLOCK
from .engine import binary
from .installation import DEPLOY, NAMESPACE, kubectl
from .kube import wait_for

CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.M | re.S)
ELSEWHERE = {
    r"scripts/image": "test_image", r"skopeo ": "a registry", r"ctr ": "a node without a registry",
    r"^(sha256sum|openssl|cosign|tar|grep) |^kubectl (krew|moonfence) ": "test_supply_chain",
    r"^pod=|ask\.json": "test_old_lease",
    r"scripts/package": "test_package", r"apt-get ": "test_package",
    r"curl -s 127.0.0.1:8080": "a replica's own machine",
    r"moonfence policy |sed -i s/owner": "test_documents", r"sed -i '/a Job": "test_documents",
}
# a section that takes everything away is test_removal's; a release has its own files, and tests/machines/test_from_dist.py
SECTIONS = {"install": {"Removing", "From the files of a release"}, "writing-policies": set()}
# these print "no", or nothing when there is nothing, and leave so
MAY_LEAVE_WITH_1 = (r"kubectl auth can-i ", r"kubectl -n moonfence get lease moonfence$", r"configmap moonfence-status",
                    r"kubectl -n moonfence logs ")

# of helm upgrade: this cluster has no node, so no pod becomes Ready
WAITS_FOR_PODS = " --rollback-on-failure --wait"


def commands_of(page: str) -> list:
    """[(section, command)], lines that end in a backslash joined."""
    found = []
    for section in re.split(r"^## ", page, flags=re.M)[1:]:
        name = section.splitlines()[0]
        for block in CONSOLE.findall(section):
            text = re.sub(r"\\\n\s*", "", block)
            found += [(name, line.removeprefix("$ ")) for line in text.splitlines() if line.startswith("$ ")]
    return found


def where_else(command: str) -> str:
    return next((who for pattern, who in ELSEWHERE.items() if re.search(pattern, command)), "")


def test_each_name_of_a_command_that_is_run_elsewhere_is_needed():
    every = [command for name in SECTIONS for _, command in commands_of((REPO / "docs" / f"{name}.md").read_text())]
    for pattern in ELSEWHERE:
        assert [command for command in every if re.search(pattern, command)], pattern
    assert len(every) > 30


@pytest.fixture
def run(cluster, tmp_path):
    """run(command): in a folder with a copy of deploy/ and what the pages say is in it."""
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    tools = tmp_path / ".tools"
    tools.mkdir()
    (tools / "kubectl").symlink_to(kubectl())
    (tools / "moonfence").symlink_to(binary())
    (tools / "helm").symlink_to(programs.find("helm")["helm"])
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.control_plane.kubeconfig),
           "EDITOR": "true", "HOME": str(tmp_path)}  # Helm writes into its home

    def command(text: str, ok=(0,)) -> str:
        text = text.replace(WAITS_FOR_PODS, "")
        done = subprocess.run(text, shell=True, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        assert done.returncode in ok, f"{text}\n{done.stdout}"
        return done.stdout
    command.folder = tmp_path

    def is_gone():
        return not cluster.client.find("namespaces", NAMESPACE)
    wait_for("earlier tests have cleaned up", is_gone, 90)
    yield command
    for folder in ("rights/taint", "rights/release", "rights/kubelet", "rights/detection", "overlays/storageos", "overlays/enforce"):
        command(f"kubectl delete -k deploy/{folder} --ignore-not-found --wait=false", (0, 1))
    command("kubectl delete clusterrolebinding moonfence-metrics moonfence-status --ignore-not-found")  # whoever reads by HTTPS
    wait_for("what was installed is gone", is_gone, 90)


def prepare(run, name: str):
    (run.folder / "username").write_text("u")
    (run.folder / "password").write_text("p")
    mine = run.folder / "deploy" / "mine" if name == "install" else run.folder
    mine.mkdir(exist_ok=True)
    for block in BLOCK.finditer((REPO / "docs" / f"{name}.md").read_text()):
        if block["name"]:
            path = mine / block["name"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"])
    for space in ("shop", "longhorn-system"):
        run(f"kubectl create namespace {space}", (0, 1))


@pytest.mark.parametrize("name", SECTIONS)
def test_every_command_of_the_page_works(run, name):
    prepare(run, name)
    if name == "writing-policies":
        run("kubectl apply -k deploy/overlays/observe")
    before = ""
    for section, command in commands_of((REPO / "docs" / f"{name}.md").read_text()):
        if section in SECTIONS[name] or where_else(command):
            continue
        if section != before and name == "install":
            # each section begins with a cluster that has no policies yet
            run(f"kubectl -n {NAMESPACE} delete configmap moonfence-policies --ignore-not-found", (0, 1))
        before = section
        may_fail = any(re.search(pattern, command) for pattern in MAY_LEAVE_WITH_1)
        run(command, (0, 1) if may_fail else (0,))


@pytest.mark.parametrize("folder", ["overlays/enforce", "overlays/storageos", "rights/taint"])
def test_applying_again_changes_nothing_and_says_so(run, folder):
    run(f"kubectl apply -k deploy/{folder}")
    said = run(f"kubectl apply -k deploy/{folder}").splitlines()
    # kubectl replaces the selector of a PodDisruptionBudget whatever it was (its patchStrategy)
    changed = [line for line in said if not line.endswith(" unchanged") and not line.startswith("poddisruptionbudget.")]
    assert said and changed == []
