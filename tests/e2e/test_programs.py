"""tests/cluster/programs.py, with a stand-in for Go: what is built when, where it goes, and what is said when it cannot."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .control_plane import REPO
from .kube import wait_for

SCRIPT = REPO / "tests" / "cluster" / "programs.py"
# writes each program as a script that tells how it was built; fails, or waits for a file, when it is told to
GO = """#!/bin/bash
if [ "$1" = env ]; then echo go${FAKE_GO:-1.26.9}; exit; fi
if [ "$1" = mod ]; then grep -q "^${4/@/ } h1:" go.sum && printf '{"Dir": "%s"}' "$FAKE_TOOLCHAIN"; exit; fi
echo "$0 $* [$GOFLAGS] [$GOARCH] cgo=$CGO_ENABLED" >>"$FAKE_GO_LOG"
[ -z "$FAKE_GO_WAITS" ] || { touch "$FAKE_GO_WAITS.begun"; while [ ! -e "$FAKE_GO_WAITS" ]; do sleep 0.02; done; }
[ -z "$FAKE_GO_FAILS" ] || { echo "no such module"; exit 1; }
while [ "$1" != -o ]; do shift; done
out=$2; shift 2
for package in "$@"; do
  case $out in */) program=$out$(basename "$package") ;; *) program=$out ;; esac
  printf '#!/bin/sh\\n' >"$program"; chmod +x "$program"
