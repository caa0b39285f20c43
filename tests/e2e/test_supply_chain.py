"""What a release proves: signed with a throw-away key by cosign, verified by the commands of docs/install.md and by openssl, in
a registry, and installed by krew. A byte that is changed is refused."""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess

import pytest

from cluster import programs

from .control_plane import REPO
from .documents import commands
from .engine import binary
from .processes import free_port
from .release import PLUGIN, VERSION, commit, head, scripts_release, sha256, stand_in, tree_of

ATTESTATION = f"moonfence-{VERSION}.intoto.sigstore.json"
IMAGE = f"moonfence-{VERSION}-image-linux.tar"
pytestmark = pytest.mark.xdist_group("supply chain")


def find_tools(folder, monkeypatch):
    """cosign, crane, krew, kubectl and moonfence in the PATH, in a home of their own, and nothing that leads to a network."""
    found = programs.find("cosign", "krew", "kubectl")
    folder.mkdir()
    for name, path in {**found, "moonfence": binary()}.items():
        (folder / name).symlink_to(path)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("COSIGN_PASSWORD", "a test's")
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return folder


@pytest.fixture
def tools(tmp_path, monkeypatch):
    return find_tools(tmp_path / "tools", monkeypatch)


def new_key(folder):
    folder.mkdir()
    subprocess.run(["cosign", "generate-key-pair"], cwd=folder, check=True, capture_output=True)
    return folder / "cosign.key"


def small_release(root, monkeypatch):
    root.mkdir()
    module = stand_in(root, monkeypatch)
    tree_of(module, monkeypatch)
    return module


@pytest.fixture
def release(tools, tmp_path, monkeypatch):
    return small_release(tmp_path / "root", monkeypatch)


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A signed release, its key and the key of somebody else, made once for all tests."""
    place = tmp_path_factory.mktemp("signed")
    with pytest.MonkeyPatch.context() as monkeypatch:
        find_tools(place / "tools", monkeypatch)
        module = small_release(place / "root", monkeypatch)
        module.make(place / "dist", "https://files.example.com")
        new_key(place / "others")
        module.sign(place / "dist", new_key(place / "keys"))
    return place


@pytest.fixture
def dist(signed, tools, tmp_path):
    """A copy of it, to spoil."""
    return shutil.copytree(signed / "dist", tmp_path / "dist")


def documented(heading: str, words: dict) -> list:
    """The commands under that heading of docs/install.md, for this version."""
    text = (REPO / "docs" / "install.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = [command for block in re.findall(r"```console\n(.*?)```", text, re.S) for command, _ in commands(block)]
    for word, meant in words.items():
        found = [command.replace(word, meant) for command in found]
    return found


def run(command: str, folder) -> subprocess.CompletedProcess:
    return subprocess.run(command, shell=True, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60)


def digest_of_image(out) -> str:
    return re.search(r"sha256:([0-9a-f]{64})", run(f"tar -xOf {IMAGE} index.json", out).stdout)[1]


def checks(out) -> dict:
    """{what verifies it: command}: of the documented commands those that need no cluster and no registry."""
    said = documented("Verify", {"0.1.0": VERSION, "DIGEST": digest_of_image(out)})
    names = {"openssl": "openssl", "sums": "sha256sum --check", "cosign": "cosign verify-blob --", "file": IMAGE + "\n", "image": "--digest "}
    found = {name: [command for command in said if start in command + "\n" and "tar " not in command] for name, start in names.items()}
    assert all(len(each) == 1 for each in found.values()), found
    return {name: command for name, (command,) in found.items()}


def refusals(out, verify: dict) -> set:
    return {name for name, command in verify.items() if run(command, out).returncode != 0}


def flipped(content: bytes) -> bytes:
    """One bit in the middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:]


def flip(path):
    """In a bundle within what it says: the payload or the signature. The name of a key in it is no one's proof."""
    if not path.name.endswith(".sigstore.json"):
        path.write_bytes(flipped(path.read_bytes()))
        return
    bundle = json.loads(path.read_text())
    place, key = (bundle["dsseEnvelope"], "payload") if "dsseEnvelope" in bundle else (bundle["messageSignature"], "signature")
    place[key] = base64.b64encode(flipped(base64.b64decode(place[key]))).decode()
    path.write_text(json.dumps(bundle))


