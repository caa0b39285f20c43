"""A stand-in for a release: scripts/release of a small repository, whose program, image and Debian package are small too."""

import gzip
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import subprocess
import tarfile
from pathlib import Path

from .control_plane import REPO

VERSION = "0.2.0"
# what scripts/image and scripts/package leave, and a folder that is no file of a release
MAKER = """#!/bin/sh
while [ "$1" != --out ]; do [ "$1" = --binary ] && [ -s "$2" ] && shift 2 || exit 1; done
[ "$3" = --verify ] || exit 1
mkdir -p "$2/oci" && echo blob >"$2/oci/blob"
for file in {}; do
  case $file in *.tar | *.json | *.gz) cp "{}/image.${{file##*.}}" "$2/$file" ;; *.txt) printf 'g++-12\\t12.2.0-14+deb12u1\\tamd64\\n' >"$2/$file" ;; *) echo "$file" >"$2/$file" ;; esac
done
"""
PLUGIN = f"kubectl-moonfence-{VERSION}-linux-amd64.tar.gz"
MADE = {"image": f"moonfence-{VERSION}-linux.tar moonfence-{VERSION}-amd64.spdx.json moonfence-{VERSION}-build-packages.txt {PLUGIN}", "package": f"moonfence_{VERSION}_amd64.deb"}
BILL = {"spdxVersion": "SPDX-2.3", "packages": [
    {"name": "moonfence", "checksums": [{"algorithm": "SHA256", "checksumValue": "cd" * 32}]},
    {"name": "libcurl4", "checksums": [{"algorithm": "SHA256", "checksumValue": "ab" * 32}], "externalRefs": [
        {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
         "referenceLocator": "pkg:deb/debian/libcurl4@7.88.1-10%2Bdeb12u8?arch=amd64&distro=debian-12"}]}]}


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def scripts_release(monkeypatch):
    """The script as a module."""
    monkeypatch.syspath_prepend(str(REPO / "scripts"))
    loader = importlib.machinery.SourceFileLoader("release", str(REPO / "scripts" / "release"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(module)
    return module


def stand_in(root: Path, monkeypatch):
    """scripts/release, at work in this folder."""
    module = scripts_release(monkeypatch)
    monkeypatch.setattr(module, "ROOT", root)
    monkeypatch.setattr("artifact.ROOT", root)
    module.commit.cache_clear()  # of another stand-in
    monkeypatch.setattr(module, "version", lambda: VERSION)
    for folder in ("deploy/flat", "deploy/chart", "docs"):
        (root / folder).mkdir(parents=True)
    (root / "deploy" / "chart" / "Chart.yaml").write_text(f"version: {VERSION}\nappVersion: {VERSION}\n")
    (root / "deploy" / "install.yaml").write_text(f"image: moonfence:{VERSION}\n")
    (root / "docs" / "install.md").write_text(f"push moonfence:{VERSION}\n")
    return module


def tree_of(release, monkeypatch) -> Path:
    """A repository with all that a release is made of; the program and what makes image and package are stand-ins."""
    root = release.ROOT
    (root / "deploy" / "flat" / "enforce.yaml").write_text(f"image: moonfence:{VERSION}\n")
    (root / "scripts").mkdir()
    store = store_of(root)
    for name, files in MADE.items():
        (root / "scripts" / name).write_text(MAKER.format(files, store))
        (root / "scripts" / name).chmod(0o755)
    git(root, "init", "--quiet")
    commit(root)
    store.mkdir()
    (store / "image.json").write_text(json.dumps(BILL))
    write_image(store / "image.tar", ("amd64", "arm64"), head(root))
    with tarfile.open(store / "image.gz", "w:gz") as tar:
        add(tar, "kubectl-moonfence", b"#!/bin/sh\nexec moonfence \"$@\"\n", 0o755)
        add(tar, "LICENSE", (REPO / "LICENSE").read_bytes())
    program = root / ".git" / "moonfence"
    program.write_bytes(b"program")
    monkeypatch.setattr(release, "build_program", lambda _: program)
    monkeypatch.setattr(release, "commit", lambda: head(root))  # each release of a test is a run of its own
    return root


def store_of(root: Path) -> Path:
    """Where the stand-ins take what they "compile": not in the commit, which it names."""
    return root / ".git" / "store"


def git(root: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(root), "-c", "user.name=test", "-c", "user.email=test@localhost", *words], check=True,
                          stdout=subprocess.PIPE, text=True).stdout.strip()


def commit(root: Path, *words: str):
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "a test", *words)


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD")


def add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))
    return content


def write_image(path: Path, machines, revision: str):
    """An OCI archive of an image with nothing in it; for several machines an index of such images. Returns (the digests that a registry
    would know it by, those of its configurations)."""
    manifests, configs = [], []
    labels = {"org.opencontainers.image.revision": revision}
    with tarfile.open(path, "w") as tar:
        def blob(content, kind: str) -> dict:
            content = content if isinstance(content, bytes) else json.dumps(content).encode()
            digest = hashlib.sha256(content).hexdigest()
            add(tar, f"blobs/sha256/{digest}", content)
            return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}
        empty = io.BytesIO()
        tarfile.open(fileobj=empty, mode="w").close()
        layer = blob(gzip.compress(empty.getvalue(), mtime=0), "layer.v1.tar+gzip")
        for machine in machines:
            platform = {"os": "linux", "architecture": machine}
            config = blob({**platform, "config": {"Labels": labels}, "rootfs": {"type": "layers", "diff_ids": [
                f"sha256:{hashlib.sha256(empty.getvalue()).hexdigest()}"]}}, "config.v1+json")
            configs.append(config["digest"])
            manifests.append({"platform": platform, **blob({
                "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config,
                "layers": [layer], "annotations": labels}, "manifest.v1+json")})
        found = [each["digest"] for each in manifests]
        if len(machines) > 1:
            manifests = [blob({"schemaVersion": 2, "manifests": manifests, "annotations": labels}, "index.v1+json")]
            found.insert(0, manifests[0]["digest"])
        add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())
        add(tar, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
    return found, configs
