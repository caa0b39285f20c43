"""scripts/release: --check, on files that disagree, and what it puts together, of a small tree."""

import importlib.machinery
import importlib.util
import re
import subprocess
import tarfile

import pytest

from .control_plane import REPO


@pytest.fixture
def release(tmp_path, monkeypatch):
    loader = importlib.machinery.SourceFileLoader("release", str(REPO / "scripts" / "release"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("release", loader))
    loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "version", lambda: "0.2.0")
    for folder in ("deploy/flat", "deploy/chart", "docs"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "deploy" / "chart" / "Chart.yaml").write_text("version: 0.2.0\nappVersion: 0.2.0\n")
    (tmp_path / "deploy" / "install.yaml").write_text("image: moonfence:0.2.0\n")
    (tmp_path / "docs" / "install.md").write_text("push moonfence:0.2.0\n")
    return module


def faults(release, text: str) -> list:
    (release.ROOT / "CHANGELOG.md").write_text(text)
    return [*release.faults_of_changelog(), *release.faults_of_versions()]


GOOD = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-01\n\n### Added\n\n- It.\n\n## [0.1.0] - 2026-01-01\n\n### Fixed\n\n- That.\n"


def test_what_agrees_has_no_faults(release):
    assert faults(release, GOOD) == []
    assert faults(release, GOOD.replace("## [0.2.0] - 2026-02-01\n\n", "")) == [], "a version that is not released yet"


@pytest.mark.parametrize("old, new, said", [
    ("## [Unreleased]\n", "", "does not begin with"),
    ("0.2.0] - 2026-02-01", "0.2.0]", "wants a date"),
    ("[Unreleased]", "[Unreleased] - 2026-02-01", "wants no date"),
    ("[0.1.0]", "[0.2.0]", "not in order"),
    ("[0.1.0]", "[0.10.0]", "not in order"),
    ("[0.2.0]", "[0.10.0]", "is past"),
    ("### Fixed", "### Mended", "is none of")])
def test_what_disagrees_is_told(release, old, new, said):
    (fault,) = faults(release, GOOD.replace(old, new, 1))
    assert said in fault


def test_a_heading_that_is_none_ends_it(release):
    with pytest.raises(SystemExit, match="is neither"):
        faults(release, GOOD.replace("## [0.1.0]", "## 0.1.0"))


def test_manifests_of_another_version_are_told(release):
    (release.ROOT / "deploy" / "flat" / "enforce.yaml").write_text("image: moonfence:0.1.9\n")
    assert faults(release, GOOD) == ["deploy/flat/enforce.yaml names version 0.1.9, CMakeLists.txt says 0.2.0"]


@pytest.mark.parametrize("key", ["version", "appVersion"])
def test_a_chart_of_another_version_is_told(release, key):
    chart = release.ROOT / "deploy" / "chart" / "Chart.yaml"
    chart.write_text(re.sub(f"(?m)^{key}: .*", f'{key}: "0.1.9"', chart.read_text()))
    assert faults(release, GOOD) == [f"deploy/chart/Chart.yaml has {key} 0.1.9, CMakeLists.txt says 0.2.0"]


# what scripts/image and scripts/package leave, and a folder that is no file of a release
MAKER = """#!/bin/sh
[ "$1 $3 $5" = "--binary --out --verify" ] && [ -s "$2" ] || exit 1
mkdir -p "$4/oci" && cp "$2" "$4/oci/blob"
for file in {}; do echo "$file" >"$4/$file"; done
"""
MADE = {"image": "moonfence-0.2.0-amd64.tar sbom.spdx.json", "package": "moonfence_0.2.0_amd64.deb"}


@pytest.fixture
def tree(release, monkeypatch):
    """A repository with all that a release is made of; the program and what makes image and package are stand-ins."""
    root = release.ROOT
    (root / "deploy" / "flat" / "enforce.yaml").write_text("image: moonfence:0.2.0\n")
    (root / "scripts").mkdir()
    for name, files in MADE.items():
        (root / "scripts" / name).write_text(MAKER.format(files))
        (root / "scripts" / name).chmod(0o755)
    git = ("git", "-C", str(root), "-c", "user.name=test", "-c", "user.email=test@localhost")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message", "a test")):
        subprocess.run([*git, *words], check=True)
    program = root / "moonfence"
    program.write_bytes(b"program")
    monkeypatch.setattr(release, "build_program", lambda: program)
    return root


def test_a_release_is_everything_by_its_version_with_its_sums(release, tree):
    out = tree / "dist"
    (out / "left").mkdir(parents=True)
    sums = release.make(out)
    assert sorted(path.name for path in out.iterdir()) == [
        "SHA256SUMS", "install-enforce.yaml", "install.yaml", "moonfence-0.2.0-deploy.tar.gz",
        "moonfence-0.2.0-image-amd64.tar", "moonfence-0.2.0.spdx.json", "moonfence-0.2.0.tar.gz", "moonfence-0.2.0.tgz",
        "moonfence_0.2.0_amd64.deb"]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert len(sums.splitlines()) == 8 and (out / "SHA256SUMS").read_text() == sums
    contents = {}
    for name in ("moonfence-0.2.0.tar.gz", "moonfence-0.2.0-deploy.tar.gz", "moonfence-0.2.0.tgz"):
        with tarfile.open(out / name) as tar:
            contents[name] = {member.name for member in tar if member.isfile()}
    files = subprocess.run(["git", "-C", str(tree), "ls-files"], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert contents["moonfence-0.2.0.tar.gz"] == {f"moonfence-0.2.0/{name}" for name in files}
    assert contents["moonfence-0.2.0-deploy.tar.gz"] == {
        "moonfence-0.2.0/deploy/install.yaml", "moonfence-0.2.0/deploy/flat/enforce.yaml", "moonfence-0.2.0/deploy/chart/Chart.yaml"}
    assert contents["moonfence-0.2.0.tgz"] == {"moonfence/Chart.yaml"}, "as Helm wants it: in a folder of the chart's name"


def test_the_same_commit_gives_the_same_release(release, tree):
    assert release.make(tree / "one") == release.make(tree / "two")


def test_a_release_without_its_image_is_none(release, tree):
    (tree / "scripts" / "image").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(subprocess.CalledProcessError):
        release.make(tree / "dist")
    assert not (tree / "dist" / "SHA256SUMS").exists()
