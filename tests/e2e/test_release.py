"""scripts/release: --check, on files that disagree, and what it puts together, of a small tree."""

import json
import re
import subprocess
import tarfile

import pytest

from .control_plane import REPO
from .release import sha256, stand_in, tree_of, write_image


@pytest.fixture
def release(tmp_path, monkeypatch):
    return stand_in(tmp_path, monkeypatch)


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


@pytest.fixture
def tree(release, monkeypatch):
    return tree_of(release, monkeypatch)


def test_a_release_is_everything_by_its_version_with_its_sums(release, tree):
    out = tree / "dist"
    (out / "left").mkdir(parents=True)
    sums = release.make(out)
    assert sorted(path.name for path in out.iterdir()) == [
        "SHA256SUMS", "install-enforce.yaml", "install.yaml", "kubectl-moonfence-0.2.0-linux-amd64.tar.gz", "moonfence-0.2.0-deploy.tar.gz",
        "moonfence-0.2.0-image-amd64.spdx.json", "moonfence-0.2.0-image-linux.tar", "moonfence-0.2.0.intoto.jsonl", "moonfence-0.2.0.tar.gz",
        "moonfence-0.2.0.tgz",
        "moonfence.yaml", "moonfence_0.2.0_amd64.deb"]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert len(sums.splitlines()) == 11 and (out / "SHA256SUMS").read_text() == sums
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


def test_the_provenance_names_every_file_the_image_and_what_went_in(release, tree):
    out = tree / "dist"
    release.make(out, "https://files.example.com")
    (line,) = (out / "moonfence-0.2.0.intoto.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["_type"], told["predicateType"]) == ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    subjects = {each["name"]: each["digest"]["sha256"] for each in told["subject"]}
    layout = tarfile.open(out / "moonfence-0.2.0-image-linux.tar")
    (image,) = json.load(layout.extractfile("index.json"))["manifests"]
    assert subjects.pop("moonfence:0.2.0 linux/amd64") == image["digest"].removeprefix("sha256:")
    assert subjects == {path.name: sha256(path) for path in out.iterdir()
                        if path.name not in ("SHA256SUMS", "moonfence-0.2.0.intoto.jsonl")}
    made = told["predicate"]["buildDefinition"]
    head = subprocess.run(["git", "-C", str(tree), "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert made["externalParameters"] == {"commit": head, "version": "0.2.0", "baseUrl": "https://files.example.com"}
    assert made["resolvedDependencies"][0]["digest"] == {"gitCommit": head}
    library = {"uri": "pkg:deb/debian/libcurl4@7.88.1-10%2Bdeb12u8?arch=amd64&distro=debian-12", "digest": {"sha256": "ab" * 32}}
    assert library in made["resolvedDependencies"]


def test_the_provenance_names_an_index_and_each_of_its_images(release, tree):
    index, amd64, arm64 = write_image(tree / "scripts" / "image.tar", ("amd64", "arm64"))
    release.make(tree / "dist")
    told = json.loads((tree / "dist" / "moonfence-0.2.0.intoto.jsonl").read_text())
    images = {each["name"]: each["digest"]["sha256"] for each in told["subject"] if each["name"].startswith("moonfence:")}
    assert images == {"moonfence:0.2.0": index.removeprefix("sha256:"), "moonfence:0.2.0 linux/amd64": amd64.removeprefix("sha256:"),
                      "moonfence:0.2.0 linux/arm64": arm64.removeprefix("sha256:")}
