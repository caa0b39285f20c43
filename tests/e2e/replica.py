"""A replica of the shipped Deployment: the engine from the image, started as kubelet and container runtime would.

    image = make_image()                                             # the fixture is in test_installation.py
    replica = start_engine(made_by=Replica, account="shipped", image=image, overlay="observe", node=node)

What it gets is what the Deployment of the overlay says and nothing else: its arguments, its environment, its user, its
volumes (a token that is bound to its pod, the CA, the ConfigMap moonfence-config as it stands), read-only. It finds the
API server by KUBERNETES_SERVICE_HOST and the mounted account. Two things differ: its ports are free ones on loopback, because the
network is the machine's, and nothing filters its system calls.

Needs root and mount namespaces; whoever has neither sees the tests fail.
"""

import base64
import copy
import errno
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional
from urllib.parse import urlsplit

from .control_plane import REPO
from .engine import Engine, binary
from .installation import ACCOUNT, NAMESPACE, ShippedAccount, manifest, one

OVERLAYS = ("observe", "enforce", "longhorn", "storageos")


def pod_spec(overlay: str) -> dict:
    return one(manifest(overlay), "Deployment")["spec"]["template"]["spec"]


@dataclass
class Image:
    """What scripts/image made: `root`, its files; `config`, how it is to be run; `archive`, what a node imports."""

    root: Path
    config: dict
    archive: Path


IMAGES = REPO / "build" / "images-for-tests"  # each by what is in it, with its files


def make_image() -> Image:
    """Of the program under test. It is made once for all runs: to fetch its packages takes most of a minute."""
    if os.geteuid() != 0:
        raise RuntimeError("the engine cannot be run from its image: that needs root")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with open(IMAGES / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = IMAGES / _contents()
        root, out = folder / "root", folder / "out"
        if not (folder / "complete").exists():
            shutil.rmtree(folder, ignore_errors=True)
            _forget_old()
            folder.mkdir()
            subprocess.run([REPO / "scripts" / "image", "--binary", binary(), "--out", out, "--root", root], check=True)
            mount_points(root)
            (folder / "complete").touch()
    (index,) = json.loads((out / "oci" / "index.json").read_text())["manifests"]
    (archive,) = out.glob("*.tar")
    return Image(root, blob(out, blob(out, index)["config"])["config"], archive)


def _contents() -> str:
    """A name for what goes into it; but packages of libraries, which have the same names in every Debian 12."""
    told = hashlib.sha256()
    sources = [path for name in ("policies", "deploy") for path in sorted((REPO / name).rglob("*"))
               if path.is_file()]
    scripts = [REPO / "scripts" / name for name in ("image", "artifact.py", "clean_root.py", "oci.py")]
    for path in (binary(), binary().with_name("moonfenced"), *scripts, *sources):
        told.update(f"{path.name}\n".encode() + path.read_bytes())
    return told.hexdigest()[:16]


def _forget_old():
    """All but the newest, which another run may be using."""
    folders = [path for path in IMAGES.iterdir() if path.is_dir()]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-1]:
        shutil.rmtree(folder)


def blob(out: Path, described: dict) -> dict:
    return json.loads((out / "oci" / "blobs" / "sha256" / described["digest"].removeprefix("sha256:")).read_text())


def mount_points(root: Path):
    """A runtime makes those that the image lacks."""
    mounts = [mount["mountPath"] for overlay in OVERLAYS for mount in pod_spec(overlay)["containers"][0]["volumeMounts"]]
    for place in ("/proc", *mounts):
        (root / place.lstrip("/")).mkdir(parents=True, exist_ok=True)


def check_user(proc: Path, user: str):
    """By the kernel's word the process is this user's and this group's, without any privilege."""
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    assert status["Uid"].split() == [user] * 4, f"its user is {status['Uid']}"
    assert status["Gid"].split() == [user] * 4, f"its group is {status['Gid']}"
    assert set(status["Groups"].split()) == {user}, f"its groups are {status['Groups']}"
    kept = {name: value for name, value in status.items() if name.startswith("Cap") and int(value, 16)}
    assert not kept and status["NoNewPrivs"] == "1", f"its privileges: {kept}, NoNewPrivs {status['NoNewPrivs']}"


def refuses_writing(file: Path) -> bool:
    """Even root, by the way of a process in a container (/proc/PID/root/...)."""
    try:
        file.touch()
    except OSError as error:
        return error.errno == errno.EROFS
    file.unlink()
    return False


class Volumes:
    """The volumes of a pod, each a folder, as a kubelet fills them."""

    def __init__(self, client, account, folder: Path, spec: dict):
        self.client, self.account, self.folder = client, account, folder
        self.group = spec["securityContext"].get("fsGroup")
        mounts = spec["containers"][0]["volumeMounts"]
        kinds = {"configMap": self._config_map, "secret": self._secret, "projected": self._projected}
        for volume in spec["volumes"]:
            (kind,) = set(volume) - {"name"}
            self._write(volume["name"], kinds[kind](volume[kind]))
        self.mounts = [[str(folder / mount["name"]), mount["mountPath"]] for mount in mounts]
        for mount in mounts:  # one inside of another
            for outer in mounts:
                if mount["mountPath"].startswith(outer["mountPath"] + "/"):
                    inner = mount["mountPath"].removeprefix(outer["mountPath"] + "/")
                    (folder / outer["name"] / inner).mkdir(parents=True, exist_ok=True)
        self.mounts.sort(key=lambda mount: mount[1])

    def _config_map(self, source: dict) -> dict:
        data = self.client.get("configmaps", source["name"], NAMESPACE).get("data") or {}
        chosen = source.get("items") or [{"key": key, "path": key} for key in data]
        return {item["path"]: data[item["key"]].encode() for item in chosen}

    def _secret(self, source: dict) -> dict:
        data = self.client.get("secrets", source["secretName"], NAMESPACE)["data"]
        return {key: base64.b64decode(value) for key, value in data.items()}

    def _token(self, source: dict) -> dict:
        return {source["path"]: self.account.token(source["expirationSeconds"]).encode()}

    def _projected(self, source: dict) -> dict:
        files, kinds = {}, {"serviceAccountToken": self._token, "configMap": self._config_map}
        for each in source["sources"]:
            ((kind, about),) = each.items()
            files.update(kinds[kind](about))
        return files

    def _write(self, name: str, files: dict):
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        for path, content in files.items():
            file = self.folder / name / path
            file.write_bytes(content)
            # without a group of the pod's own everybody may read it, as a kubelet has it
            os.chown(file, 0, self.group or 0)
            file.chmod(0o640 if self.group else 0o644)


