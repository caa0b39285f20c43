"""A clean Debian root for scripts/image and scripts/test-arm64: made by mmdebstrap, with compilers for both architectures,
the sources of libraries that Debian has no static ones of, and the tracked files of this checkout. What is built in it depends on
nothing else of this computer."""
import contextlib
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

from artifact import ROOT, commit, fail, output, say

ARCHITECTURES = ("amd64", "arm64")
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
CERTIFICATES = "ca-certificates"  # the public CAs that the image trusts
TOOLS = ("debian-archive-keyring", "g++", "g++-aarch64-linux-gnu", "cmake", "ninja-build", "pkg-config", "make", "patch", "dpkg-dev",
         "ccache", "qemu-user-static", "nlohmann-json3-dev", "libcli11-dev", "libexpected-dev", CERTIFICATES)
LIBRARIES = ("libc6-dev", "liblua5.4-dev", "libexpat1-dev", "libssl-dev", "libgtest-dev", "libgmock-dev")
# Source packages, and the static library of each that is linked (scripts/static-build).
SOURCES = {"curl": "curl", "libmicrohttpd": "microhttpd", "fmtlib": "fmt", "spdlog": "spdlog", "simdjson": "simdjson",
           "prometheus-cpp": "prometheus-cpp-core", "yaml-cpp": "yaml-cpp"}
# What is compiled in from headers alone; the linker does not tell of it.
HEADERS = ("nlohmann-json3-dev", "libcli11-dev", "libexpected-dev")
SHOWN = "packages.shown"  # what apt's signed lists say of each package of the root; the lists themselves go
EMULATOR = "usr/bin/qemu-aarch64-static"  # runs programs for arm64
# Ends with everything that it started and mounted, however it ends, and ends when we do, even if we are killed.
CONTAINED = ("setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child")
HOURS = 6  # nothing takes as long: whoever waits for a server that does not answer is told


def sources(work, source_packages=False, etc=pathlib.Path("/etc")):
    """(suite, a file of package sources): Debian's own, signed by Debian's keys. Of this computer's sources only their servers count."""
    named = re.search(r'^VERSION_CODENAME="?([^"\n]+)', (etc / "os-release").read_text(), re.M)
    if not named or named[1] != SUITE:
        fail(f"the image is made of Debian 12 ({SUITE}) on Debian 12; this computer has {named[1] if named else 'no version of Debian'}")
    mirrors = {suite: [] for suite in (SUITE, f"{SUITE}-security")}
    for place in [etc / "apt" / "sources.list", *sorted((etc / "apt" / "sources.list.d").glob("*"))]:
        for uri, suite, trusted in _entries(place):
            # Others call their folder debian too, but it lies deeper.
            if suite in mirrors and urllib.parse.urlsplit(uri).path.strip("/") == ("debian" if suite == SUITE else "debian-security"):
                if trusted:
                    fail(f"{place} says trusted for {uri}: what comes from there would not be verified; remove the word")
                mirrors[suite].append(uri)
    for suite, uris in mirrors.items():
        if not uris:
            fail(f"no package source in {etc}/apt has the suite {suite} on a server's /debian or /debian-security")
    file = work / "debian.sources"
    file.write_text("\n".join(
        f"Types: deb{' deb-src' if source_packages else ''}\nURIs: {' '.join(dict.fromkeys(uris))}\n"
        f"Suites: {f'{SUITE} {SUITE}-updates' if suite == SUITE else suite}\nComponents: main\nSigned-By: {KEYRING}\n"
        for suite, uris in mirrors.items()))
    return SUITE, file


def _entries(place):
    """(URI, suite, whether it is to be believed unsigned) of a file of apt."""
    text = place.read_text() if place.is_file() and place.suffix in (".list", ".sources") else ""
    if place.suffix == ".list":
        for options, uri, suite in re.findall(r"^[ \t]*deb(?:-src)?[ \t]+(?:\[(.*?)\][ \t]+)?(\S+)[ \t]+(\S+)", text, re.M):
            yield uri, suite, re.search(r"(^|\s)trusted\s*=", options, re.I) is not None
        return
    for stanza in re.split(r"\n\s*\n", re.sub(r"^#.*\n?", "", text, flags=re.M)):
        fields = {key.lower(): value.split() for key, value in re.findall(r"^([\w-]+):((?:.|\n[ \t])*)", stanza, re.M)}
        if fields.get("enabled") not in (["no"], ["false"], ["0"]):
            for uri in fields.get("uris", ()):
                for suite in fields.get("suites", ()):
                    yield uri, suite, "trusted" in fields


def why_not(told):
    """mmdebstrap's own words are many; the one that counts is usually apt's."""
    named = [line for line in told.splitlines() if line.startswith("E: ") and "run-scripts" not in line]
    for line in named:
        if "Unable to find a source package" in line:
            return f"the package source has no source packages (deb-src): {line}"
        if "Unable to locate package" in line and ":arm64" in line:
            return f"the package source has no arm64: {line}"
    return named[0] if named else (told.strip().splitlines() or ["mmdebstrap said nothing"])[-1]


