"""A machine: namespaces with an init of its own. Its power, its cable, its services.

Nodes and the control plane are machines (node.py, control_plane.py). Everything is looked up from the bed's folder, so
that another process can go on where one left off.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kube import wait_for
from e2e.processes import Processes

from .groups import Group, hierarchies
from .network import NETNS, Host, Network

HERE = Path(__file__).resolve().parent
PATIENCE = 60  # seconds until a machine that was told something has done it; a bound, not a wait
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Service:
    """What a machine's init keeps running. It starts its services in their order; `before`: commands that must
    succeed first; not `wanted`: it waits until somebody starts it."""

    name: str
    command: tuple
    wanted: bool = True
    before: tuple = ()

    def told(self) -> dict:
        return {"name": self.name, "command": [str(word) for word in self.command], "wanted": self.wanted,
                "before": [[str(word) for word in each] for each in self.before]}


@dataclass
class Machine:
    """`services()` of a subclass says what runs on it, beside the `extra` services that a test adds."""

    name: str
    bed: str  # its name
    folder: Path
    host: Host
    network: Network
    processes: Processes
    path: tuple = ()  # folders of programs, for PATH
    neighbours: list = field(default_factory=list)  # Hosts whose pods it can reach
    extra: list = field(default_factory=list)
    before_power_off: list = field(default_factory=list)  # called with the machine while everything on it still runs
    has_disk = False
    is_service_address = False

    def services(self) -> list:
        raise NotImplementedError

    @property
    def group(self) -> Group:
        return Group(f"{self.bed}/{self.name}")

    @property
    def environment(self) -> dict:
        """Nothing from outside: a proxy of the computer must not see this traffic."""
        return {"PATH": ":".join([*map(str, self.path), SYSTEM_PATH]), "HOME": "/root", "LANG": "C.UTF-8"}

    # --- power

    def power_on(self):
        """Returns when its init takes orders; services may still be starting."""
        if self.is_on():
            raise RuntimeError(f"{self.name} is on already")
        self._take_away()  # of a life that ended by itself
        (self.folder / "log").mkdir(parents=True, exist_ok=True)
        self.network.attach(self.host, self.neighbours, self.is_service_address)
        self.group.make()
        config = self.folder / "machine.json"
        config.write_text(json.dumps(self._config(), indent=1) + "\n")
        self.processes.start(self.name, [sys.executable, "-B", HERE / "machine_launch.py", config], self.environment)
        wait_for(f"the init of {self.name} takes orders (see {self.processes.folder / self.name}.log)", self._answers,
                 PATIENCE, 0.01)

    def _config(self) -> dict:
        return {
            "name": self.name, "folder": str(self.folder), "disk": self.has_disk, "boot_id": str(uuid.uuid4()),
            "machine_id": uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.{self.bed}").hex,
            "network": str(NETNS / self.host.namespace), "groups": [str(door) for door in self.group.doors()],
            "hierarchies": [each.controllers for each in hierarchies()],
            "services": [each.told() for each in (*self.services(), *self.extra)]}

    def _answers(self) -> bool:
        if not self.processes.alive(self.name):
            raise RuntimeError(f"{self.name} did not start:\n{self.processes.log_tail(self.name)}")
        return bool(self.ask("services"))

    def power_off(self):
        """As if the plug was pulled: nothing on it gets another instruction. Its disk stays."""
        for act in self.before_power_off:
            act(self)
        pid = self.pid
        if pid:
            os.kill(pid, 9)
        if self.group.frozen:
            self.group.thaw()  # in version 1 what is frozen does not even die
        if pid:  # its launcher takes leave of it and ends
            wait_for(f"{self.name} is off", lambda: not self.processes.alive(self.name), PATIENCE, 0.01)
        self.processes.end(self.name, hard=True)
        self._take_away()

    def _take_away(self):
        wait_for(f"every process of {self.name} has ended", lambda: not self.group.processes(), PATIENCE, 0.01)
        self.network.detach(self.host)
        self.group.remove()

    def reboot(self):
        self.power_off()
        self.power_on()

    @property
    def pid(self) -> int:
        """Its pid 1, as this computer counts; 0 when it is off."""
        launcher = self.processes.pid(self.name)
        try:
            children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
        except OSError:
            return 0
        return int(children[0]) if children else 0

    def is_on(self) -> bool:
        return self.pid != 0

    @property
    def boot_id(self) -> str:
        """Of its present life, or of the last one."""
        return json.loads((self.folder / "machine.json").read_text())["boot_id"]

    def wipe(self):
        """A new disk. It must be off."""
        shutil.rmtree(self.folder / "disk", ignore_errors=True)

    # --- cable, standing still, and hardly going on

    def cable_out(self):
        self.network.cable(self.host, plugged=False)

    def cable_in(self):
        """It loses nothing any more, either."""
        self.network.cable(self.host, plugged=True)
        self.network.drop_nothing(self.host)

    def lose(self, share: float):
        """So many of the packets to it and from it are lost, until cable_in()."""
        self.network.lose(self.host, share)

    def cut_from_nodes(self):
        """It reaches the control plane and no other machine, until cable_in()."""
        self.network.only_control_plane(self.host)

    @contextmanager
    def parted_from(self, other: "Machine"):
        """Its pods do not reach the other machine, and hear nothing of it. The pods there they reach."""
        self.network.part(self.host, other.host, parted=True)
        try:
            yield
        finally:
            self.network.part(self.host, other.host, parted=False)

    def freeze(self):
        """Every process stands still; its kernel goes on and acknowledges what it is sent."""
        self.group.freeze()

    def thaw(self):
        self.group.thaw()

    def limit_cpu(self, share: float):
        """All that runs on it has so much of one processor; 0: as much as there is."""
        self.group.limit_cpu(share)

    # --- services

    def ask(self, do: str, service: str = "", **more) -> dict:
        """An order for its init, and the answer."""
        folder = os.open(self.folder, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(PATIENCE)
                caller.connect(f"/proc/self/fd/{folder}/control")  # a path of at most 107 bytes
                caller.sendall(json.dumps({"do": do, "service": service, **more}).encode() + b"\n")
                answer = json.loads(caller.makefile("r").readline() or "{}")
        finally:
            os.close(folder)
        if "error" in answer:
            raise ValueError(f"{self.name}: {answer['error']}")
        return answer

    def kill(self, service: str, number: int = 9):
        """Ends a service, which stays away until start(); what it started goes on. Returns when it is gone."""
        self.ask("stop", service, number=number)
        wait_for(f"{service} of {self.name} has ended", lambda: not self.service(service)["pid"], PATIENCE, 0.01)

    def start(self, service: str):
        self.ask("start", service)

    def restart(self, service: str, number: int = 15):
        self.kill(service, number)
        self.start(service)

    def signal(self, service: str, number: int):
        self.ask("signal", service, number=number)

    def service(self, name: str) -> dict:
        """{pid: as the machine counts, 0 while it does not run, wanted, starts}"""
        return self.ask("services")[name]

    def log_tail(self, service: str, lines: int = 20) -> str:
        try:
            text = (self.folder / "log" / f"{service}.log").read_text(errors="replace")
        except FileNotFoundError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    # --- inside

    def inside(self, *command) -> list:
        """The words that run a command in its namespaces."""
        if not self.pid:
            raise RuntimeError(f"{self.name} is off")
        return ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--net", "--uts", "--ipc", "--cgroup", "--",
                *map(str, command)]

    def run(self, *command, check: bool = True, timeout: float = 60) -> str:
        """What a command inside says. It is in the machine's namespaces but not in its control groups: it runs while
        the machine is frozen, and ends with its power."""
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, timeout=timeout,
                              env=self.environment, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise RuntimeError(f"{self.name}: {' '.join(map(str, command))} left with {done.returncode}: "
                               f"{done.stderr.strip()[-2000:]}")
        return done.stdout
