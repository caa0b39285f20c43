"""scripts/image, as far as it goes without fetching packages and compiling: what gets into the image, and that nothing else
decides about its bytes. `scripts/image --verify` does the rest."""

import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
import threading

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
    layer.take(tree(tmp_path / "tree.tar", {**KEPT, **LEFT}, 7), image.LEFT_OUT)
    with tarfile.open(fileobj=io.BytesIO(layer.tar(5))) as tar:
        members = {member.name: member for member in tar}
        assert {name for name, member in members.items() if member.isfile()} == set(KEPT)
        assert {(m.uid, m.gid, m.uname, m.mtime) for m in members.values()} == {(0, 0, "", 5)}
    assert {name: oct(member.mode) for name, member in members.items() if member.isfile()} == {
        name: "0o755" if mode & 0o111 else "0o644" for name, mode in KEPT.items()}
    assert members["usr/lib"].isdir() and members["usr/lib"].mode == 0o755


@pytest.fixture
def archive(image, tmp_path, monkeypatch):
    """Makes an archive of layers by architecture: (its file, the digest of its index, of each image what it is to download)."""
    oci = sys.modules["oci"]
    monkeypatch.setattr(oci, "commit", lambda: "c" * 40)

    def make(name: str, layers: dict):
        made = oci.Archive(tmp_path / name)
        images = [made.image(layer, architecture, 1_700_000_000) for architecture, layer in layers.items()]
        top = made.index([described for described, _, _ in images], 1_700_000_000)
        made.finish(top, tmp_path / f"{name}.tar", 1_700_000_000)
        return tmp_path / f"{name}.tar", top["digest"], [download for _, download, _ in images]
    return make


def test_the_bytes_depend_on_names_and_contents_alone(image, archive, tmp_path):
    told = []
    for number, order in ((1, sorted), (2, lambda names: sorted(names, reverse=True))):
        layer = image.Layer()
        layer.take(tree(tmp_path / f"{number}.tar", KEPT, number, order), image.LEFT_OUT)
        file, digest, download = archive(f"out{number}", {"amd64": layer})
        told.append((digest, hashlib.sha256(file.read_bytes()).hexdigest(), download))
    assert told[0] == told[1]
    layer.add("etc/passwd", "root:x:0:0::/:\n")
    assert archive("out3", {"amd64": layer})[1] != told[0][0]


def test_an_image_that_grew_past_its_limit_is_refused(image):
    image.check_size(17_000_000)
    with pytest.raises(SystemExit, match="17.0 MB to download, more than 17 MB"):
        image.check_size(17_000_001)


