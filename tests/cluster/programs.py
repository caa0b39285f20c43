#!/usr/bin/python3
"""Find the programs of a Kubernetes cluster; build those that are missing.

    tests/cluster/programs.py [--kubernetes 1.34] [--no-build] [NAME...]

NAME is a part or one program of it; without one it is the control plane (kubernetes, etcd). Prints `PROGRAM PATH` for each.

    kubernetes  kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kubectl
    etcd        etcd
    attacher    csi-attacher
    containerd  containerd, containerd-shim-runc-v2, ctr
    node        runc; ptp, host-local and loopback of the CNI
    helm        helm
    storage     csi-driver, writer: our own, in storage/
    collector   an OpenTelemetry collector of the parts that collector/main.go names

They are Go modules, pinned by the go.mod and go.sum of their part in modules/, and are built into
${XDG_CACHE_HOME:-~/.cache}/moonfence/programs/, one folder for each part, version, Go and way to build. What nobody
used for 30 days is removed from there. Built with the `go` in PATH; where that is missing or too old, with a newer one
that it, or Debian's golang-1.19-go, fetches as a module.

Variables: MOONFENCE_KUBERNETES is the version when --kubernetes is not given. KUBEBUILDER_ASSETS is a folder with
kube-apiserver and etcd, as envtest has it: what is in there is taken from there.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = HERE / "modules"
OWN = {"storage": HERE / "storage", "collector": HERE / "collector"}  # parts whose sources are ours
DEFAULT_KUBERNETES = "1.37"
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
UNUSED_DAYS = 30
TOOLCHAIN = "1.27.3"  # fetched where there is no Go, or one too old for a module
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
FLAGS = "-mod=readonly -trimpath -buildvcs=false"
# What says where modules and caches are is the machine's business; everything else that changes what is built is ours.
KEPT = ("GOPATH", "GOCACHE", "GOMODCACHE", "GOTMPDIR", "GOPROXY", "GOPRIVATE", "GONOPROXY", "GOSUMDB", "GONOSUMDB",
        "GONOSUMCHECK", "GOINSECURE", "GOAUTH", "GOVCS", "GOENV")


class Failure(RuntimeError):
    """Something that a person has to know; printed without a traceback."""


def say(text):
    print(f"programs: {text}", file=sys.stderr, flush=True)


# --- what there is

@dataclass(frozen=True)
class Step:
    """One `go build`: these packages, each into a program of the given name."""

    programs: tuple  # (name, package)
    tags: str = ""
    cgo: bool = False


def commands(module, *names):
    return tuple((name.rsplit("/", 1)[-1], f"{module}/{name}") for name in names)


PARTS = {
    "kubernetes": (Step(commands("k8s.io/kubernetes/cmd", "kube-apiserver", "kube-controller-manager", "kube-scheduler",
                                 "kubelet", "kubectl")),),
    "etcd": (Step((("etcd", "go.etcd.io/etcd/server/v3"),)),),
    "attacher": (Step(commands("github.com/kubernetes-csi/external-attacher/v4/cmd", "csi-attacher")),),
    "containerd": (Step(commands("github.com/containerd/containerd/v2/cmd", "containerd", "containerd-shim-runc-v2", "ctr"),
                        tags="no_btrfs no_zfs no_devmapper"),),
    # without the tag seccomp every pod fails
    "node": (Step(commands("github.com/opencontainers", "runc"), tags="seccomp", cgo=True),
             Step(commands("github.com/containernetworking/plugins/plugins", "main/ptp", "main/loopback", "ipam/host-local"))),
    "helm": (Step(commands("helm.sh/helm/v4/cmd", "helm")),),
    "storage": (Step(commands("moonfence.invalid", "csi-driver", "csi-driver/writer")),),
    "collector": (Step((("collector", "moonfence.invalid/collector"),)),),
    "cosign": (Step(commands("github.com/sigstore/cosign/v3/cmd", "cosign")),
               Step(commands("github.com/google/go-containerregistry/cmd", "crane"))),
    "krew": (Step(commands("sigs.k8s.io/krew/cmd", "krew")),),
}
PART_OF = {name: part for part, steps in PARTS.items() for step in steps for name, _ in step.programs}


def kubernetes_versions() -> list:
    return sorted((path.name.removeprefix("kubernetes-") for path in MODULES.glob("kubernetes-*")), reverse=True)


def chosen_kubernetes(given: str = "") -> str:
    version = given or os.environ.get("MOONFENCE_KUBERNETES") or DEFAULT_KUBERNETES
    if version not in kubernetes_versions():
        where = "--kubernetes" if given else "MOONFENCE_KUBERNETES"
        raise Failure(f"{where}: there is no Kubernetes '{version}'; write one of {', '.join(kubernetes_versions())}")
    return version


def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "moonfence" / "programs"


# --- Go

def environment(**more) -> dict:
    """The caller's environment without what would change the programs."""
    kept = {k: v for k, v in os.environ.items() if k in KEPT or not k.startswith(("GO", "CGO_"))}
    return {**kept, "GOFLAGS": FLAGS, "GOTOOLCHAIN": "local", "GOWORK": "off", **more}