def test_what_is_signed_is_verified_and_a_changed_byte_is_refused(dist, tmp_path):
    verify = checks(dist)
    for name, command in verify.items():
        done = run(command, dist)
        assert done.returncode == 0, f"{name}: {command}\n{done.stdout}"
    for name, refused in {
            "install.yaml": {"sums"}, "install-enforce.yaml": {"sums"}, "moonfence.yaml": {"sums"}, PLUGIN: {"sums"},
            f"moonfence_{VERSION}_amd64.deb": {"sums"}, f"moonfence-{VERSION}-image-amd64.spdx.json": {"sums"},
            f"moonfence-{VERSION}.intoto.jsonl": {"sums"}, IMAGE: {"sums", "file"}, ATTESTATION: {"file", "image"},
            "SHA256SUMS": {"openssl", "cosign"}, "SHA256SUMS.sig": {"openssl"}, "SHA256SUMS.sigstore.json": {"cosign"}}.items():
        changed = shutil.copytree(dist, tmp_path / "changed")
        flip(changed / name)
        # a name that is changed in the sums is a file that is not there, to sha256sum
        assert refusals(changed, verify) - ({"sums"} if name == "SHA256SUMS" else set()) == refused, name
        shutil.rmtree(changed)


def test_another_key_verifies_nothing(dist, signed):
    verify = checks(dist)
    shutil.copy(signed / "others" / "cosign.pub", dist / "moonfence.pub")
    assert refusals(dist, verify) == {"openssl", "cosign", "file", "image"}


def test_an_image_of_another_digest_is_none_of_this_release(dist):
    assert refusals(dist, {"image": checks(dist)["image"].replace(digest_of_image(dist), "0" * 64)}) == {"image"}


def forge(out, changed: str, content: bytes):
    """A file, and all that speaks of it: the sums and the provenance."""
    (out / changed).write_bytes(content)

    def change(told):
        subject = next((each for each in told["subject"] if each["name"] == changed), {"name": changed})
        if subject not in told["subject"]:
            told["subject"].insert(0, subject)  # it is the first of all names
        subject["digest"] = {"sha256": sha256(out / changed)}
    edit(out, change)


def sums_again(out):
    names = sorted(path.name for path in out.iterdir() if path.name != "SHA256SUMS")
    (out / "SHA256SUMS").write_text("".join(f"{sha256(out / name)}  {name}\n" for name in names))


def edit(out, change):
    """The provenance, as change(it) leaves it, and its sum."""
    path = out / f"moonfence-{VERSION}.intoto.jsonl"
    told = json.loads(path.read_text())
    change(told)
    path.write_text(json.dumps(told, sort_keys=True) + "\n")
    sums_again(out)


def definition(told: dict) -> dict:
    return told["predicate"]["buildDefinition"]


@pytest.fixture
def made(release, tmp_path):
    """A release that is not signed, and what signs it. refused(said): it does not."""
    out = tmp_path / "dist"
    release.make(out, "https://files.example.com")

    def refused(said):
        with pytest.raises(SystemExit, match=said):
            release.sign(out, "no key is asked for")
        assert not any((out / each).exists() for each in release.signatures())
    return release, out, refused


@pytest.mark.parametrize("harm", [
    lambda out: flip(out / "install.yaml"), lambda out: (out / "install.yaml").unlink(),
    lambda out: (out / "extra.yaml").write_text("kind: Secret\n")])
def test_only_what_the_sums_say_is_signed(made, harm):
    _, out, refused = made
    harm(out)
    refused(r"(install|extra)\.yaml and SHA256SUMS do not agree; make the release again")


@pytest.mark.parametrize("name", [
    "install.yaml", "install-enforce.yaml", "moonfence.yaml", f"moonfence-{VERSION}.tgz", f"moonfence-{VERSION}.tar.gz",
    f"moonfence-{VERSION}-deploy.tar.gz", "added.yaml"])
def test_a_forged_file_is_not_signed_whatever_sums_and_provenance_say(made, name):
    content = b"kind: Backdoor\n"
    content = gzip.compress(content) if name.endswith("gz") else content
    _, out, refused = made
    forge(out, name, content)
    refused(f"{re.escape(name)} is not what commit [0-9a-f]{{12}} makes of it")


