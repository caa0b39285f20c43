"""A bed: a whole cluster of machines on this computer, with everything that it needs in one folder.

    with Bed(folder, settings=FAST).up(nodes=3) as bed:
        bed.node(1).power_off()
        bed.client.list("nodes")

Several may be up side by side: each has its own name, which its network namespaces and control groups carry, and its own
folder. What a killed run left is taken away by the next start, there or in any other folder (registry.py).
"""

import fcntl
import functools
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Optional

from e2e.audit import AuditLog
from e2e.kube import Client, wait_for
from e2e.processes import Processes, free_port

from . import inotify, leftover, needs, programs, registry
from .control_plane import ControlPlane
from .image import write_archive
from .machine import Service
from .needs import Unfit
from .network import CONTROL_PLANE, NETNS, Host, Network
from .node import Node
from .settings import ALL, STOCK, Settings

MARKER = "bed.json"
FIRST_NODE = 10  # node N has the address 10 + N


def find_programs(parts: tuple) -> dict:
    """{name: path} of all programs of these parts: from the folder MOONFENCE_PROGRAMS, else built and cached."""
    folder = os.environ.get("MOONFENCE_PROGRAMS")
    if not folder:
        return {name: str(path) for name, path in programs.find(*parts).items()}
    files = [*Path(folder).glob("*"), *Path(folder).glob("cni/*")]
    found = {path.name: str(path.absolute()) for path in files if path.is_file() and os.access(path, os.X_OK)}
    absent = [name for name, part in programs.PART_OF.items() if part in parts and name not in found]
    if absent:
        raise Unfit([f"MOONFENCE_PROGRAMS: {folder} has no {', '.join(absent)}; it must have every program of a bed, those "
                     "of the CNI in its folder cni; put them there, or unset it, and they are built"])
    return found


