"""Thousands of machines that answer: one network namespace in which every address of 10.64.0.0/16 is at home.

    control plane and engine          the machines
    namespace bench-PID-home  <-veth->  bench-PID-machines: 10.64.0.0/16, one listener on port 10250

The kernel of the second namespace answers for all of them, and a small program accepts their connections and keeps
them. A machine dies by a route that drops whatever comes for it; nobody refuses anything then. The first namespace has no
other way out, so that nobody else can answer for a dead machine.

`python3 -m bench.machines` is that small program.
"""

import ctypes
import os
import resource
import select
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from cluster.network import NETNS, ip, namespaces, remove
from e2e.control_plane import REPO
from e2e.kube import wait_for

from .stage import Stage

PORT = 10250
FIRST, SECOND = "10.63.0.1", "10.63.0.2"  # of the two ends of the veth
RANGE = "10.64.0.0/16"
EACH = 250  # machines of one third byte
DESCRIPTORS = 200_000
WAITING = 65_535  # connections that wait to be accepted
NAME = "bench"
CLONE_NEWNET = 0x40000000


def address(number: int) -> str:
    return f"10.64.{number // EACH}.{1 + number % EACH}"


def enter(namespace: int):
    """This thread, and all threads and processes that it starts from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def inside(namespace: str, script: str):
    subprocess.run(["nsenter", f"--net={NETNS / namespace}", "sh", "-c", script], check=True)


def answer_to(machine: str, limit: float = 1.5) -> str:
    """Of its kernel to an attempt to connect: open, refused or silent."""
    try:
        socket.create_connection((machine, PORT), limit).close()
        return "open"
    except ConnectionRefusedError:
        return "refused"
    except (TimeoutError, socket.timeout):
        return "silent"


class Machines:
    """The two namespaces; while it is entered, we are in the first."""

    def __init__(self):
        self.home, self.far = f"{NAME}-{os.getpid()}-home", f"{NAME}-{os.getpid()}-machines"
        self.before = -1

    def __enter__(self) -> "Machines":
        remove_left()
        self.before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._create()
            with open(NETNS / self.home) as home:
                enter(home.fileno())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        enter(self.before)
        os.close(self.before)
        for name in (self.home, self.far):
            remove(name)

    def _create(self):
        ip(f"netns add {self.home}", f"netns add {self.far}")
        ip("link set lo up", f"link add far type veth peer name near netns {self.far}", f"addr add {FIRST}/30 dev far",
           "link set far up", f"route add {RANGE} via {SECOND} dev far", inside=self.home)
        ip("link set lo up", f"addr add {SECOND}/30 dev near", "link set near up", f"route add local {RANGE} dev lo",
           inside=self.far)
        inside(self.far, f"echo {WAITING} >/proc/sys/net/core/somaxconn; echo {WAITING} >/proc/sys/net/ipv4/tcp_max_syn_backlog")

    def start(self, processes):
        """The listener, which ends with the `processes`."""
        env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
        processes.start("machines", ["nsenter", f"--net={NETNS / self.far}", sys.executable, "-m", "bench.machines"], env)
        wait_for("a machine answers", lambda: answer_to(address(0)) == "open", 30)

    def kill(self, machines: list):
        # The table `local` is looked at first, and there the longest prefix counts.
        ip(*(f"route add blackhole {machine}/32 table local" for machine in machines), inside=self.far)

    def revive(self, machines: list):
        ip(*(f"route del blackhole {machine}/32 table local" for machine in machines), inside=self.far)

    @staticmethod
    def packets() -> int:
        """Between the engine and the machines so far, in both directions."""
        for line in Path("/proc/thread-self/net/dev").read_text().splitlines():
            name, _, figures = line.partition(":")
            if name.strip() == "far":
                words = figures.split()
                return int(words[1]) + int(words[9])
        raise RuntimeError("we are not where the veth is")


def remove_left():
    """Namespaces of a run that was killed."""
    for name in namespaces(NAME):
        words = name.split("-")
        if len(words) == 3 and words[1].isdigit() and not Path("/proc", words[1]).exists():
            remove(name)


class FarStage(Stage):
    """A Stage all of which runs in the namespace beside that of its machines, which are `machines`."""

    def __enter__(self) -> "FarStage":
        self.machines = Machines()
        self.machines.__enter__()
        try:
            super().__enter__()
            self.machines.start(self.control_plane.processes)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            super().__exit__()
        finally:
            self.machines.__exit__()


# --- the small program


def listen():
    with suppress(ValueError, OSError):  # as it is, then
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("0.0.0.0", PORT))
    listener.listen(WAITING)
    listener.setblocking(False)
    ready = select.epoll()
    ready.register(listener, select.EPOLLIN)
    kept: dict = {}
    while True:
        for number, _ in ready.poll():
            if number == listener.fileno():
                accept(listener, ready, kept)
            else:
                kept.pop(number).close()  # nobody sends anything: it has ended


def accept(listener: socket.socket, ready: select.epoll, kept: dict):
    while True:
        try:
            link, _ = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # no descriptor is left, or it has ended already
            print(error, file=sys.stderr, flush=True)
            time.sleep(0.1)
            return
        kept[link.fileno()] = link
        ready.register(link, select.EPOLLIN | select.EPOLLRDHUP)


if __name__ == "__main__":
    listen()