@pytest.mark.parametrize("change, said", [
    (lambda told: told["subject"].append({"name": "moonfence:0.2.0 more", "digest": {"sha256": "0" * 64}}), "'subject'"),
    (lambda told: told["subject"].pop(), "'subject'"),
    (lambda told: definition(told)["externalParameters"].update(commit="0" * 40), "says that it is of commit 0000"),
    (lambda told: definition(told)["externalParameters"].update(snapshot=True), "is a snapshot"),
    (lambda told: definition(told)["externalParameters"].update(more="x"), "'externalParameters'"),
    (lambda told: definition(told)["externalParameters"].pop("baseUrl"), "make the release again with --base-url"),
    (lambda told: definition(told)["externalParameters"].update(baseUrl="https://evil.example.net"), "moonfence.yaml is not what"),
    (lambda told: definition(told).update(buildType="https://evil.example.net"), "'predicate'"),
    (lambda told: definition(told)["resolvedDependencies"][0]["digest"].update(gitCommit="0" * 40), "'resolvedDependencies'"),
    (lambda told: definition(told)["resolvedDependencies"].append({"uri": "pkg:deb/debian/evil@1?arch=amd64"}), "'resolvedDependencies'"),
    (lambda told: told["predicate"]["runDetails"]["builder"].update(id="another"), "'predicate'"),
    (lambda told: told.clear(), "cannot be read")])
def test_a_forged_provenance_is_not_signed(made, change, said):
    _, out, refused = made
    edit(out, change)
    refused(said)


@pytest.mark.parametrize("old, new", [('{"_type"', '{"_type": "x", "_type"'), ("}\n", "}"), ('"subject": ', '"subject":  ')])
def test_a_provenance_that_others_may_read_otherwise_is_not_signed(made, old, new):
    _, out, refused = made
    path = out / f"moonfence-{VERSION}.intoto.jsonl"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    sums_again(out)
    refused("'spelling' of")


def test_an_address_that_would_write_yaml_is_not_signed(release, tmp_path):
    release.make(tmp_path / "dist", "https://files.example.com\n    sha256: 0")
    with pytest.raises(SystemExit, match="is no address of files"):
        release.sign(tmp_path / "dist", "no key is asked for")


def test_what_is_no_file_of_a_release_is_not_signed(made, signed):
    release, out, refused = made
    (out / "folder").mkdir()
    refused("folder is no file")
    (out / "folder").rmdir()
    (out / "link").symlink_to("install.yaml")
    refused("link is no file")
    (out / "link").unlink()
    commit(release.ROOT, "--allow-empty")
    refused("sign it from a checkout of its own commit")
    with pytest.raises(SystemExit, match="has no SHA256SUMS: is it a folder that scripts/release has made"):
        release.sign(signed / "keys", "no key is asked for")


def test_the_verified_provenance_prints_commit_and_version(dist, signed):
    (command,) = [each for each in documented("Verify", {"0.1.0": VERSION}) if each.startswith("grep ")]
    printed = run(command, dist).stdout
    assert json.loads("{" + printed + "}") == {"externalParameters": {
        "baseUrl": "https://files.example.com", "commit": head(signed / "root"), "version": VERSION}}


def test_signed_again_by_another_key_it_is_the_other_ones(made, signed):
    release, dist, _ = made
    release.sign(dist, signed / "keys" / "cosign.key")
    release.sign(dist, signed / "others" / "cosign.key")
    assert refusals(dist, checks(dist)) == set()
    assert sha256(dist / "moonfence.pub") == sha256(signed / "others" / "cosign.pub")


def test_a_key_that_cannot_be_opened_is_told_before_anything_is_made(release, signed, monkeypatch):
    key = signed / "keys" / "cosign.key"
    release.check_key(key)
    monkeypatch.setenv("COSIGN_PASSWORD", "another")
    with pytest.raises(SystemExit, match="cosign sign-blob: .*decrypt"):
        release.check_key(key)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(SystemExit, match="needs cosign 3.1 in the PATH"):
        release.check_key(key)