def check_needs():
    if os.geteuid() != 0:
        fail("the clean root needs root: run it with sudo, or make the image of programs that are there with --binary")
    if output("dpkg", "--print-architecture").strip() != "amd64":
        fail("the clean root is made on amd64; elsewhere make the image of programs that are there with --binary")


class CleanRoot:
    """In `path`, until the context ends. `ccache`: a folder that is used by the compilers, or None."""

    def __init__(self, path, ccache):
        self.path, self.ccache = path, ccache
        self.changing, self.processes, self.stopped = threading.Lock(), set(), False

    def run(self, *command, check=True, network=True, **more):
        """In the root, with mounts of its own that end with it."""
        mounts = ["mount -t proc proc proc"]
        if self.ccache:
            mounts.append(f"mount --bind {shlex.quote(str(self.ccache))} ccache")
        script = f"cd {shlex.quote(str(self.path))} && {' && '.join(mounts)} && exec chroot . \"$@\""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/root",
                       "MOONFENCE_COMMIT": commit()[:12],
                       **({"CCACHE_DIR": "/ccache"} if self.ccache else {"CCACHE_DISABLE": "1"})}
        return self.running([*CONTAINED, *([] if network else ["--net"]), "sh", "-ec", script, "sh", *map(str, command)], check,
                            env=environment, **more)

    def running(self, command, check, **more):
        """As subprocess.run, but `stop` ends it."""
        with self.changing:
            if self.stopped:
                raise RuntimeError("stopped")
            process = subprocess.Popen(command, **more)
            self.processes.add(process)
        try:
            told, _ = process.communicate(timeout=HOURS * 3600)
        finally:
            process.kill()
            process.wait()
            self.processes.discard(process)
        done = subprocess.CompletedProcess(command, process.returncode, told)
        if check:
            done.check_returncode()
        return done

    def stop(self):
        """What runs in other threads ends, and nothing more begins."""
        with self.changing:
            self.stopped = True
            for process in list(self.processes):
                process.kill()

    def output(self, *command):
        return self.run(*command, stdout=subprocess.PIPE, text=True).stdout

    def build(self, architecture, *targets):
        """Without network: what is compiled is what lies in the root."""
        say(f"building for {architecture} in a clean root")
        with open(self.path / "build" / f"{architecture}.log", "w+") as log:
            done = self.run("/moonfence/scripts/static-build", architecture, *targets, check=False, network=False, stdout=log,
                            stderr=subprocess.STDOUT)
            log.seek(0)
            if done.returncode:
                fail(f"{architecture}: the build failed: {log.read()[-4000:]}")
        return self.path / "build" / architecture / "moonfence"

    def stripped(self, program, target, architecture):
        """A copy without symbols, debug information and the build id."""
        strip = {"amd64": "x86_64-linux-gnu-strip", "arm64": "aarch64-linux-gnu-strip"}[architecture]
        self.run(strip, "--remove-section=.note.gnu.build-id", f"/{program.relative_to(self.path)}")
        return pathlib.Path(shutil.copy(program, target))

    def place(self, path):
        """Where a path of the root lies, also behind its symbolic links."""
        return self.path / self.output("readlink", "-f", path).strip().lstrip("/")


SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


