"""scripts/image, as far as it goes without fetching packages: what gets into the image, and that nothing else decides about
its bytes. `scripts/image --verify` does the rest."""

import hashlib
import importlib.machinery
import importlib.util
import io
import json
import tarfile

import pytest

from .control_plane import REPO


@pytest.fixture(scope="module")
def image():
    loader = importlib.machinery.SourceFileLoader("image", str(REPO / "scripts" / "image"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("image", loader))
    loader.exec_module(module)
    return module


def tree(path, names, mtime: int, order=lambda names: names):
    """A tar as mmdebstrap leaves it: other times, owners and an order of its own."""
    with tarfile.open(path, "w") as tar:
        for name in order(list(names)):
            member = tarfile.TarInfo(f"./{name}")
            member.mtime, member.uid, member.uname, member.mode = mtime, mtime % 100, f"user{mtime}", names[name]
            member.size = len(name)
            tar.addfile(member, io.BytesIO(name.encode()))
    return path


KEPT = {"usr/lib/x86_64-linux-gnu/libcurl.so.4": 0o644, "lib64/ld-linux-x86-64.so.2": 0o775, "usr/share/doc/libcurl4/copyright": 0o664,
        "etc/ld.so.conf.d/x86_64-linux-gnu.conf": 0o600}
LEFT = {"etc/apt/sources.list": 0o644, "etc/resolv.conf": 0o644, "dev/console": 0o600, "var/lib/dpkg/status": 0o644,
        "usr/share/doc/libcurl4/changelog.gz": 0o644, "usr/share/man/man1/a.1": 0o644, "usr/share/locale/de/a.mo": 0o644,
        "usr/lib/x86_64-linux-gnu/gconv/UTF-7.so": 0o644, "usr/lib/x86_64-linux-gnu/engines-3/afalg.so": 0o644}


def test_only_what_the_program_needs_gets_into_the_image_and_nobody_may_write_it(image, tmp_path):
    layer = image.Layer()
    layer.take(tree(tmp_path / "tree.tar", {**KEPT, **LEFT}, 7))
    with tarfile.open(fileobj=io.BytesIO(layer.tar(5))) as tar:
        members = {member.name: member for member in tar}
        assert {name for name, member in members.items() if member.isfile()} == set(KEPT)
        assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {(0, 0, "", 5)}
    assert {name: oct(member.mode) for name, member in members.items() if member.isfile()} == {
        name: "0o755" if mode & 0o111 else "0o644" for name, mode in KEPT.items()}
    assert members["usr/lib"].isdir() and members["usr/lib"].mode == 0o755


def test_the_bytes_depend_on_names_and_contents_alone(image, tmp_path, monkeypatch):
    monkeypatch.setattr(image, "commit", lambda: "c" * 40)
    told = []
    for number, order in ((1, sorted), (2, lambda names: sorted(names, reverse=True))):
        layer = image.Layer()
        layer.take(tree(tmp_path / f"{number}.tar", KEPT, number, order))
        file, digest, download, _ = image.assemble(layer, tmp_path / f"out{number}", 1_700_000_000)
        told.append((digest, hashlib.sha256(file.read_bytes()).hexdigest(), download))
    assert told[0] == told[1]
    layer.add("etc/passwd", "root:x:0:0::/:\n")
    assert image.assemble(layer, tmp_path / "out3", 1_700_000_000)[1] != told[0][0]


def test_an_image_that_grew_past_its_limit_is_refused(image):
    image.check_size(60_000_000)
    with pytest.raises(SystemExit, match="60.0 MB to download, more than 60 MB"):
        image.check_size(60_000_001)


def test_the_archive_is_what_its_index_says(image, tmp_path, monkeypatch):
    monkeypatch.setattr(image, "commit", lambda: "c" * 40)
    layer = image.Layer()
    layer.add(image.PROGRAM, b"program", image.RUNNABLE)
    file, digest, _, _ = image.assemble(layer, tmp_path / "out", 1_700_000_000)
    with tarfile.open(file) as tar:
        blobs = {name: tar.extractfile(name).read() for name in tar.getnames() if tar.getmember(name).isfile()}

    def blob(described: dict) -> bytes:
        content = blobs["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
        assert len(content) == described["size"] and f"sha256:{hashlib.sha256(content).hexdigest()}" == described["digest"]
        return content
    (named,) = json.loads(blobs["index.json"])["manifests"]
    manifest = json.loads(blob(named))
    config = json.loads(blob(manifest["config"]))
    assert named["digest"] == digest and json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == ["/usr/bin/moonfence"]
    unpacked = image.gzip.decompress(blob(manifest["layers"][0]))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]