def test_an_image_is_signed_in_its_registry(dist, signed):
    """By the commands of docs/releasing.md, and verified by that of docs/install.md."""
    port = free_port()
    served = subprocess.Popen(["crane", "registry", "serve", "--address", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        digest, words = digest_of_image(dist), {"registry.example.com": f"127.0.0.1:{port}", "0.1.0": VERSION}
        assert run("mkdir oci && tar -C oci -xf " + IMAGE, dist).returncode == 0
        pushed = run(f"for i in $(seq 50); do crane push oci 127.0.0.1:{port}/moonfence:{VERSION} && exit; sleep 0.1; done; exit 1", dist)
        assert pushed.returncode == 0, pushed.stdout
        index = json.loads(run(f"crane manifest 127.0.0.1:{port}/moonfence@sha256:{digest}", dist).stdout)
        assert [each["platform"]["architecture"] for each in index["manifests"]] == ["amd64", "arm64"]
        verify = next(each for each in documented("Verify", words) if each.startswith("cosign verify --key")).replace("DIGEST", digest)
        assert run(verify, dist).returncode != 0, "it is not signed yet"
        shutil.copy(signed / "keys" / "cosign.key", dist / "moonfence.key")
        text = (REPO / "docs" / "releasing.md").read_text().split("To write into no log")[1].split("```")[1]
        for command in re.findall(r"^ *\$ (.*)$", text, re.M):
            done = run(command.replace("DIGEST", digest).replace("registry.example.com", f"127.0.0.1:{port}"), dist)
            assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert run(verify, dist).returncode == 0
        shutil.copy(signed / "others" / "cosign.pub", dist / "moonfence.pub")
        assert run(verify, dist).returncode != 0, "it is another one's key"
    finally:
        served.terminate()
        served.wait()


def test_krew_installs_the_plugin_and_takes_it_away(dist, tools, tmp_path, monkeypatch):
    """By the commands of docs/install.md; krew itself is a plug-in. It wants an index to be there, and need not be told of ours."""
    (tools / "kubectl-krew").symlink_to(tools / "krew")
    root = tmp_path / "krew"
    monkeypatch.setenv("KREW_ROOT", str(root))
    monkeypatch.setenv("KREW_NO_UPGRADE_CHECK", "1")
    monkeypatch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")
    subprocess.run(["git", "init", "--quiet", root / "index" / "default"], check=True)
    install, version, uninstall = documented("As a plug-in of kubectl", {"0.1.0": VERSION})
    changed = shutil.copytree(dist, tmp_path / "changed")
    flip(changed / PLUGIN)
    refused = run(install, changed)
    assert refused.returncode != 0 and not (root / "bin" / "kubectl-moonfence").exists(), refused.stdout
    installed = run(install, dist)
    assert installed.returncode == 0, installed.stdout
    told = subprocess.run([binary(), "version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert run(version, dist).stdout == told
    gone = run(uninstall, dist)
    assert gone.returncode == 0 and not (root / "bin" / "kubectl-moonfence").exists(), gone.stdout


@pytest.mark.slow
def test_a_whole_release_is_verified_as_documented(request, tmp_path, monkeypatch):
    """Image, bill of materials and Debian package are the real ones, of the program that is there."""
    module, out = scripts_release(monkeypatch), tmp_path / "dist"
    monkeypatch.setattr(module, "build_program", lambda _: binary())
    module.make(out, "https://files.example.com")
    request.getfixturevalue("tools")  # from here on without a network
    module.sign(out, new_key(tmp_path / "keys"))
    image = next(out.glob("*.tar"))
    digest = re.search(r"sha256:([0-9a-f]{64})", run(f"tar -xOf {image.name} index.json", out).stdout)[1]
    said = [each for each in documented("Verify", {"moonfence-0.1.0-image-linux.tar": image.name, "0.1.0": module.version(), "DIGEST": digest})
            if not each.startswith(("kubectl", "cosign verify --key"))]
    assert len(said) == 8
    for command in said:
        done = run(command, out)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
    told = json.loads((out / module.provenance_name()).read_text())["predicate"]["buildDefinition"]["resolvedDependencies"]
    linked = [each for each in told if "annotations" not in each and each.get("uri", "").startswith("pkg:deb/debian/")]
    assert len(linked) > 10 and all(each.get("digest", {}).get("sha256") for each in linked), linked
    assert len([each for each in told if each.get("annotations") == {"builds": "image"}]) > 50