def numbers(version: str) -> tuple:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def version_of(go: str) -> str:
    done = subprocess.run([go, "env", "GOVERSION"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd="/",
                          env=environment())
    return done.stdout.strip().removeprefix("go")


def go_in_path() -> tuple:
    """(path, version), both empty without one."""
    go = shutil.which("go")
    return (go, version_of(go)) if go else ("", "")


def go_version_for(needed: str) -> str:
    """The version of Go that builds a module which needs this one."""
    _, present = go_in_path()
    return present if present and numbers(present) >= numbers(needed) else TOOLCHAIN


def go_of(version: str) -> str:
    """The `go` of that version: the one in PATH, or else the toolchain, which any older Go can fetch."""
    go, present = go_in_path()
    if go and present == version:
        return go
    old = go or "/usr/lib/go-1.19/bin/go"
    if not os.access(old, os.X_OK):
        raise Failure("no Go is here to build them: apt-get install golang-1.19-go (which fetches a newer one), "
                      "or put Go 1.26 or newer into PATH")
    module = f"golang.org/toolchain@v0.0.1-go{version}.linux-{ARCHITECTURE}"
    with tempfile.TemporaryDirectory() as work:
        for name in ("go.mod", "go.sum"):  # which holds the sum of the toolchain
            shutil.copy(MODULES / "toolchain" / name, work)
        done = subprocess.run([old, "mod", "download", "-json", module], cwd=work, capture_output=True, text=True,
                              env=environment(GOFLAGS="-mod=mod"))
    told = json.loads(done.stdout) if done.stdout.startswith("{") else {}
    if done.returncode != 0 or "Dir" not in told:
        raise Failure(f"{old} cannot fetch {module}: {told.get('Error') or done.stderr.strip()[-500:]}")
    folder = Path(told["Dir"])
    for program in (*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")):
        if not os.access(program, os.X_OK):  # the files of a module come without run bits
            program.chmod(0o555)
    return str(folder / "bin" / "go")


# --- one part in the cache

@dataclass(frozen=True)
class Build:
    """A part of one version, and how it is built here. Everything that makes a difference is in its key."""

    part: str
    module: Path
    go_version: str

    @staticmethod
    def of(part: str, kubernetes: str) -> "Build":
        module = OWN.get(part) or MODULES / (f"kubernetes-{kubernetes}" if part == "kubernetes" else part)
        needed = re.search(r"(?m)^go (\S+)$", (module / "go.mod").read_text()).group(1)
        return Build(part, module, go_version_for(needed))

    @property
    def steps(self) -> tuple:
        return PARTS[self.part]

    @property
    def version(self) -> str:
        """That of the module of the first program."""
        if self.part in OWN:
            return "of this checkout"
        first = self.steps[0].programs[0][1]
        required = re.findall(r"(?m)^\s*(?:require )?([\w./-]+\.[\w./-]+) v(\S+?)(?: // indirect)?$", (self.module / "go.mod").read_text())
        return max((len(path), version) for path, version in required if f"{first}/".startswith(f"{path}/"))[1]

    @property
    def stamp(self) -> str:
        """Kubernetes of 1.37 does not start without its version, and clients read it."""
        if self.part != "kubernetes":
            return ""
        major, minor = numbers(self.version)[:2]
        values = {"gitVersion": f"v{self.version}", "gitMajor": major, "gitMinor": minor}
        return "".join(f" -X k8s.io/component-base/version.{name}={value}" for name, value in values.items())

    def command(self, go: str, step: Step, folder) -> list:
        name, packages = step.programs[0][0], [package for _, package in step.programs]
        # of several packages each program is called as its folder is
        out = f"{folder}/{name}" if len(packages) == 1 else f"{folder}/"
        return [go, "build", "-tags", step.tags, "-ldflags", f"-s -w{self.stamp}", "-o", out, *packages]

    @property
    def key(self) -> str:
        told = [(self.module / name).read_text() for name in ("go.mod", "go.sum")]
        if self.part in OWN:
            told += [f"{source.relative_to(self.module)}\n{source.read_text()}"
                     for source in sorted(self.module.rglob("*.go")) if not source.name.endswith("_test.go")]
        told += [self.go_version, ARCHITECTURE, FLAGS]
        told += [f"{step.cgo} {self.command('go', step, '')}" for step in self.steps]
        return f"{self.module.name}-{hashlib.sha256(chr(0).join(told).encode()).hexdigest()[:16]}"

    @property
    def folder(self) -> Path:
        return cache_root() / self.key

    def paths(self) -> dict:
        return {name: self.folder / name for step in self.steps for name, _ in step.programs}

    def present(self) -> bool:
        return self.folder.is_dir()  # which came into its place in one step, with everything in it

    def run(self):
        """Builds beside its place and puts it there in one step. The lock is held."""
        if any(step.cgo for step in self.steps):
            check_c_compiler()
        go = go_of(self.go_version)
        log = cache_root() / f"{self.module.name}.log"
        say(f"building {self.part} {self.version} with Go {self.go_version}")
        began = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix="building.", dir=cache_root()))
        try:
            work.chmod(0o755)
            with open(log, "wb") as out:
                for step in self.steps:
                    self._go(self.command(go, step, work), step, out, log)
            work.rename(self.folder)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        log.unlink()
        say(f"built {self.part} {self.version} in {time.monotonic() - began:.0f} s")

    def _go(self, command: list, step: Step, out, log: Path):
        # a group of its own: compilers end with us, whatever ends us
        child = subprocess.Popen(command, cwd=self.module, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                 env=environment(CGO_ENABLED=str(int(step.cgo))), start_new_session=True)
        try:
            code = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
        if code != 0:
            tail = "\n  ".join(log.read_text(errors="replace").splitlines()[-15:])
            raise Failure(f"go build of {self.part} {self.version} failed with exit status {code}; the end of {log}:\n  {tail}")


