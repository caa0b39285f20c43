"""The BMCs of a bed's machines: sushy-tools' Redfish emulator, one process each. The power that it reads is whether the
machine is on, and its `ForceOff` switches that machine off.

    with bmcs(bed) as made:             # {name of the node: its Bmc}, where the bed's pods reach them
    with bmcs(bed, (node,), inside=False, password="…") as made:   # of these nodes, on this computer's loopback; user admin
        bmc.url
        bmc.reads                       # how often its machine's power was read
        bmc.resets                      # ResetTypes that it was told
        bmc.obeys = False               # it says that it did, and does nothing
        bmc.delay = 9                   # seconds that it takes to read the power
"""

import contextlib
import importlib.util
import json
import os
import shutil
import socketserver
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import Iterator

from cluster import wheel
from cluster.bed import Bed
from cluster.machine import SYSTEM_PATH
from cluster.needs import Unfit
from cluster.node import Node
from e2e.kube import wait_for

LABEL = "example.com/bmc"
PATIENCE = 60  # seconds until an emulator serves; a bound, not a wait
DEBIAN = {"flask": "python3-flask", "requests": "python3-requests", "webob": "python3-webob", "tenacity": "python3-tenacity",
          "bcrypt": "python3-bcrypt"}  # what the emulator imports


class Power(socketserver.StreamRequestHandler):
    """Answers an emulator (bmc_emulator.py)."""

    def handle(self):
        order = json.loads(self.rfile.readline())
        self.wfile.write(json.dumps(self.server.bmc.answer(**order)).encode() + b"\n")


class Bmc:
    def __init__(self, bed: Bed, node: Node, packages: Path, inside: bool, password: str):
        self.bed, self.node, self.name, self.port = bed, node, f"bmc-{node.name}", 0
        self.reads, self.resets, self.obeys, self.delay = 0, [], True, 0
        # beside the control plane, whose cable no story pulls
        self.address = bed.control_plane.host.address if inside else "127.0.0.1"
        about = bed.client.patch("nodes", node.name, {"metadata": {"labels": {LABEL: self.name}}})
        machine = str(uuid.UUID(about["status"]["nodeInfo"]["systemUUID"]))
        folder = bed.folder / self.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._listen(folder)
        told = {"folder": str(folder), "address": self.address, "uuid": machine, "password": password}
        command = [sys.executable, "-B", Path(__file__).with_name("bmc_emulator.py"), json.dumps(told)]
        bed.processes.start(self.name, bed.inside(*command) if inside else command,
                            {"PATH": SYSTEM_PATH, "LANG": "C.UTF-8", "PYTHONPATH": str(packages)})

    def _listen(self, folder: Path):
        place = os.open(folder, os.O_PATH)
        try:
            self.socket = socketserver.ThreadingUnixStreamServer(f"/proc/self/fd/{place}/power", Power)  # at most 107 bytes
        finally:
            os.close(place)
        self.socket.daemon_threads = True
        self.socket.bmc = self
        threading.Thread(target=self.socket.serve_forever, daemon=True).start()

    def answer(self, do: str, port: int = 0, type: str = "") -> dict:
        if do == "serve":
            self.port = port
        elif do == "read":
            self.reads += 1
            time.sleep(self.delay)
            return {"power": "On" if self.node.is_on() else "Off"}
        elif do == "reset":
            self.resets.append(type)
            if self.obeys and type == "ForceOff":
                self.node.power_off()
        return {}

    def wait_serves(self):
        def serves():
            if not self.bed.processes.alive(self.name):
                raise RuntimeError(f"{self.name} did not start:\n{self.bed.processes.log_tail(self.name)}")
            return self.port
        wait_for(f"{self.name} serves", serves, PATIENCE, 0.02)

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    def stop(self):
        self.bed.processes.end(self.name)
        self.socket.shutdown()
        self.socket.server_close()


@contextlib.contextmanager
def bmcs(bed: Bed, nodes: tuple = (), inside: bool = True, password: str = "") -> Iterator[dict]:
    """Each node gets a label that names its BMC as an endpoint."""
    absent = [package for module, package in DEBIAN.items() if not importlib.util.find_spec(module)]
    if absent:
        raise Unfit([f"the Redfish emulator: needs {', '.join(absent)}; apt-get install {' '.join(absent)}"])
    packages = wheel.installed(wheel.SUSHY_TOOLS)
    made = {}
    try:
        for node in nodes or bed.nodes:
            made[node.name] = Bmc(bed, node, packages, inside, password)
        for bmc in made.values():
            bmc.wait_serves()
        yield made
    finally:
        for bmc in made.values():
            bmc.stop()


def settings(made: dict, auth: str = "") -> dict:
    """What the engine's configuration says of them, with this `auth` of each endpoint."""
    more = f", auth: {auth}" if auth else ""
    endpoints = ", ".join(f"{bmc.name}: {{url: '{bmc.url}'{more}}}" for bmc in made.values())
    return {"endpoints": f"{{{endpoints}}}", "fencers": f"[{{fencer: redfish, nodes: {LABEL}, switchOff: true, "
                                                        f"settings: {{endpoint_label: {LABEL}}}}}]"}


def config(made: dict) -> str:
    """The same as text."""
    return "\n".join(f"{key}: {value}" for key, value in settings(made).items())
