"""scripts/release: --check, on files that disagree, and what it puts together, of a small tree."""

import json
import re
import subprocess
import tarfile

import pytest

from .control_plane import REPO
from .release import add, commit, git, head, sha256, stand_in, store_of, tree_of, write_image


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
    release.make(out)
    (out / "left").mkdir()
    sums = release.make(out)
    assert sorted(path.name for path in out.iterdir()) == [
        "SHA256SUMS", "install-enforce.yaml", "install.yaml", "kubectl-moonfence-0.2.0-linux-amd64.tar.gz", "moonfence-0.2.0-deploy.tar.gz",
        "moonfence-0.2.0-image-amd64.spdx.json", "moonfence-0.2.0-image-build-packages.txt", "moonfence-0.2.0-image-linux.tar", "moonfence-0.2.0.intoto.jsonl", "moonfence-0.2.0.tar.gz",
        "moonfence-0.2.0.tgz",
        "moonfence.yaml", "moonfence_0.2.0_amd64.deb"]
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    assert len(sums.splitlines()) == 12 and (out / "SHA256SUMS").read_text() == sums
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
    commit(tree)
    with pytest.raises(subprocess.CalledProcessError):
        release.make(tree / "dist")
    assert not (tree / "dist").exists() and not list(tree.glob(".dist-*"))


