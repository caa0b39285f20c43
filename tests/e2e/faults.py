"""What robustness tests break and look at: the API server, a whole node, an endpoint that only counts."""

import contextlib
import signal
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Callable

from .exposition import parse
from .kube import wait_for

PODS = r"/pods/"


class ApiServer:
    """Stops, kills and freezes the API server. The controller manager is down meanwhile and starts anew
    afterwards: it would take the outage for the silence of every node, with its grace period of 8 s."""

    def __init__(self, cluster):
        self.plane, self.hollow = cluster.control_plane, cluster.hollow

    def stop(self, hard: bool = False):
        self.plane.stop_component("kube-controller-manager", hard=True)
        self.plane.stop_component("kube-apiserver", hard)

    def start(self):
        self.plane.start_component("kube-apiserver")
        self.plane.start_component("kube-controller-manager")

    def freeze(self):
        self.plane.stop_component("kube-controller-manager", hard=True)
        self.plane.processes.signal("kube-apiserver", signal.SIGSTOP)

    def thaw(self):
        self.plane.processes.signal("kube-apiserver", signal.SIGCONT)
        self.plane.wait_ready()
        self.plane.start_component("kube-controller-manager")

    def mend(self):
        """Whatever a test left behind: everything runs and answers again."""
        if self.plane.processes.alive("kube-apiserver"):
            self.plane.processes.signal("kube-apiserver", signal.SIGCONT)
        self.plane.revive()
        self.plane.wait_ready()
        wait_for("the stand-in nodes answer", self.hollow.status, 30)


class Doorbell:
    """Takes connections on a port and ends them at once; `rings` is when they came."""

    def __init__(self, port: int):
        self.port, self.rings = port, []
        self.since = time.monotonic()
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(64)
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self):
        while True:
            try:
                visitor, _ = self._listener.accept()
            except OSError:
                return
            self.rings.append(time.monotonic())
            visitor.close()

    def within(self, seconds: float) -> int:
        return sum(ring - self.since <= seconds for ring in self.rings)

    def __enter__(self) -> "Doorbell":
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@dataclass
class Victims:
    """A workload whose pods all run on one node, with two other nodes to go to."""

    cluster: object
    workloads: object
    node: str
    others: list
    uids: set

    def fail(self, mode: str = "notready"):
        self.cluster.hollow.fail(self.node, mode)

    def alive(self) -> set:
        """UIDs of those that still exist."""
        return self.uids & {pod["metadata"]["uid"] for pod in self.workloads.pods("noobaa")}

    def wait_replaced(self, seconds: float = 180) -> list:  # after an outage a Lease has to stand still for 40 s
        """All are gone and as many others run elsewhere, which are returned."""
        self.workloads.wait(f"the pods of {self.node} are gone", lambda: not self.alive(), seconds)
        return self.workloads.wait_all_running("noobaa", len(self.uids), not_on=self.node, seconds=seconds)

    def wait_survive(self, replacements: list):
        """The replacements are the ones that are there."""
        now = {pod["metadata"]["uid"] for pod in self.workloads.pods("noobaa")}
        assert now == {pod["metadata"]["uid"] for pod in replacements}


def deletions(victims: Victims, engine, raced: bool = False) -> Counter:
    """{status: count} of the deletions by the engine's user. None may have been of anything but a pod of the
    failed node, and none may have been done twice. (Two that `raced` may both be told 200: the API server takes
    it for success when somebody else removes the object in the middle of a deletion without grace.)"""
    entries = engine.deletes()
    # a request that is refused as not permitted is logged without its body
    strangers = {e.uid_precondition for e in entries if e.status not in (401, 403)} - victims.uids
    assert not strangers, f"pods that were not on {victims.node}: {strangers}"
    effective = Counter(e.uid_precondition for e in entries if e.status == 200)
    assert raced or all(count == 1 for count in effective.values()), effective
    return Counter(e.status for e in entries)


def holds(seconds: float, condition: Callable[[], bool], every: float = 0.2):
    """The condition holds, for so long: for what must not happen, where nothing can be waited for."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert condition()
        time.sleep(every)


def metric(engine, name: str, /, **labels) -> float:
    """The sum of a metric's samples that carry these labels."""
    return sum(value for (sample, has), value in parse(engine.metrics()).items()
               if sample == name and labels.items() <= dict(has).items())


# Until Kubernetes by itself has a volume attached elsewhere: its check once a minute, and the back-off of its attempts.
MOVED = 180
LOOKS = 3  # after a deletion: 1 s, 5 s and 15 s after one another


def wait_closed(engine, reason: str, count: int = 1, seconds: float = 150):
    wait_for(f"{count} incidents of {engine.name} end with {reason}",
             lambda: metric(engine, "moonfence_incidents_closed_total", reason=reason) >= count, seconds, 0.05)
