"""Container images for tests, made without a container engine: an OCI archive that `ctr images import` takes."""

import hashlib
import io
import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
BUSYBOX = Path("/bin/busybox")
BOX, PAUSE = "localhost/box:1", "localhost/pause:1"
APPLETS = ("cat", "date", "echo", "env", "head", "hostname", "httpd", "id", "ip", "kill", "ls", "mkdir", "mount", "mv", "nc",
           "ps", "rm", "sh", "sleep", "stat", "sync", "tail", "touch", "true", "wc", "wget")
MEDIA = "application/vnd.oci.image"


@dataclass(frozen=True)
class Image:
    """One layer: `files` are (path, source), `links` are (path, target)."""

    name: str
    command: tuple
    files: tuple
    links: tuple = ()
    folders: tuple = ("dev", "etc", "proc", "sys")


def defaults() -> list:
    """`box` has a shell and small tools; `pause` holds a pod's namespaces."""
    busybox = ("bin/busybox", BUSYBOX)
    links = tuple((f"bin/{name}", "busybox") for name in APPLETS)
    return [Image(BOX, ("/bin/sh",), (busybox,), links, ("bin", "data", "dev", "etc", "proc", "sys", "tmp")),
            Image(PAUSE, ("/bin/busybox", "sleep", "2147483647"), (busybox,), (), ("bin", "dev", "etc", "proc", "sys"))]


def _entry(name: str, mode: int, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    """The same bytes every time: no owner, no time."""
    entry = tarfile.TarInfo(name)
    entry.mode, entry.type = mode, kind
    return entry


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644):
    entry = _entry(name, mode)
    entry.size = len(data)
    tar.addfile(entry, io.BytesIO(data))


def _layer(image: Image) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in image.folders:
            tar.addfile(_entry(name, 0o1777 if name == "tmp" else 0o755, tarfile.DIRTYPE))
        for name, source in image.files:
            _add(tar, name, Path(source).read_bytes(), 0o755)
        for name, target in image.links:
            link = _entry(name, 0o777, tarfile.SYMTYPE)
            link.linkname = target
            tar.addfile(link)
    return buffer.getvalue()


class _Archive:
    def __init__(self):
        self.blobs: dict = {}
        self.manifests: list = []

    def _blob(self, content, kind: str) -> dict:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        digest = hashlib.sha256(data).hexdigest()
        self.blobs[digest] = data
        return {"mediaType": f"{MEDIA}.{kind}", "digest": f"sha256:{digest}", "size": len(data)}

    def add(self, image: Image):
        layer = self._blob(_layer(image), "layer.v1.tar")
        config = self._blob({
            "architecture": ARCHITECTURE, "os": "linux", "config": {"Cmd": image.command, "Env": ["PATH=/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}, "config.v1+json")
        manifest = self._blob({"schemaVersion": 2, "mediaType": f"{MEDIA}.manifest.v1+json", "config": config,
                               "layers": [layer]}, "manifest.v1+json")
        self.manifests.append({**manifest, "annotations": {"io.containerd.image.name": image.name}})

    def write(self, path: Path):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
            _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": self.manifests}).encode())
            for digest, data in self.blobs.items():
                _add(tar, f"blobs/sha256/{digest}", data)


def write_archive(path: Path, images: list = None) -> Path:
    archive = _Archive()
    for image in images or defaults():
        archive.add(image)
    archive.write(path)
    return path