class Replica(Engine):
    """`change` may alter what is run of the pod's spec, not the pod: its namespace refuses what is not restricted."""

    def __init__(self, cluster, folder: Path, account, namespace: str, image: Image, overlay: str, node: str,
                 number: int = 1, change: Optional[Callable] = None, **more):
        self.image, self.spec = image, pod_spec(overlay)
        self.pod = cluster.client.create("pods", {
            "metadata": {"name": f"{node}-replica-{number}", "labels": {"app.kubernetes.io/name": "moonfence"}},
            "spec": {**copy.deepcopy(self.spec), "nodeName": node}}, NAMESPACE)
        if change:
            change(self.spec)
        account = ShippedAccount(cluster, NAMESPACE, ACCOUNT, self.pod)
        config = cluster.client.get("configmaps", "moonfence-config", NAMESPACE)["data"]["config.yaml"]
        super().__init__(cluster, folder, account, namespace, number, policy=None, elect=None, config=config,
                         mode="observe" if "--mode=observe" in self.container["args"] else None,
                         kubeconfig=folder / "none", **more)
        self.place = folder / f"{self.name}.volumes"
        self.token_file = self.place / "account" / "token"

    @property
    def container(self) -> dict:
        (container,) = self.spec["containers"]
        return container

    # --- what the kubelet does

    def command(self) -> list:
        ports = {"metrics": self.metrics_port, "health-probe": self.health_port, "status": self.status_port}
        return [*self.image.config["Entrypoint"], *self.container["args"],
                *(f"--{name}-bind-address=127.0.0.1:{port}" for name, port in ports.items())]

    def environment(self) -> dict:
        server = urlsplit(self.cluster.control_plane.server)
        fields = {"metadata.name": self.pod["metadata"]["name"], "metadata.namespace": NAMESPACE,
                  "spec.nodeName": self.pod["spec"]["nodeName"], "status.podIP": "127.0.0.1"}
        return {**dict(word.split("=", 1) for word in self.image.config["Env"]), "HOSTNAME": self.pod["metadata"]["name"],
                "KUBERNETES_SERVICE_HOST": server.hostname, "KUBERNETES_SERVICE_PORT": str(server.port),
                **{each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in self.container["env"]}}

    def launch(self) -> subprocess.Popen:
        volumes = Volumes(self.cluster.client, self.account, self.place, self.spec)
        about, security = self.spec["securityContext"], self.container["securityContext"]
        user, group = map(int, self.image.config["User"].split(":"))  # unless the pod names others
        spec = self.folder / f"{self.name}.container.json"
        spec.write_text(json.dumps({
            "root": str(self.image.root), "mounts": volumes.mounts, "user": about.get("runAsUser", user), "group": about.get("runAsGroup", group),
            "groups": [about.get("fsGroup", group)], "writable": not security["readOnlyRootFilesystem"],
            "privileges": security["allowPrivilegeEscalation"] or security["capabilities"]["drop"] != ["ALL"],
            "command": self.command(), "environment": self.environment()}))
        with open(self.log_file, "ab") as log, open(self.record_file, "ab") as records:
            return subprocess.Popen([sys.executable, "-I", REPO / "tests" / "e2e" / "container.py", spec],
                                    stdout=records, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, env={})

    def wait_ready(self, *arguments) -> "Replica":
        super().wait_ready(*arguments)
        self.check_confined()
        return self

    def end(self):
        try:
            super().end()
        finally:
            self.cluster.client.delete("pods", self.pod["metadata"]["name"], NAMESPACE, grace=0, missing_ok=True)

    # --- what the kernel says of it

    def check_confined(self):
        """It is the image's program, runs as the image's user without any privilege, and can write no file anywhere."""
        proc = Path("/proc", str(self.pid))
        assert os.path.samefile(proc / "exe", self.image.root / "usr" / "bin" / "moonfenced")
        assert os.path.samefile(proc / "root", self.image.root)
        user, group = self.image.config["User"].split(":")
        assert user == group == "65532", f"the image's user is {user}:{group}"
        check_user(proc, user)
        mounts = {fields[4]: fields[5].split(",") for fields in map(str.split, (proc / "mountinfo").read_text().splitlines())}
        wanted = {"/", *(mount["mountPath"] for mount in self.container["volumeMounts"])}
        seen = {place for place in mounts if place.split("/")[1] != "proc"}
        assert seen == wanted, f"mounted are {sorted(seen)}"
        writable = [place for place in sorted(seen) if "ro" not in mounts[place]]
        assert not writable, f"{writable} may be written"
        for place in ("tmp", *(each.lstrip("/") for each in sorted(wanted - {"/"}))):
            assert refuses_writing(proc / "root" / place / "written"), f"/{place} may be written"
