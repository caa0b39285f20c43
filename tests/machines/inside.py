"""moonfence inside a bed: two pods of its own image, installed by the commands of docs/install.md and nothing else.

    with installed(bed, archive, folder) as inside:     # waits for nothing; inside.wait_ready()
        inside.leader(), inside.standby()               # its pods
        inside.shell("kubectl get pods -A").stdout      # as that page's reader types it
"""

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterator

from cluster.bed import Bed
from cluster.node import Node
from e2e.control_plane import REPO
from e2e.documents import BLOCK, commands
from e2e.installation import ACCOUNT, NAMESPACE, ShippedAccount
from e2e.kube import wait_for
from e2e.policies import PolicyMap
from e2e.workloads import is_ready

from .stage import Stage

PAGE = REPO / "docs" / "install.md"
LABEL = "app.kubernetes.io/name=moonfence"
PROGRAM = "/usr/bin/moonfenced"


def section(title: str) -> str:
    return PAGE.read_text().split(f"\n## {title}\n")[1].split("\n## ")[0]


def typed(title: str, word: str) -> list:
    """The commands of a section that begin with a word, as they stand there."""
    sessions = re.findall(r"^```console\n(.*?)^```", section(title), re.M | re.S)
    return [re.sub(r"\s+#.*", "", line) for session in sessions for line, _ in commands(session)
            if line.split()[0] == word]


def folder_of_ones_own(place: Path, rights: tuple, config: str):
    """deploy/mine as the page shows it. Ours are the policies, those for NooBaa, which may act, and there
    is no registry: so no images, as the page says. `rights`: folders of deploy/rights that come to it; `config`: lines
    that come to the engine's configuration."""
    shutil.copytree(REPO / "deploy", place / "deploy")
    mine = place / "deploy" / "mine"
    mine.mkdir()
    for block in BLOCK.finditer(section("With kustomize")):
        (mine / block["name"]).write_text(block["text"])
    kustomization = mine / "kustomization.yaml"
    more = "".join(f"- ../rights/{name}\n" for name in rights)
    kustomization.write_text(kustomization.read_text().split("images:\n")[0].replace("patches:\n", f"{more}patches:\n"))
    with open(mine / "config.yaml", "a") as file:
        file.write("".join(f"    {line}\n" for line in config.splitlines()))
    policies = (REPO / "deploy" / "policies" / "noobaa.yaml").read_text()
    (mine / "policies.yaml").write_text(policies.replace("mode: observe", "mode: enforce"))


