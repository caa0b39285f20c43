"""The pid 1 of a machine: mounts its file systems, keeps its services running, reaps orphans.

    machine_init.py CONFIG

CONFIG is JSON: name, folder, boot_id, disk (a disk of its own, for nodes), services. A service is name, command,
wanted (false: not before somebody starts it) and `before`: commands that must have succeeded before its first start.

It takes orders at the unix socket `control` in the machine's folder, one JSON line each, and answers with one:
{"do": "services"}, {"do": "stop" | "start" | "signal", "service": NAME, "signal": NUMBER}.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import machine_mounts

RESTART_AFTER = 0.5  # seconds, as Restart=always with RestartSec=500ms


@dataclass
class Service:
    name: str
    command: list
    wanted: bool = True
    before: list = field(default_factory=list)
    pid: int = 0
    starts: int = 0
    due: float = 0.0

    def told(self) -> dict:
        return {"pid": self.pid, "wanted": self.wanted, "starts": self.starts}


class Init:
    def __init__(self, config: dict):
        self.folder = Path(config["folder"])
        self.services = {each["name"]: Service(**each) for each in config["services"]}
        self.selector = selectors.DefaultSelector()
        self.control = self._listen()
        self._wake_by_children()

    def _listen(self) -> socket.socket:
        # by a short name: the path of a unix socket has 107 bytes at most, and ours may be longer
        os.chdir(self.folder)
        Path("control").unlink(missing_ok=True)
        listening = socket.socket(socket.AF_UNIX)
        listening.bind("control")
        listening.listen(16)
        os.chdir("/")
        self.selector.register(listening, selectors.EVENT_READ, self._serve)
        return listening

    def _wake_by_children(self):
        self.woken, wake = socket.socketpair()
        for end in (self.woken, wake):
            end.setblocking(False)
        self._wake = wake  # kept open
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self.selector.register(self.woken, selectors.EVENT_READ, lambda: self.woken.recv(4096))

    def run(self):
        for service in self.services.values():
            if service.wanted:
                for command in service.before:
                    self._insist(service, command)
        # a machine never ends by itself
        while True:
            self._reap()
            self._start_due()
            waiting = [s.due for s in self.services.values() if s.wanted and not s.pid]
            for key, _ in self.selector.select(max(0.0, min(waiting) - time.monotonic()) if waiting else None):
                key.data()

    def _insist(self, service: Service, command: list):
        """Runs a command until it succeeds; what was started before the service runs meanwhile."""
        self._start_due(until=service.name)
        while True:
            with open(self.folder / "log" / "boot.log", "ab") as log:
                done = subprocess.run(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            if done.returncode == 0:
                return
            time.sleep(0.05)

    def _start_due(self, until: str = ""):
        for service in self.services.values():
            if service.name == until:
                return
            if service.wanted and not service.pid and service.due <= time.monotonic():
                with open(self.folder / "log" / f"{service.name}.log", "ab") as log:
                    child = subprocess.Popen(service.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                             start_new_session=True)
                service.pid, service.starts = child.pid, service.starts + 1
                child.returncode = 0  # we reap it ourselves, with everybody else's orphans

    def _reap(self):
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for service in self.services.values():
                if service.pid == pid:
                    service.pid, service.due = 0, time.monotonic() + RESTART_AFTER

    # --- orders

    def _serve(self):
        with self.control.accept()[0] as caller:
            try:
                caller.settimeout(30)  # whoever asks is of this computer, and may be slow
                order = json.loads(caller.makefile("r").readline())
                answer = self._obey(**order)
                caller.sendall(json.dumps(answer).encode() + b"\n")
            except (OSError, ValueError, TypeError) as error:
                print(f"an order was not understood: {error}", flush=True)

    def _obey(self, do: str, service: str = "", number: int = signal.SIGKILL) -> dict:
        if do == "services":
            return {name: each.told() for name, each in self.services.items()}
        chosen = self.services.get(service)
        if chosen is None:
            return {"error": f"no service '{service}'; there are {', '.join(self.services)}"}
        if do in ("stop", "signal"):
            chosen.wanted = chosen.wanted and do == "signal"
            if chosen.pid:
                os.kill(chosen.pid, number)
        elif do == "start":
            chosen.wanted, chosen.due = True, 0.0
        else:
            return {"error": f"no order '{do}'"}
        self._reap()
        return chosen.told()


def main(path: str):
    config = json.loads(Path(path).read_text())
    # the signals that end an ordinary process do not end a machine
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    socket.sethostname(config["name"])
    os.makedirs(Path(config["folder"]) / "log", exist_ok=True)
    machine_mounts.mount_all(config)
    Init(config).run()


if __name__ == "__main__":
    main(sys.argv[1])