class Bed:
    """`extra_services(name)` gives the services that a machine has beside its own: of `control-plane`, where they begin
    when the API server is ready, and of `node-N`. `archives`: more images for every node."""

    parts = ("kubernetes", "etcd", "containerd", "node")  # of programs.py

    def __init__(self, folder, name: str = "", settings: Settings = STOCK, die_with_us: bool = True, port: int = 0,
                 audited: bool = True, archives: tuple = (), extra_services=lambda name: []):
        self.folder = Path(folder).resolve()
        self.name = name or "bed-" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:6]
        self.settings, self.port, self.audited = settings, port, audited
        self.archives, self.extra_services = list(archives), extra_services
        self.processes = Processes(self.folder, die_with_us)
        self.network = Network(self.name)
        self.nodes: list = []
        self.programs: dict = {}
        self.control_plane: Optional[ControlPlane] = None
        self._lock = None

    # --- life

    def up(self, nodes: int = 3, ready: bool = True) -> "Bed":
        inotify.make_room()
        needs.check(self.folder, self.name, nodes, self.port)
        self.programs = find_programs(self.parts)
        registry.sweep()
        try:
            self._take_folder()
        except BaseException:
            self._unlock()
            raise
        try:
            if self.processes.die_with_us:
                registry.enter(self.name, self.folder)
            self.port = self.port or free_port()
            self.prepare()
            self._write_marker(nodes)
            self._make(nodes)
            self.archives.insert(0, write_archive(self.folder / "images.tar"))
            self.network.create()
            self.control_plane.power_on()
            for node in self.nodes:
                node.power_on()
            if ready:
                self.wait_ready()
        except BaseException:
            self.down()
            raise
        return self

    def prepare(self):
        """What has to be in the folder, which is ours and empty, before there are machines: nothing."""

    def wait_ready(self):
        for node in self.nodes:
            node.wait_ready()
        # pods are refused until the controller manager has made the service account of the namespace
        wait_for("the default service account", lambda: self.client.find("serviceaccounts", "default", "default"), 180)

    def make_well(self):
        """Whatever was done to its machines: all are on, with everything that runs on them, and the nodes are Ready."""
        for node in self.nodes:
            if node.group.frozen:
                node.thaw()
            if not node.is_on():
                node.power_on()
            node.limit_cpu(0)
            node.cable_in()
            for name in node.ask("services"):
                node.start(name)
        for name in self.control_plane.ask("services"):
            self.control_plane.start(name)
        self.control_plane.wait_ready()
        self.wait_ready()

    def down(self):
        """Everything ends; the folder stays, for a look at the logs."""
        leftover.sweep(self.name, self.folder, self.processes)
        registry.leave(self.name)
        self._unlock()

    def __enter__(self) -> "Bed":
        return self

    def __exit__(self, *_):
        self.down()

    # --- its folder

    def _take_folder(self):
        """Locked, swept and empty. One that is not ours is never emptied."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock()
        others = [path for path in self.folder.iterdir() if path.name != "lock"]
        if others and not (self.folder / MARKER).exists():
            raise Unfit([f"{self.folder}: is not empty and has no {MARKER}, so it is not a bed's; name another folder"])
        if others:
            before = json.loads((self.folder / MARKER).read_text())
            leftover.sweep(before["name"], self.folder, self.processes)
            for path in others:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        strange = leftover.namespaces_of(self.name) + leftover.groups_of(self.name)
        if strange:
            raise Unfit([f"the bed's name: '{self.name}'; {', '.join(strange)} of another bed with that name is there; "
                         "take that one down where it was started, or choose another name"])

    def lock(self):
        """Held until down(): of two runs in one folder the second is told so. It ends with us however we end."""
        lock = open(self.folder / "lock", "a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip()
            lock.close()
            raise Unfit([f"{self.folder}: is in use by the process {holder}; a bed belongs to one run at a time; "
                         "wait for it, or name another folder"]) from None
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._lock = lock

    def _unlock(self):
        if self._lock:
            self._lock.close()
            self._lock = None

    def _write_marker(self, nodes: int):
        machines = ["control-plane", *(f"node-{number}" for number in range(1, nodes + 1))]
        extra = {name: [each.told() for each in self.extra_services(name)] for name in machines}
        (self.folder / MARKER).write_text(json.dumps({
            "name": self.name, "settings": self.settings.name, "nodes": nodes, "port": self.port, "audited": self.audited,
            "programs": self.programs, "archives": [str(path) for path in self.archives], "extra": extra}, indent=1) + "\n")

    @staticmethod
    def attach(folder) -> "Bed":
        """The bed that another process left up in the folder."""
        folder = Path(folder)
        try:
            told = json.loads((folder / MARKER).read_text())
        except FileNotFoundError:
            raise Unfit([f"{folder}: has no {MARKER}, so no bed was ever up there; start one with `up`"]) from None
        extra = {name: [Service(**each) for each in services] for name, services in told["extra"].items()}
        bed = Bed(folder, told["name"], ALL[told["settings"]], die_with_us=False, port=told["port"],
                  audited=told["audited"], archives=tuple(told["archives"]), extra_services=extra.get)
        bed.programs = told["programs"]
        bed._make(told["nodes"])
        bed.archives.insert(0, bed.folder / "images.tar")
        return bed

    # --- its machines

    def _make(self, count: int):
        programs = self.programs
        path = tuple(dict.fromkeys(str(Path(programs[name]).parent) for name in ("containerd-shim-runc-v2", "kubectl")))
        common = {"bed": self.name, "network": self.network, "processes": self.processes, "path": path,
                  "programs": programs, "settings": self.settings}
        names = {FIRST_NODE + number: f"node-{number}" for number in range(1, count + 1)}
        hosts = [Host(f"{self.name}-{name}", number) for number, name in names.items()]
        self.control_plane = ControlPlane(
            "control-plane", folder=self.folder / "control-plane", host=Host(f"{self.name}-control-plane", CONTROL_PLANE),
            neighbours=hosts, extra=self.extra_services("control-plane"), port=self.port, audited=self.audited, **common)
        self.nodes = [
            Node(names[host.number], folder=self.folder / names[host.number], host=host, neighbours=hosts,
                 extra=self.extra_services(names[host.number]), control_plane=self.control_plane,
                 archives=self.archives, **common) for host in hosts]

    def node(self, which) -> Node:
        """By its number or its name."""
        wanted = which if isinstance(which, str) and not which.isdigit() else f"node-{which}"
        for node in self.nodes:
            if node.name == wanted:
                return node
        names = ", ".join(node.name for node in self.nodes) or "none"
        raise Unfit([f"the node: '{which}'; the bed has {names}; name one of them"])

    @functools.cached_property
    def client(self) -> Client:
        return self.control_plane.client()

    def audit(self) -> AuditLog:
        """The audit log from now on."""
        return self.control_plane.audit().mark()

    def inside(self, *command) -> list:
        """The words that run a command of this computer in the control plane's network."""
        return ["nsenter", f"--net={NETNS / self.control_plane.host.namespace}", "--", *map(str, command)]