def test_the_provenance_names_every_file_the_image_and_what_went_in(release, tree):
    out = tree / "dist"
    release.make(out, "https://files.example.com")
    (line,) = (out / "moonfence-0.2.0.intoto.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["_type"], told["predicateType"]) == ("https://in-toto.io/Statement/v1", "https://slsa.dev/provenance/v1")
    subjects = {each["name"]: each["digest"]["sha256"] for each in told["subject"]}
    subjects = {name: digest for name, digest in subjects.items() if not name.startswith("moonfence:")}
    assert subjects == {path.name: sha256(path) for path in out.iterdir()
                        if path.name not in ("SHA256SUMS", "moonfence-0.2.0.intoto.jsonl")}
    made = told["predicate"]["buildDefinition"]
    assert made["externalParameters"] == {"commit": head(tree), "version": "0.2.0", "baseUrl": "https://files.example.com"}
    assert made["resolvedDependencies"][0]["digest"] == {"gitCommit": head(tree)}
    library = {"uri": "pkg:deb/debian/libcurl4@7.88.1-10%2Bdeb12u8?arch=amd64&distro=debian-12", "digest": {"sha256": "ab" * 32}}
    assert library in made["resolvedDependencies"]


def test_the_provenance_tells_the_compilers_of_the_image_from_this_computers(release, tree):
    release.make(tree / "dist")
    told = json.loads((tree / "dist" / "moonfence-0.2.0.intoto.jsonl").read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    builds = {name: [each["uri"] for each in told if each.get("annotations") == {"builds": name}] for name in ("image", "package")}
    assert builds["image"] == ["pkg:deb/debian/g%2B%2B-12@12.2.0-14%2Bdeb12u1?arch=amd64"]
    assert not [uri for uri in builds["package"] if "mmdebstrap" in uri or "aarch64" in uri], "they make nothing of the package"


@pytest.mark.parametrize("machines", [("amd64",), ("amd64", "arm64")])
def test_the_provenance_names_an_index_its_images_and_their_configurations(release, tree, machines):
    """A node into which ctr has imported an image tells the digest of its configuration."""
    registry, configs = write_image(store_of(tree) / "image.tar", machines, head(tree))
    release.make(tree / "dist")
    told = json.loads((tree / "dist" / "moonfence-0.2.0.intoto.jsonl").read_text())
    images = {each["name"]: "sha256:" + each["digest"]["sha256"] for each in told["subject"] if each["name"].startswith("moonfence:")}
    names = ([] if len(machines) == 1 else ["moonfence:0.2.0"]) + [f"moonfence:0.2.0 linux/{machine}" for machine in machines]
    assert images == dict(zip([*names, *(f"moonfence:0.2.0 linux/{machine} config" for machine in machines)], [*registry, *configs]))


def test_an_index_that_names_itself_or_what_is_not_there_ends(release, tree):
    file = tree / "dist.tar"
    for digest in ("sha256:" + "0" * 64, "sha256:../../index.json"):
        index = json.dumps({"manifests": [{"mediaType": "application/vnd.oci.image.index.v1+json", "digest": digest}]})
        with tarfile.open(file, "w") as tar:
            for name in ("oci-layout", "index.json", f"blobs/sha256/{'0' * 64}"):
                add(tar, name, index.encode())
        with pytest.raises((KeyError, ValueError)):
            list(release.commits_in(file))


def test_an_image_of_another_commit_is_no_release(release, tree):
    write_image(store_of(tree) / "image.tar", ("amd64",), "0" * 40)
    with pytest.raises(SystemExit, match="moonfence-0.2.0-image-linux.tar is of commit 0000"):
        release.make(tree / "dist")
    assert not (tree / "dist").exists()


def hide_a_change(tree):
    git(tree, "update-index", "--assume-unchanged", "deploy/install.yaml")
    (tree / "deploy" / "install.yaml").write_text("image: moonfence:0.2.0\nkind: Backdoor\n")
    assert git(tree, "status", "--porcelain") == "", "git does not tell of it"


def test_what_git_hides_is_in_no_release(release, tree):
    hide_a_change(tree)
    release.make(tree / "dist")
    assert (tree / "dist" / "install.yaml").read_text() == "image: moonfence:0.2.0\n"


@pytest.mark.parametrize("harm, said", [
    (hide_a_change, "does not look for changes of deploy/install.yaml"),
    (lambda tree: git(tree, "update-index", "--skip-worktree", "scripts/image"), "does not look for changes of scripts/image"),
    (lambda tree: (tree / "extra").write_text(""), "has changes"),
    (lambda _: None, "SOURCE_DATE_EPOCH is set")])
def test_a_checkout_that_may_differ_from_its_commit_is_refused(release, tree, monkeypatch, harm, said):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    (tree / "CHANGELOG.md").write_text(GOOD)
    commit(tree)
    assert list(release.faults_of_checkout()) == []
    harm(tree)
    if "EPOCH" in said:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    (fault,) = release.faults_of_checkout()
    assert said in fault


def test_a_build_that_changes_its_source_is_no_release(release, tree):
    script = tree / "scripts" / "package"
    script.write_text(script.read_text() + 'echo changed >>"$(dirname "$0")/../deploy/install.yaml"\n')
    commit(tree)
    write_image(store_of(tree) / "image.tar", ("amd64",), head(tree))
    with pytest.raises(SystemExit, match="the build has changed its source"):
        release.make(tree / "dist")


def test_a_snapshot_is_of_what_is_there_and_says_so(release, tree):
    (tree / "deploy" / "install.yaml").write_text("image: moonfence:0.2.0 # changed\n")
    release.make(tree / "dist", snapshot=True)
    assert "changed" in (tree / "dist" / "install.yaml").read_text()
    told = json.loads((tree / "dist" / "moonfence-0.2.0.intoto.jsonl").read_text())
    assert told["predicate"]["buildDefinition"]["externalParameters"]["snapshot"] is True


@pytest.mark.parametrize("words, said", [
    (["--snapshot", "--key", "x"], "a --snapshot is not signed"), (["--key", "x"], "--key wants --base-url"),
    (["--base-url", "http://files.example.com"], "begins with https://"),
    (["--sign", "x"], "--sign wants --key")])
def test_what_would_sign_the_wrong_thing_is_refused(words, said):
    done = subprocess.run([REPO / "scripts" / "release", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 2 and said in done.stdout


def test_only_an_earlier_release_is_taken_away(release, tree):
    home = tree / "home"
    home.mkdir()
    release.make(home)
    release.make(home)
    (home / "SHA256SUMS").unlink()
    with pytest.raises(SystemExit, match="is not empty, and no release"):
        release.make(home)
    assert (home / "install.yaml").exists()
    (tree / "link").symlink_to(home)
    with pytest.raises(SystemExit, match="is no folder"):
        release.make(tree / "link")


def test_an_image_is_always_copied_with_all_its_architectures():
    """Without --all skopeo copies that of the computer that runs it, and the digest of the index names nothing."""
    for page in ("docs/releasing.md", "docs/install.md", "scripts/image"):
        copies = re.findall(r"skopeo copy .*", (REPO / page).read_text())
        assert copies and all(each.startswith("skopeo copy --all ") for each in copies), page