class Inside:
    """What a Stage asks of an engine it can ask of this one: its account, and what it deleted since mark()."""

    def __init__(self, bed: Bed, folder: Path):
        self.bed, self.client, self.folder = bed, bed.client, folder
        self.account = ShippedAccount(bed, NAMESPACE, ACCOUNT)
        self.policies = PolicyMap(bed.client, NAMESPACE)
        self.mark()

    def shell(self, command: str) -> subprocess.CompletedProcess:
        """A command typed by an administrator of the bed, in the folder that has deploy/."""
        env = {"PATH": f"{Path(self.bed.programs['kubectl']).parent}:{os.environ['PATH']}", "HOME": str(self.folder),
               "KUBECONFIG": str(self.bed.control_plane.kubeconfig)}
        return subprocess.run(["bash", "-c", command], cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)

    # --- its life

    def load(self, archive: Path):
        """The image, into each node."""
        (page,) = typed("The image", "ctr")
        # The page's archive holds both architectures, and takes half an hour to make; this one has the same names in it.
        load = re.sub(r"\bmoonfence-[0-9.]+-linux\.tar\b", archive.name, page)
        assert load != page, f"{page}: it names no archive of scripts/image"
        for node in self.bed.nodes:
            node.run("sh", "-c", f"cd {archive.parent} && {load}", timeout=300)

    def install(self, archive: Path):
        self.load(archive)
        (apply,) = typed("With kustomize", "kubectl")
        done = self.shell(apply)
        assert done.returncode == 0, f"{apply}: {done.stdout}"

    def remove(self):
        self.shell("kubectl delete --wait=false --ignore-not-found -k deploy/mine")
        wait_for("moonfence is gone", lambda: not self.client.find("namespaces", NAMESPACE), 180)

    def bind(self, namespace: str, *more: str):
        """NooBaa's policy acts in this namespace, and nowhere else: once for each of `more`, words of a binding, and once
        without."""
        bindings = "".join(f"- {{policy: noobaa, namespaces: [{namespace}], mode: enforce{words}}}\n" for words in ("", *more))
        self.policies.wait_observed(self.policies.edit(moonfence_yaml=f"api: 1\nbindings:\n{bindings}"))

    # --- its pods

    def pods(self) -> list:
        return self.client.list("pods", NAMESPACE, labels=LABEL)

    def wait_ready(self, *away_from: str) -> list:
        """Two Ready pods, on two nodes, none on those nodes; the Lease is held by one of them."""
        def ready():
            found = [pod for pod in self.pods() if is_ready(pod)]
            nodes = {pod["spec"]["nodeName"] for pod in found}
            apart = len(found) == len(nodes) == 2 and not nodes & set(away_from)
            return found if apart and self._led_by(found) else None
        try:
            return wait_for("two replicas of moonfence are Ready, and one leads", ready, 240)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.explain()}") from None

    def holder(self) -> str:
        """The pod that holds the Lease; "" if none does."""
        lease = self.client.find("leases", "moonfence", NAMESPACE)
        return ((lease or {}).get("spec", {}).get("holderIdentity") or "").rsplit("_", 1)[0]

    def _led_by(self, pods: list) -> list:
        return [pod for pod in pods if pod["metadata"]["name"] == self.holder()]

    def leader(self) -> dict:
        (pod,) = self._led_by(self.pods())
        return pod

    def standby(self) -> dict:
        holder = self.holder()
        (pod,) = [pod for pod in self.pods() if is_ready(pod) and pod["metadata"]["name"] != holder]
        return pod

    def explain(self) -> str:
        return "\n".join(self.shell(f"kubectl -n {NAMESPACE} {command}").stdout for command in (
            "get pods,lease -o wide", "describe pods", "logs --prefix --tail 15 -l " + LABEL))

    # --- what it did, by the API server's audit log

    def mark(self):
        self._audit = self.bed.audit()

    def deletes(self, **filters) -> list:
        return self._audit.deletes(by=re.escape(self.account.user) + "$", **filters)


def sent_by(entry) -> str:
    """The pod to which the token is bound that an audited request had."""
    return entry.raw["user"]["extra"]["authentication.kubernetes.io/pod-name"][0]


@contextlib.contextmanager
def installed(bed: Bed, archive: Path, folder: Path, rights: tuple = (), config: str = "") -> Iterator[Inside]:
    folder_of_ones_own(folder, rights, config)
    inside = Inside(bed, folder)
    try:
        inside.install(archive)
        yield inside
    finally:
        inside.remove()


class InsideStage(Stage):
    """A Stage whose engine runs in the bed already; it has seen other incidents before."""

    def prepare(self, inside: Inside):
        self.engine = inside
        self.before = {record["incident"] for record in super().records()}
        inside.mark()

    def records(self) -> list:
        return [record for record in super().records() if record["incident"] not in self.before]


# --- a container, by what the kernel says of it

def process_of(node: Node, pod: dict) -> Path:
    """/proc of the program in a pod's container, as this computer sees it."""
    def found():
        return [Path(f"/proc/{pid}") for pid in node.container_processes(pod["metadata"]["uid"])
                if os.readlink(f"/proc/{pid}/exe") == PROGRAM]
    (proc,) = wait_for(f"{PROGRAM} runs in {pod['metadata']['name']}", found, 60)
    return proc


def limit_of(node: Node, pod: dict, file: str) -> str:
    """A file of the container's own control group, like memory.limit_in_bytes."""
    (status,) = pod["status"]["containerStatuses"]
    identity = status["containerID"].removeprefix("containerd://")
    (path,) = [path for folder in node.group.folders() for path in folder.rglob(f"*{identity}*/{file}")]
    return path.read_text().strip()
