"""Tells the process of the stand-in nodes what to do."""

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Iterable, Optional

from .processes import Processes


@contextlib.contextmanager
def bound_address(path: Path):
    """A name for a unix socket that fits into 108 bytes however deep its folder is."""
    folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{Path(path).name}"
    finally:
        os.close(folder)


class HollowControl:
    """Every call returns when it has taken effect, and raises RuntimeError when it could not."""

    def __init__(self, path):
        self.path = Path(path)

    def order(self, verb: str, **arguments) -> dict:
        with socket.socket(socket.AF_UNIX) as link, bound_address(self.path) as address:
            link.settimeout(120)
            link.connect(address)
            link.sendall(json.dumps({"do": verb, **arguments}).encode() + b"\n")
            with link.makefile("rb") as lines:
                line = lines.readline()
        answer = json.loads(line) if line else {"ok": False, "error": "the hollow process ended"}
        if not answer.pop("ok"):
            raise RuntimeError(answer["error"])
        return answer

    def add(self, names: Iterable[str], labels: Optional[dict] = None, images: Optional[int] = None,
            drivers: Optional[list] = None):
        """Creates nodes and starts their kubelets; `drivers` go into their CSINode."""
        self.order("add", names=list(names), labels=labels, images=images, drivers=drivers)

    def remove(self, names: Iterable[str]):
        """Stops nodes and deletes their Node objects."""
        self.order("remove", names=list(names))

    def fail(self, node: str, mode: str = "silent"):
        """silent, notready, missing or missing-alive; see hollow_node.MODES."""
        self.order("fail", node=node, mode=mode)

    def heal(self, node: str, reboot: bool = False):
        """Back to life; with `reboot` under a new boot id and without memory of its pods."""
        self.order("heal", node=node, reboot=reboot)

    def stop_delay(self, node: str, seconds: float):
        """How long the node's containers take to stop."""
        self.order("stop-delay", node=node, seconds=seconds)

    def attacher(self, driver: str = "", **settings):
        """Sets fields of hollow_attacher.Settings for a driver ("": all without own settings):
        attach_delay, detach_delay, refuse_detach (text), strict, paper, stopped."""
        self.order("attacher", driver=driver, **settings)

    def status(self) -> dict:
        """{nodes, attacher, published, double}; `double` lists volumes that were on two nodes at once."""
        return self.order("status")


def start_hollow(processes: Processes, folder: Path, nodes: int = 0, prefix: str = "node-", interval: float = 2,
                 status_period: float = 60, images: int = 0, conditions: bool = False) -> HollowControl:
    """Starts the process beside a control plane in `folder`. Returns at once; the nodes follow."""
    command = ["/usr/bin/python3", "-m", __package__ + ".hollow",
               "--nodes-kubeconfig", folder / "hollow-nodes.kubeconfig",
               "--attacher-kubeconfig", folder / "hollow-attacher.kubeconfig",
               "--socket", folder / "hollow.sock", "--nodes", nodes, "--prefix", prefix, "--interval", interval,
               "--status-period", status_period, "--images", images, *(["--conditions"] if conditions else [])]
    env = dict(os.environ, PYTHONPATH=str(Path(__file__).resolve().parent.parent), PYTHONDONTWRITEBYTECODE="1")
    processes.start("hollow", command, env)
    return HollowControl(folder / "hollow.sock")


def lease_interval(grace: float) -> float:
    """A node may miss some renewals within the grace period before it is given up."""
    return max(1.0, min(10.0, grace / 4))