@contextlib.contextmanager
def ended_by_signals():
    """They end the script as an error does, so that nothing is left behind."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    for each, was in before.items():
        if was != signal.SIG_IGN:  # nohup
            signal.signal(each, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        for each in SIGNALS:
            signal.signal(each, before[each])


@contextlib.contextmanager
def clean_root(ccache=None, of_commit=None):
    """With the files of that commit, or with the tracked files as they stand."""
    check_needs()
    with ended_by_signals(), tempfile.TemporaryDirectory(prefix="image-") as place:
        work, path = pathlib.Path(place), pathlib.Path(place) / "root"
        try:
            _make(work, path)
            for folder in ("moonfence", "build", "ccache"):
                (path / folder).mkdir()
            copy_checkout(path / "moonfence", of_commit)
            yield CleanRoot(path, ccache)
        finally:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_IGN)
            # Never what may be mounted there, though nothing should be.
            subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)


def _make(work, path):
    suite, source = sources(work, source_packages=True)
    packages = [*TOOLS, *(f"{library}:{architecture}" for library in LIBRARIES for architecture in ARCHITECTURES)]
    say("making a clean root")
    # The folders of the sources get names without versions.
    fetch = ("mkdir sources && cd sources && apt-get source -qq " + " ".join(SOURCES) +
             " && for folder in */; do mv $folder $(dpkg-parsechangelog -l $folder/debian/changelog -S Source); done" +
             f' && dpkg-query -W -f "\\${{binary:Package}}=\\${{Version}}\\n" | xargs apt-cache show >/{SHOWN}')
    done = subprocess.run(
        [*CONTAINED, "--mount-proc", "mmdebstrap", "--quiet", "--mode=root", "--variant=apt", f"--architectures={','.join(ARCHITECTURES)}",
         f"--include={','.join(packages)}", "--dpkgopt=force-unsafe-io", f"--customize-hook=chroot \"$1\" sh -ec '{fetch}'",
         suite, path, source], env={**os.environ, "TMPDIR": str(work)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        timeout=HOURS * 3600)
    if done.returncode:
        fail(f"the clean root cannot be made: {why_not(done.stdout)}")


def copy_checkout(target, of_commit=None, checkout=ROOT):
    """What git tracks: of that commit, whatever lies in the checkout; without one as it stands in the checkout."""
    if of_commit:
        # Attributes of this computer could leave files out or change them: none are asked.
        with tempfile.TemporaryDirectory(prefix="image-git-") as place:
            of_our_own = {**os.environ, "GIT_DIR": place, "GIT_ATTR_NOSYSTEM": "1", "GIT_NO_REPLACE_OBJECTS": "1",
                          "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": place, "XDG_CONFIG_HOME": place}
            objects = output("git", "-C", checkout, "rev-parse", "--path-format=absolute", "--git-path", "objects").strip()
            subprocess.run(["git", "init", "--quiet", "--bare", "--template="], env=of_our_own, check=True)
            (pathlib.Path(place) / "objects" / "info" / "alternates").write_text(f"{objects}\n")
            tar = subprocess.run(["git", "archive", of_commit], env=of_our_own, check=True, stdout=subprocess.PIPE).stdout
        subprocess.run(["tar", "-x", "--no-same-owner", "-C", target], input=tar, check=True)
        return
    for name in output("git", "-C", checkout, "ls-files", "-z").split("\0"):
        if name and (checkout / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(checkout / name, target / name, follow_symlinks=False)


class Package:
    """A Debian package of an image: what dpkg says of it, and its licences where they are not among its files already."""

    def __init__(self, name, version, architecture, stanza, sha256=None, copyright=None):
        self.name, self.version, self.architecture, self.stanza = name, version, architecture, stanza
        self.sha256, self.copyright = sha256, copyright


def linked_into(root, architecture, maps):
    """The packages of all static libraries from which the linker took anything, of the programs' start and of the headers."""
    taken = set()
    for file in maps:
        taken.update(os.path.normpath(path) for path in re.findall(r"^(/\S+\.a)\(", file.read_text(), re.M))
    if not taken:
        fail(f"{maps[0]} names no library")
    mine = f"/build/{architecture}/libraries/lib/lib"
    by_library = {f"{mine}{library}.a": source for source, library in SOURCES.items()}
    found = {by_library[path] for path in taken if path in by_library}
    unknown = sorted(path for path in taken if path.startswith("/build/") and path not in by_library)
    if unknown:
        fail(f"{unknown[0]} is of no source that scripts/clean_root.py knows")
    owners = root.output("dpkg-query", "-S", *sorted(path for path in taken if not path.startswith("/build/")))
    debs = {line.split(": ")[0] for line in owners.splitlines()} | set(HEADERS)
    packages = [_source_package(root, name) for name in found] + [_binary_package(root, name) for name in debs]
    return sorted(packages, key=lambda package: package.name)


def _source_package(root, name):
    (described,) = (root.path / "sources").glob(f"{name}_*.dsc")
    version = re.search(r"^Version: (\S+)$", described.read_text(), re.M)[1]
    # As of an installed package: scanners go by source and version.
    stanza = (f"Package: {name}\nStatus: install ok installed\nSource: {name}\nVersion: {version}\nArchitecture: all\n"
              f"Description: linked into moonfence, built from Debian's source package\n")
    return Package(name, version, "source", stanza, hashlib.sha256(described.read_bytes()).hexdigest(),
                   (root.path / "sources" / name / "debian" / "copyright").read_bytes())


def _binary_package(root, name):
    stanza = root.output("dpkg-query", "-s", name)
    fields = dict(re.findall(r"^(\S+): (.*)$", stanza, re.M))
    plain = fields["Package"]
    kept = "".join(f"{key}: {fields[key]}\n" for key in ("Package", "Status", "Source", "Version", "Architecture", "Maintainer")
                   if key in fields)
    return Package(plain, fields["Version"], fields["Architecture"], kept, _checksum(root, fields),
                   root.place(f"/usr/share/doc/{plain}/copyright").read_bytes())


def _checksum(root, fields):
    """Of the .deb that was installed."""
    for stanza in (root.path / SHOWN).read_text().split("\n\n"):
        shown = dict(re.findall(r"^(\S+): (.*)$", stanza, re.M))
        if "SHA256" in shown and all(shown.get(key) == fields[key] for key in ("Package", "Version", "Architecture")):
            return shown["SHA256"]
    return fail(f"apt knows no checksum of {fields['Package']} {fields['Version']} {fields['Architecture']}")


def certificates(root):
    """(the package of the public CAs, all of them in one file)"""
    files = sorted((root.path / "usr" / "share" / "ca-certificates").rglob("*.crt"))
    if not files:
        fail(f"{CERTIFICATES} has no certificates")
    return _binary_package(root, CERTIFICATES), b"".join(file.read_bytes().rstrip() + b"\n" for file in files)


def build_packages(root):
    """What the image was compiled with: NAME, VERSION and ARCHITECTURE of each package of the root."""
    told = root.output("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}\n")
    return "".join(sorted(told.splitlines(keepends=True)))
