"""scripts/package: what is in the Debian package, and that nothing else decides about its bytes. `scripts/package --verify`
looks at its unit and its program too, and compares the bytes as they are packed for others."""

import importlib.machinery
import importlib.util
import subprocess
import tarfile

import pytest

from .control_plane import REPO
from .engine import binary


# It is made once, and packed with the least effort: with that of xz's own a core is busy for half a minute.
EFFORT = 0
pytestmark = pytest.mark.xdist_group("package")


@pytest.fixture(scope="module")
def package():
    loader = importlib.machinery.SourceFileLoader("package", str(REPO / "scripts" / "package"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("package", loader))
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def made(package, tmp_path_factory):
    return package.make(binary(), tmp_path_factory.mktemp("package"), EFFORT)


def run(*command) -> str:
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, timeout=60).stdout


def test_the_same_inputs_give_the_same_bytes(package, made, tmp_path):
    assert package.make(binary(), tmp_path, EFFORT).read_bytes() == made.read_bytes()


def test_everything_belongs_to_root_and_nobody_else_may_write_it(made, tmp_path):
    tar = tmp_path / "files.tar"
    with tar.open("wb") as file:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", str(made)], stdout=file, check=True, timeout=60)
    with tarfile.open(tar) as files:
        members = {member.name.removeprefix("./"): member for member in files}
    assert {(member.uid, member.gid) for member in members.values()} == {(0, 0)}
    assert [name for name, member in members.items() if member.mode & 0o022 and not member.issym()] == []
    assert members["usr/bin/moonfence"].mode == members["usr/bin/moonfenced"].mode == 0o755
    assert members["usr/bin/kubectl-moonfence"].linkname == "moonfence"
    assert members["usr/bin/kubectl_complete-moonfence"].linkname == "moonfence"
    assert {"usr/share/man/man1/moonfence.1.gz", "usr/share/bash-completion/completions/moonfence"} <= set(members)
    policies = {name.split("/")[4] for name in members if name.startswith("usr/share/moonfence/policies/") and name.endswith("/policy.lua")}
    assert policies == {path.parent.name for path in (REPO / "policies").glob("*/policy.lua")}


def test_what_an_administrator_changes_is_kept_and_nothing_starts_by_itself(made, tmp_path):
    run("dpkg-deb", "-e", made, tmp_path)
    assert (tmp_path / "conffiles").read_text().split() == ["/etc/moonfence/config.yaml", "/etc/default/moonfence",
                                                            "/etc/logrotate.d/moonfence"]
    scripts = "".join((tmp_path / name).read_text() for name in ("postinst", "prerm", "postrm"))
    assert "enable --now" not in scripts and "systemctl start" not in scripts


def test_it_names_the_packages_of_its_programs_libraries(made):
    depends = run("dpkg-deb", "-f", made, "Depends")
    assert "libc6 (>= " in depends and "systemd | systemd-standalone-sysusers" in depends


def test_the_shipped_configuration_is_taken_by_the_engine(made, tmp_path):
    run("dpkg-deb", "-x", made, tmp_path)
    told = subprocess.run([binary(), "run", "--config", tmp_path / "etc/moonfence/config.yaml", "--kubeconfig", tmp_path / "none"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    assert told.returncode == 3 and "kubeconfig" in told.stdout and "config.yaml" not in told.stdout