done
"""


class Programs:
    """A machine with this `go`, an empty cache, and what was asked of them."""

    def __init__(self, folder: Path):
        self.cache, self.log, bin = folder / "cache", folder / "go.log", folder / "bin"
        self.script = SCRIPT
        bin.mkdir()
        (bin / "go").write_text(GO)
        (bin / "go").chmod(0o755)
        self.env = {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(folder), "XDG_CACHE_HOME": str(self.cache),
                    "FAKE_GO_LOG": str(self.log), "PYTHONDONTWRITEBYTECODE": "1"}

    def begin(self, *words, **env) -> subprocess.Popen:
        return subprocess.Popen([sys.executable, self.script, *words], env={**self.env, **env}, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run(self, *words, code: int = 0, **env) -> tuple:
        """({program: path}, what was said)."""
        running = self.begin(*words, **env)
        out, err = running.communicate(timeout=60)
        assert running.returncode == code, err
        return dict(line.split(" ", 1) for line in out.splitlines()), err

    def built(self) -> list:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def folders(self) -> list:
        return sorted(path.name for path in (self.cache / "moonfence" / "programs").iterdir() if path.is_dir())


@pytest.fixture
def programs(tmp_path):
    return Programs(tmp_path)


def wait_until(there):
    wait_for("the stand-in has come so far", there, every=0.01)


def test_what_is_missing_is_built_once_and_then_found(programs):
    found, said = programs.run()
    assert set(found) == {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
    assert all(os.access(path, os.X_OK) for path in found.values()) and len(programs.built()) == 2
    assert "building kubernetes 1.37.2 with Go 1.26.9" in said and "built etcd" in said
    assert programs.run() == (found, "") and len(programs.built()) == 2
    assert set(programs.run("kubectl")[0]) == {"kubectl"} and len(programs.built()) == 2


def test_every_part_names_the_programs_that_its_build_leaves(programs):
    found, _ = programs.run("kubernetes", "etcd", "attacher", "containerd", "node", "helm", "storage")
    assert len(found) == 17 and all(os.access(path, os.X_OK) for path in found.values())


def test_another_version_or_another_go_is_another_folder(programs):
    default, _ = programs.run("kubelet")
    older, _ = programs.run("kubelet", MOONFENCE_KUBERNETES="1.34")
    assert programs.run("kubelet", "--kubernetes", "1.34")[0] == older
    newer_go, _ = programs.run("kubelet", FAKE_GO="1.28.0")
    assert len({default["kubelet"], older["kubelet"], newer_go["kubelet"]}) == len(programs.built()) == 3


def test_our_own_part_is_built_anew_when_its_sources_change(programs, tmp_path):
    copied = shutil.copytree(SCRIPT.parent, tmp_path / "cluster")
    programs.script = copied / SCRIPT.name
    before, _ = programs.run("storage")
    for name, again in (("driver_test.go", False), ("node.go", True), ("san/attach.go", True)):
        (copied / "storage" / name).open("a").write("// changed\n")
        after, _ = programs.run("storage")
        assert (after != before) == again, name
        before = after
    assert len(programs.built()) == 3


def test_a_go_that_is_too_old_fetches_one_that_is_not(programs, tmp_path):
    """Its sum is known, and its files come without run bits."""
    fetched = {tmp_path / "toolchain" / name for name in ("bin/go", "bin/gofmt", "pkg/tool/linux_amd64/compile")}
    for path in fetched:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(GO)
    _, said = programs.run("etcd", FAKE_GO="1.19.8", FAKE_TOOLCHAIN=str(tmp_path / "toolchain"))
    assert "with Go 1.27.3" in said and all(os.access(path, os.X_OK) for path in fetched)
    assert [line.split()[0] for line in programs.built()] == [str(tmp_path / "toolchain" / "bin" / "go")]


def test_the_callers_flags_change_nothing(programs):
    found, _ = programs.run("etcd")
    assert programs.run("etcd", GOFLAGS="-race", GOARCH="mips", CGO_ENABLED="1")[0] == found
    programs.run("kubelet", GOFLAGS="-race", GOARCH="mips", CGO_ENABLED="1")
    assert all("[-mod=readonly -trimpath -buildvcs=false] [] cgo=0" in line for line in programs.built())


def test_a_failure_tells_the_end_of_gos_words_and_leaves_nothing(programs):
    found, said = programs.run("etcd", code=1, FAKE_GO_FAILS="1")
    assert not found and "go build of etcd" in said and "\n  no such module" in said
    (log,) = [Path(word.rstrip(":")) for word in said.split() if word.endswith("etcd.log:")]
    assert log.exists() and programs.folders() == []
    programs.run("etcd")
    assert not log.exists()


def test_two_runs_wait_for_one_another(programs, tmp_path):
    go_on = tmp_path / "go on"
    first = programs.begin("etcd", FAKE_GO_WAITS=str(go_on))
    wait_until(lambda: (tmp_path / "go on.begun").exists())
    second = programs.begin("etcd")
    assert "another run builds already" in second.stderr.readline()
    go_on.touch()
    assert first.communicate(timeout=60)[0] == second.communicate(timeout=60)[0] != ""
    assert len(programs.built()) == 1


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_a_build_that_was_ended_is_swept_and_begun_anew(programs, tmp_path, end):
    waits = tmp_path / "waits"
    running = programs.begin("etcd", FAKE_GO_WAITS=str(waits))
    wait_until(lambda: (tmp_path / "waits.begun").exists())
    getattr(running, end)()
    assert running.wait(60) and [name for name in programs.folders() if not name.startswith("building.")] == []
    waits.touch()  # a stand-in that outlived its caller ends
    found, _ = programs.run("etcd")
    assert programs.folders() == [Path(found["etcd"]).parent.name]


def test_what_nobody_used_for_thirty_days_is_removed(programs):
    old, kept = (Path(programs.run(name)[0][name]).parent for name in ("etcd", "kubelet"))
    month = time.time() - 31 * 24 * 3600
    for folder in (old, kept):
        os.utime(folder, (month, month))
    programs.run("kubelet")  # which uses it
    _, said = programs.run("csi-attacher")
    assert not old.exists() and kept.exists() and f"removing {old.name}" in said


def test_what_envtest_has_is_taken_from_there(programs, tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("kube-apiserver", "etcd"):
        shutil.copy("/bin/true", assets / name)
    found, _ = programs.run("etcd", "kube-apiserver", KUBEBUILDER_ASSETS=str(assets))
    assert found == {name: str(assets / name) for name in ("etcd", "kube-apiserver")} and not programs.built()
    assert programs.run("kubectl", KUBEBUILDER_ASSETS=str(assets))[0]["kubectl"].startswith(str(programs.cache))
    (assets / "etcd").unlink()
    assert "has no etcd" in programs.run(code=1, KUBEBUILDER_ASSETS=str(assets))[1]


@pytest.mark.parametrize("words, env, told", [
    (("etcdd",), {}, "there is no part or program 'etcdd'; the parts are kubernetes, etcd, attacher, containerd, node, "
     "helm, storage"),
    (("--kubernetes", "1.20"), {}, "--kubernetes: there is no Kubernetes '1.20'; write one of 1.37, 1.34"),
    ((), {"MOONFENCE_KUBERNETES": "new"}, "MOONFENCE_KUBERNETES: there is no Kubernetes 'new'; write one of 1.37, 1.34"),
    (("--no-build",), {}, "etcd 3.7.3 is not built"),
])
def test_what_cannot_be_is_said_in_one_line(programs, words, env, told):
    found, said = programs.run(*words, code=1, **env)
    assert not found and said == f"programs: error: {told}\n"