def check_c_compiler():
    try:
        done = subprocess.run(["pkg-config", "--exists", "libseccomp"], check=False)
        ready = done.returncode == 0 and shutil.which("gcc")
    except FileNotFoundError:
        ready = False
    if not ready:
        raise Failure("runc is built with libseccomp: apt-get install gcc pkg-config libseccomp-dev")


# --- the cache

@contextlib.contextmanager
def the_only_one():
    """One build at a time on this machine: the others wait, and then find what they need."""
    root = cache_root()
    root.mkdir(parents=True, exist_ok=True)
    with open(root / "lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run builds already; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep():
    """Takes away what a killed run left and what nobody uses any more. The lock is held."""
    for left in cache_root().glob("building.*"):
        shutil.rmtree(left, ignore_errors=True)
    oldest = time.time() - UNUSED_DAYS * 24 * 3600
    for folder in cache_root().iterdir():
        if folder.is_dir() and folder.stat().st_mtime < oldest:
            say(f"removing {folder.name}, which nobody used for {UNUSED_DAYS} days")
            shutil.rmtree(folder, ignore_errors=True)


def built(build: Build, may_build: bool) -> dict:
    """{name: path} of a part."""
    if not build.present():
        if not may_build:
            raise Failure(f"{build.part} {build.version} is not built")
        with the_only_one():
            if not build.present():
                sweep()
                build.run()
    with contextlib.suppress(OSError):  # the cache may be somebody else's
        os.utime(build.folder)  # when it was used last
    return build.paths()


def assets() -> dict:
    """What KUBEBUILDER_ASSETS has of the programs."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if not given:
        return {}
    found = {name: Path(given) / name for name in PART_OF if os.access(Path(given) / name, os.X_OK)}
    for name in ("kube-apiserver", "etcd"):
        if name not in found:
            raise Failure(f"KUBEBUILDER_ASSETS={given} has no {name}")
    return found


def find(*names: str, kubernetes: str = "", may_build: bool = True) -> dict:
    """{program: path} of these parts and programs; builds what is missing."""
    wanted = []
    for name in names or CONTROL_PLANE:
        if name not in PARTS and name not in PART_OF:
            raise Failure(f"there is no part or program '{name}'; the parts are {', '.join(PARTS)}")
        wanted += [n for n, part in PART_OF.items() if name in (n, part)]
    version = chosen_kubernetes(kubernetes)
    found = {name: path for name, path in assets().items() if name in wanted}
    for part in dict.fromkeys(PART_OF[name] for name in wanted if name not in found):
        for name, path in built(Build.of(part, version), may_build).items():
            if name in wanted:
                found.setdefault(name, path)
    return {name: found[name] for name in dict.fromkeys(wanted)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part or a program (default: the control plane)")
    parser.add_argument("--kubernetes", default="", metavar="VERSION",
                        help=f"one of {', '.join(kubernetes_versions())} (default: {DEFAULT_KUBERNETES})")
    parser.add_argument("--no-build", action="store_true", help="fail instead of building what is missing")
    arguments = parser.parse_args()
    # as Ctrl-C: a build that is under way is ended and swept
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for name, path in find(*arguments.names, kubernetes=arguments.kubernetes, may_build=not arguments.no_build).items():
        print(name, path)


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        say(f"error: {failure}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
