"""The files of a release, and somebody who has nothing else: a folder with copies of them, kubectl, helm, and the page docs/install.md.

    dist = find_dist(folder)                # those of MOONFENCE_DIST, else a release of this computer's program
    desk = Desk(bed, dist, folder)
    desk.follow("From the files of a release", "kubectl apply")     # types the page's commands, and keeps the time of each
    print(desk.table())
"""

import os
import re
import shutil
import subprocess
import tarfile
import time
from collections import Counter
from pathlib import Path

import pytest

from cluster import programs
from cluster.bed import Bed
from e2e.control_plane import REPO
from e2e.documents import commands
from e2e.engine import binary
from e2e.explain import explain
from e2e.release import add, scripts_release
from e2e.replica import make_image

from .inside import Inside, section
from .told import told

VERSION_OF_PAGE = "0.1.0"


def find_dist(folder: Path) -> Path:
    """MOONFENCE_DIST names what scripts/release has left. A whole release takes half an hour. The one that is made here has
    the files of the commit; its image and its plug-in are of the program under test, for this computer's architecture, with
    dynamic libraries, and it has no Debian package."""
    given = os.environ.get("MOONFENCE_DIST")
    if given:
        assert (Path(given) / "SHA256SUMS").is_file(), f"MOONFENCE_DIST: {given} has no SHA256SUMS; name a folder of scripts/release"
        return Path(given)
    with pytest.MonkeyPatch.context() as monkeypatch:
        release = scripts_release(monkeypatch)
        folder.mkdir()
        release.make_plain(REPO, folder)
        shutil.copyfile(make_image().archive, folder / f"moonfence-{release.version()}-image-linux.tar")
        with tarfile.open(folder / f"kubectl-moonfence-{release.version()}-linux-amd64.tar.gz", "w:gz") as tar:
            add(tar, "kubectl-moonfence", binary().read_bytes(), 0o755)
        release.tell(folder, "", True)
    return folder


def version_of(dist: Path) -> str:
    (chart,) = dist.glob("moonfence-[0-9]*.[0-9].tgz")
    return chart.name.removeprefix("moonfence-").removesuffix(".tgz")


class Desk(Inside):
    """In a bed that nobody has installed anything into."""

    def __init__(self, bed: Bed, dist: Path, folder: Path):
        self.place = folder / "release"
        shutil.copytree(dist, self.place)
        super().__init__(bed, self.place)
        self.version = version_of(dist)
        self.rows: list = []  # (command or what happened, seconds)
        tools = [Path(self.bed.programs["kubectl"]).parent, programs.find("helm")["helm"].parent]
        self.env = {"PATH": ":".join(map(str, (self.place, *tools, os.environ["PATH"]))), "HOME": str(folder),
                    "KUBECONFIG": str(bed.control_plane.kubeconfig)}

    def page(self, title: str, begins: str = "") -> list:
        """The commands of a section that begin so, in its order."""
        sessions = re.findall(r"^```console\n(.*?)^```", section(title), re.M | re.S)
        found = [re.sub(r"\s+#.*", "", line).replace(VERSION_OF_PAGE, self.version) for session in sessions for line, _ in commands(session)]
        chosen = [command for command in found if command.startswith(begins)]
        assert chosen, f"'{title}' of docs/install.md has no command {begins}"
        return chosen

    def follow(self, title: str, begins: str = "", **env) -> str:
        return "".join(self.type(command, **env) for command in self.page(title, begins))

    def type(self, command: str, **env) -> str:
        began = time.monotonic()
        done = subprocess.run(["bash", "-c", command], cwd=self.place, env={**self.env, **env}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        self.rows.append((command, time.monotonic() - began))
        assert done.returncode == 0, f"{command}: {done.stdout}\n{self.explain()}"
        return done.stdout

    def import_image(self):
        """On each node, by the page's command."""
        (command,) = self.page("From the files of a release", "ctr")
        began = time.monotonic()
        for node in self.bed.nodes:
            node.run("sh", "-c", f"cd {self.place} && {command}", timeout=300)
        self.rows.append((f"{command} (on {len(self.bed.nodes)} nodes)", time.monotonic() - began))

    def why(self, namespace: str) -> str:
        """For when nothing is deleted: what the API server refused to moonfence, what the replicas logged, and how they see it."""
        refused = [entry.raw for entry in self._audit.find(by=re.escape(self.account.user) + "$") if entry.status and entry.status >= 400]
        answers = Counter((entry["verb"], entry["objectRef"]["resource"], entry["responseStatus"]["code"],
                           entry["responseStatus"].get("message", "")[:300]) for entry in refused if "objectRef" in entry)
        logged = [f"{line.pod[:8]} {line.event} {line.words}" for line in told(self.bed, 0)]
        api_server = self.bed.control_plane.log_tail("kube-apiserver", 100_000)
        parts = {"refused": "\n".join(f"{count} times {' '.join(map(str, answer))}" for answer, count in answers.most_common()),
                 "logged": "\n".join(logged[-200:]), "events and pods": explain(self.client, namespace),
                 "status": self.shell(f"{binary()} status").stdout, "moonfence": self.explain(),
                 "Lease": self.shell("kubectl -n moonfence get lease moonfence -o yaml").stdout,
                 "policies": self.shell("kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings -o custom-columns="
                                        "KIND:.kind,NAME:.metadata.name,CHANGED:.metadata.managedFields[-1:].time,"
                                        "PARAMETER:.spec.paramKind.kind,FROM:.spec.paramRef.name").stdout,
                 "API server on its policies": "\n".join(line for line in api_server.splitlines() if "policy_source" in line),
                 "API server": "\n".join(api_server.splitlines()[-40:])}
        return "\n".join(f"--- {title}:\n{text}" for title, text in parts.items())

    def note(self, what: str, since: float):
        self.rows.append((what, time.monotonic() - since))

    def table(self) -> str:
        return "\n".join(["| | seconds |", "| --- | --- |", *(f"| {what} | {seconds:.1f} |" for what, seconds in self.rows)])