def test_the_archive_is_what_its_index_says(image, archive):
    layers = {}
    for architecture in ("amd64", "arm64"):
        layers[architecture] = image.Layer()
        layers[architecture].add(image.PROGRAM, f"program of {architecture}", image.RUNNABLE)
    file, digest, downloads = archive("out", layers)
    with tarfile.open(file) as tar:
        blobs = {name: tar.extractfile(name).read() for name in tar.getnames() if tar.getmember(name).isfile()}

    def blob(described: dict) -> bytes:
        content = blobs["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
        assert len(content) == described["size"] and f"sha256:{hashlib.sha256(content).hexdigest()}" == described["digest"]
        return content
    assert image.layers_in(file) == {name: layer.tar(1_700_000_000) for name, layer in layers.items()}
    (named,) = json.loads(blobs["index.json"])["manifests"]
    assert named["digest"] == digest and json.loads(blobs["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    index = json.loads(blob(named))
    assert index["mediaType"] == named["mediaType"] == "application/vnd.oci.image.index.v1+json"
    for described, (architecture, layer), download in zip(index["manifests"], layers.items(), downloads, strict=True):
        manifest = json.loads(blob(described))
        config = json.loads(blob(manifest["config"]))
        assert described["platform"] == {"architecture": architecture, "os": "linux"} and config["architecture"] == architecture
        assert config["config"]["User"] == "65532:65532" and config["config"]["Entrypoint"] == ["/usr/bin/moonfence"]
        unpacked = image.gzip.decompress(blob(manifest["layers"][0]))
        assert unpacked == layer.tar(1_700_000_000) and download == sum(
            each["size"] for each in (described, manifest["config"], manifest["layers"][0]))
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(unpacked).hexdigest()}"]


def test_the_plugin_is_the_commands_and_all_licences(image, tmp_path):
    program = tmp_path / "moonfence"
    program.write_bytes(b"program")
    packages = [image.Package(name, "1.0", "amd64", "", copyright=f"words of {name}\n".encode()) for name in ("curl", "libc6-dev")]
    for name in ("one", "two"):
        image.write_client(program, tmp_path / f"{name}.tar.gz", 5, packages, "{}")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as tar:
        assert {member.name: (member.mode, member.uid) for member in tar} == {
            "kubectl-moonfence": (0o755, 0), "LICENSE": (0o644, 0), "NOTICES": (0o644, 0), "sbom.spdx.json": (0o644, 0)}
        assert tar.extractfile("kubectl-moonfence").read() == b"program"
        notices = tar.extractfile("NOTICES").read().decode()
    assert "curl 1.0" in notices and "words of curl\n" in notices and "words of libc6-dev\n" in notices


MAP = """Archive member included to satisfy reference by file (symbol)

/usr/lib/gcc/x86_64-linux-gnu/12/../../../x86_64-linux-gnu/libssl.a(ssl_lib.o)
                              engine/libmoonfence_os_net.a(exchange.cc.o) (SSL_new)
/build/amd64/libraries/lib/libcurl.a(libcurl_la-easy.o)
"""


class Root:
    """A clean root in which dpkg knows one package."""

    def __init__(self, path):
        self.path = path
        (path / "sources" / "curl" / "debian").mkdir(parents=True)
        (path / "sources" / "curl" / "debian" / "copyright").write_text("curl's\n")
        (path / "sources" / "curl_7.88.1-10+deb12u15.dsc").write_text("Source: curl\nVersion: 7.88.1-10+deb12u15\n")
        (path / "copyright").write_text("somebody's\n")
        (path / "packages.shown").write_text("".join(  # of the installed version, of an older one, and what dpkg knows itself
            f"Package: {name}\nVersion: {version}\nArchitecture: {architecture}\n{checksum}\n"
            for name in ("libssl-dev", "libcli11-dev", "libexpected-dev", "nlohmann-json3-dev", "ca-certificates")
            for version, architecture, checksum in (("0.9", "all", "SHA256: 00\n"), ("1:1.0+deb12~1", "arm64", "SHA256: 01\n"),
                                                    ("1:1.0+deb12~1", "all", ""), ("1:1.0+deb12~1", "all", f"SHA256: {'ab' * 32}\n"))))

    def output(self, *command):
        if command[:2] == ("dpkg-query", "-S"):
            return "".join(f"libssl-dev:amd64: {path}\n" for path in command[2:])
        if command[:2] == ("dpkg-query", "-W"):
            return "zlib1g\t1:1.2\tarm64\ncmake\t3.25\tamd64\nzlib1g\t1:1.2\tamd64\n"
        name = command[2].split(":")[0]
        return (f"Package: {name}\nStatus: install ok installed\nSource: openssl (3.0.22)\nVersion: 1:1.0+deb12~1\n"
                "Architecture: all\nDepends: x\n")

    def place(self, path):
        return self.path / "copyright"


def test_the_bill_names_what_the_linker_took_and_the_headers(image, tmp_path):
    (tmp_path / "map").write_text(MAP)
    packages = {package.name: package for package in image.linked_into(Root(tmp_path), "amd64", [tmp_path / "map"])}
    assert set(packages) == {"curl", "libssl-dev", "libcli11-dev", "libexpected-dev", "nlohmann-json3-dev"}
    assert packages["curl"].version == "7.88.1-10+deb12u15" and packages["curl"].copyright == b"curl's\n"
    told = image.spdx(packages["libssl-dev"], "debian-12")
    assert told["sourceInfo"] == "built from: openssl 3.0.22"
    assert told["externalRefs"][0]["referenceLocator"] == "pkg:deb/debian/libssl-dev@1%3A1.0%2Bdeb12~1?arch=all&distro=debian-12"
    assert told["checksums"] == [{"algorithm": "SHA256", "checksumValue": "ab" * 32}] and ".dsc" not in told["comment"]
    assert ".dsc" in image.spdx(packages["curl"], "debian-12")["comment"] and packages["curl"].sha256


def test_a_package_whose_checksum_nobody_knows_is_told(image, tmp_path):
    root = Root(tmp_path)
    (tmp_path / "packages.shown").write_text("")
    (tmp_path / "map").write_text(MAP)
    with pytest.raises(SystemExit, match="no checksum of .* 1:1.0"):
        image.linked_into(root, "amd64", [tmp_path / "map"])


def test_what_compiled_the_image_is_told_in_order(image, tmp_path):
    assert image.build_packages(Root(tmp_path)) == "cmake\t3.25\tamd64\nzlib1g\t1:1.2\tamd64\nzlib1g\t1:1.2\tarm64\n"


def test_the_public_cas_are_one_file_of_a_package(image, tmp_path, monkeypatch):
    monkeypatch.setattr(image, "commit", lambda: "c" * 40)
    root, folder = Root(tmp_path), tmp_path / "usr" / "share" / "ca-certificates" / "mozilla"
    with pytest.raises(SystemExit, match="no certificates"):
        image.certificates(root)
    folder.mkdir(parents=True)
    for name, end in (("b.crt", "\n"), ("a.crt", "")):
        (folder / name).write_text(f"of {name}{end}")
    package, cas = image.certificates(root)
    assert cas == b"of a.crt\nof b.crt\n" and package.name == "ca-certificates" and package.sha256 == "ab" * 32
    (tmp_path / "os-release").write_text('NAME="x"\nVERSION_ID="12"\n')
    program = tmp_path / "moonfence"
    program.write_bytes(b"program")
    bill = json.loads(image.bill_of_materials([package], [program], 5, "STATIC_LINK", tmp_path / "os-release"))
    assert [each["relationshipType"] for each in bill["relationships"]] == ["DESCRIBES", "DEPENDS_ON"]


@pytest.mark.parametrize("text", ["", MAP.replace("libcurl.a", "libother.a")], ids=["of nothing", "of a library that nobody knows"])
def test_a_bill_that_would_not_be_whole_is_none(image, tmp_path, text):
    (tmp_path / "map").write_text(text)
    with pytest.raises(SystemExit, match="names no library|libother.a is of no source"):
        image.linked_into(Root(tmp_path), "amd64", [tmp_path / "map"])


@pytest.mark.parametrize("told, said", [
    ("I: x\nE: Unable to locate package libssl-dev:arm64\nE: run-scripts failed\n", "has no arm64"),
    ("E: Unable to find a source package for curl\n", "no source packages"),
    ("Err: x\nE: Failed to fetch a file\n", "E: Failed to fetch a file")])
def test_a_root_that_cannot_be_made_is_one_clear_line(told, said):
    assert said in sys.modules["clean_root"].why_not(told) and "\n" not in sys.modules["clean_root"].why_not(told)


def test_what_cannot_be_made_here_is_told_before_anything_is_done(image, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["clean_root"].os, "geteuid", lambda: 1000)
    with pytest.raises(SystemExit, match="the clean root needs root"):
        sys.modules["clean_root"].check_needs()
    refused = subprocess.run([REPO / "scripts" / "image", "--binary", "moonfence", "--arch", "arm64"], capture_output=True, text=True)
    assert refused.returncode == 2 and "--arch and --ccache are of the image" in refused.stderr


DEBIAN = """Types: deb
# of the day before
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
"""
OTHERS = """deb [signed-by=/usr/share/keyrings/docker.gpg] https://download.docker.example/linux/debian bookworm stable
deb http://backports.example/debian bookworm-backports main
deb [trusted=yes] http://other.example/tools bookworm main
deb http://trixie.example/debian trixie main
"""


def apt(path, debian=DEBIAN, others=OTHERS, release="bookworm"):
    (path / "apt" / "sources.list.d").mkdir(parents=True)
    (path / "os-release").write_text(f'ID=debian\nVERSION_CODENAME="{release}"\n')
    (path / "apt" / "sources.list.d" / "debian.sources").write_text(debian)
    (path / "apt" / "sources.list.d" / "others.list").write_text(others)
    (path / "apt" / "sources.list.d" / "old.list.disabled").write_text("deb http://old.example/debian bookworm main\n")
    return path


def test_packages_come_from_debian_alone_and_are_signed_by_it(image, tmp_path):
    suite, file = image.sources(tmp_path, source_packages=True, etc=apt(tmp_path / "etc"))
    assert suite == "bookworm" and file.read_text() == """Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb deb-src
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


def test_package_sources_in_the_older_form_are_understood(image, tmp_path):
    older = "deb [signed-by=/etc/apt/trusted.gpg.d/a.gpg] http://a.example/debian bookworm main\ndeb http://b.example/debian-security/ bookworm-security main\n"
    told = image.sources(tmp_path, etc=apt(tmp_path / "etc", "", older))[1].read_text()
    assert "Types: deb\nURIs: http://a.example/debian\n" in told and "URIs: http://b.example/debian-security/\n" in told


@pytest.mark.parametrize("changed, said", [
    ({"debian": "Trusted: yes\n" + DEBIAN}, "says trusted"),
    ({"others": "deb [ arch=amd64 trusted=yes ] http://a.example/debian bookworm main\n"}, "says trusted"),
    ({"debian": DEBIAN.replace("bookworm-security", "trixie-security")}, "has the suite bookworm-security"),
    ({"debian": "Enabled: no\n" + DEBIAN}, "has the suite bookworm on"),
    ({"release": "trixie"}, "this computer has trixie")])
def test_package_sources_that_are_not_debians_are_refused(image, tmp_path, changed, said):
    with pytest.raises(SystemExit, match=said):
        image.sources(tmp_path, etc=apt(tmp_path / "etc", **changed))


def git(folder, *words):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", *words], check=True, stdout=subprocess.DEVNULL)


def test_what_is_compiled_is_the_commit_whatever_the_checkout_has(image, tmp_path, monkeypatch):
    checkout, home = tmp_path / "checkout", tmp_path / "home"
    for folder in (checkout / "policies", home / ".config" / "git"):
        folder.mkdir(parents=True)
    for name in ("engine.cc", "policies/a.lua", "LICENSE"):
        (checkout / name).write_text("committed\n")
    git(tmp_path, "init", "--quiet", checkout)
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "one")
    commit = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    git(checkout, "update-index", "--assume-unchanged", "engine.cc", "policies/a.lua")
    for name in ("engine.cc", "policies/a.lua"):
        (checkout / name).write_text("edited\n")
    for attributes in (checkout / ".git" / "info" / "attributes", home / ".config" / "git" / "attributes"):
        attributes.parent.mkdir(exist_ok=True)
        attributes.write_text("LICENSE export-ignore\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    of_commit, as_it_stands = tmp_path / "of-commit", tmp_path / "as-it-stands"
    for folder, name in ((of_commit, commit), (as_it_stands, None)):
        folder.mkdir()
        sys.modules["clean_root"].copy_checkout(folder, name, checkout)
    assert {str(file.relative_to(of_commit)): file.read_text() for file in of_commit.rglob("*") if file.is_file()} == {
        name: "committed\n" for name in ("engine.cc", "policies/a.lua", "LICENSE")}
    assert (as_it_stands / "engine.cc").read_text() == "edited\n"
    program = tmp_path / "moonfence"
    program.write_bytes(b"program")
    assert image.layer_of([], [program], "{}", of_commit).entries[f"{image.POLICIES}/a.lua"][0] == b"committed\n"


def test_what_runs_in_a_clean_root_can_be_ended_from_another_thread(image, tmp_path):
    root, ended = sys.modules["clean_root"].CleanRoot(tmp_path, None), []
    thread = threading.Thread(target=lambda: ended.append(root.running(["sh", "-c", "echo; exec sleep 600"], False, stdout=begun).returncode))
    begins, begun = os.pipe()
    thread.start()
    os.read(begins, 1)
    root.stop()
    thread.join()
    os.close(begins)
    os.close(begun)
    assert ended == [-signal.SIGKILL] and not root.processes
    with pytest.raises(RuntimeError):
        root.running(["true"], True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_end_the_script_as_errors_do(image, number):
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended, sys.modules["clean_root"].ended_by_signals():
        signal.raise_signal(number)
    assert ended.value.code == 128 + number and signal.getsignal(number) == before


def test_what_is_started_ends_with_a_script_that_is_killed(image):
    contained = [word for word in sys.modules["clean_root"].CONTAINED if word not in ("--mount", "--pid")]  # those want root
    work = "import time; print('begun', flush=True); time.sleep(5); print('still there')"
    script = f"import subprocess; subprocess.run({[*contained, sys.executable, '-c', work]})"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as started:
        assert started.stdout.readline() == b"begun\n"
        started.kill()
        assert started.stdout.read() == b""


def test_an_archive_whose_layer_was_exchanged_is_refused(image, archive, tmp_path):
    layer = image.Layer()
    layer.add(image.PROGRAM, "program", image.RUNNABLE)
    file, _, _ = archive("out", {"amd64": layer})
    forged = image.Layer()
    with tarfile.open(file) as tar:
        for member in tar:
            if member.isfile():
                content = tar.extractfile(member).read()
                forged.add(member.name, content + b"x" if content[:2] == b"\x1f\x8b" else content)
    file.write_bytes(forged.tar(5))
    with pytest.raises(SystemExit, match="is something else"):
        image.layers_in(file)


def test_two_runs_are_compared_file_by_file(image, tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder / "oci").mkdir(parents=True)
        for name in ("same", "oci/other", f"only-{folder}"):
            (tmp_path / folder / name).write_text(folder if name == "oci/other" else "the same")
    assert image.differences(tmp_path / "one", tmp_path / "two") == ["oci/other", "only-one", "only-two"]
    assert not image.differences(tmp_path / "one", tmp_path / "one")


def test_a_folder_gets_files_only_when_all_are_made(image, tmp_path):
    out = tmp_path / "out"
    (out / "oci").mkdir(parents=True)
    for name in ("oci/old", "archive", "somebody's"):
        (out / name).write_text("old")

    def run(fails):
        with image.replacing(out) as folder:
            (folder / "oci").mkdir()
            for name in ("oci/new", "archive"):
                (folder / name).write_text("new")
            if fails:
                raise OSError
        return {str(file.relative_to(out)): file.read_text() for file in out.rglob("*") if file.is_file()}
    with pytest.raises(OSError):
        run(True)
    assert (out / "archive").read_text() == "old" and [file.name for file in tmp_path.iterdir()] == ["out"]
    assert run(False) == {"oci/new": "new", "archive": "new", "somebody's": "old"}
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
