"""Processes that we started, known by pid and start time, and ended by nothing else.

A pid alone may belong to somebody else by the time we end it; pid and start time together cannot.
"""

import fcntl
import functools
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Optional


def start_time(pid: int) -> Optional[int]:
    """The start time of a living process in clock ticks since boot, None when it is gone (or a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat[stat.rindex(")") + 2:].split()
    return None if fields[0] in "ZX" else int(fields[19])


def start_times(pids) -> dict:
    """{pid: its start time} of those that live: a number alone is given again to somebody else."""
    return {pid: began for pid in pids if (began := start_time(pid)) is not None}


def living(began: dict) -> set:
    return {pid for pid, at in began.items() if start_time(pid) == at}


def worker() -> int:
    """Which of the test processes that run side by side (pytest-xdist) this is."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


PORT_RANGES = 10  # processes that may run tests at the same time on one machine
_ports_given = itertools.count()


@functools.cache
def port_range() -> tuple:
    """(first, width) of this process's own part of the ports below those from which the kernel serves outgoing
    connections: a component that restarts on its port must not find a client's own connection sitting on it.
    It is ours as long as the lock is, whatever other test runs there are."""
    last = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0]) - 1
    width = (last - 1100) // PORT_RANGES
    folder = Path(tempfile.gettempdir()) / f"moonfence-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    for number in range(PORT_RANGES):
        lock = open(folder / str(number), "w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _kept_open.append(lock)
        return 1100 + number * width, width
    raise RuntimeError(f"{PORT_RANGES} test processes run on this machine already, and no range of ports is left")


_kept_open: list = []


def free_port() -> int:
    """A free loopback port. It is free until somebody listens: none is given again before all others."""
    first, width = port_range()
    for _ in range(width):
        port = first + next(_ports_given) % width
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise RuntimeError("no free loopback port")


class Processes:
    """The processes of one folder, recorded in its processes.json so that another run can end them."""

    def __init__(self, folder: Path, die_with_us: bool = False):
        self.folder = Path(folder)
        self.record = self.folder / "processes.json"
        self.die_with_us = die_with_us
        self._children: dict = {}

    def read(self) -> dict:
        try:
            return json.loads(self.record.read_text())
        except (OSError, ValueError):
            return {}

    def _write(self, entries: dict):
        fresh = self.record.with_suffix(".new")
        fresh.write_text(json.dumps(entries, indent=1) + "\n")
        fresh.replace(self.record)

    def pid(self, name: str) -> Optional[int]:
        """The pid while the process that we recorded still runs."""
        entry = self.read().get(name)
        if entry and start_time(entry["pid"]) == entry["started"]:
            return entry["pid"]
        return None

    def start(self, name: str, command: list, env: Optional[dict] = None) -> int:
        if self.pid(name):
            raise RuntimeError(f"{name} runs already")
        command = [str(word) for word in command]
        if self.die_with_us:
            # a test run that is killed outright still leaves nothing behind
            command = [shutil.which("setpriv") or "setpriv", "--pdeathsig", "KILL", *command]
        log = open(self.folder / f"{name}.log", "ab")
        with log:
            # an own session: Ctrl-C reaches us alone, and we end the children in order
            child = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                     start_new_session=True, env=env)
        self._children[name] = child
        entries = self.read()
        entries[name] = {"pid": child.pid, "started": start_time(child.pid), "command": command}
        self._write(entries)
        return child.pid

    def alive(self, name: str) -> bool:
        child = self._children.get(name)
        if child and child.poll() is not None:
            return False
        return self.pid(name) is not None

    def end(self, name: str, patience: float = 5, hard: bool = False):
        """SIGTERM, then SIGKILL after `patience`; `hard` kills at once, as a power cut would."""
        pid = self.pid(name)
        if pid:
            self._end_pid(name, pid, patience, hard)
        child = self._children.pop(name, None)
        if child:
            child.wait()
        entries = self.read()
        if entries.pop(name, None):
            self._write(entries)

    def _end_pid(self, name, pid, patience, hard):
        for number, seconds in ((signal.SIGKILL if hard else signal.SIGTERM, patience), (signal.SIGKILL, 10)):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                child = self._children.get(name)
                if child:
                    child.poll()  # reaps it, else it stays as a zombie
                if self.pid(name) != pid:
                    return
                time.sleep(0.02)

    def signal(self, name: str, number: int):
        pid = self.pid(name)
        if not pid:
            raise RuntimeError(f"{name} does not run")
        os.kill(pid, number)

    def end_all(self, patience: float = 5):
        """Last started first."""
        for name in reversed(list(self.read())):
            self.end(name, patience)

    def log_tail(self, name: str, lines: int = 15) -> str:
        try:
            text = (self.folder / f"{name}.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
