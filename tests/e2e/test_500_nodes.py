"""500 nodes with their heartbeats: that the cluster bears them, and how much memory the engine takes."""

import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from .audit import AuditLog
from .control_plane import ControlPlane
from .engine import Account, Engine, binary
from .faults import holds, metric
from .hollow_control import lease_interval, start_hollow
from .kube import Client, wait_for
from .workloads import node_ready

# one cluster for both, so one worker
pytestmark = pytest.mark.xdist_group("500 nodes")


@dataclass
class Large:
    """What an engine needs of a cluster."""

    control_plane: ControlPlane
    client: Client

    def audit(self) -> AuditLog:
        return self.control_plane.audit().mark()

    def ready(self) -> list:
        return [n for n in self.client.list("nodes") if node_ready(n) == "True" and not n["spec"].get("taints")]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A cluster of its own: their heartbeats are too much for the short grace period of the others. Each comes every ten
    seconds, as that of a kubelet does."""
    grace = 40
    plane = ControlPlane(tmp_path_factory.mktemp("large") / "cluster", grace=grace)
    try:
        plane.start()
        start_hollow(plane.processes, plane.folder, nodes=500, interval=lease_interval(grace), images=50,
                     conditions=True, status_period=300)
        large = Large(plane, plane.client())
        wait_for("500 nodes are Ready", lambda: len(large.ready()) == 500, 300, every=5)
        yield large
    finally:
        plane.stop()


def memory(pid: int) -> dict:
    """Bytes, by the names of proc(5): VmRSS is all of RssAnon and RssFile. RssFile, three quarters of it, is code, its own and
    that of shared libraries. How much of it counts depends on what other processes have read of the same files: the kernel maps
    what it has around a page that is asked for. RssAnon is the engine's own data, and depends on the engine alone."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: 1024 * int(value.split()[0]) for name, value in (line.split(":", 1) for line in lines)
            if name in ("VmRSS", "RssAnon", "RssFile")}


def has_sanitizer() -> bool:
    return any(name in binary().read_bytes() for name in (b"__asan_init", b"__tsan_init"))


@pytest.mark.slow
def test_they_stay_ready_for_a_minute(large):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        assert len(large.ready()) == 500
        time.sleep(5)


def test_what_it_knows_of_them_fits_into_6_megabytes(large, tmp_path):
    large.client.create("namespaces", {"metadata": {"name": "noobaa"}})
    account = Account(large, "noobaa", "moonfence").create()
    engine = Engine(large, tmp_path, account, "noobaa", witnessed=False)
    try:
        engine.start()
        wait_for("500 nodes are known", lambda: metric(engine, "moonfence_nodes", state="ready") == 500, 120)
        holds(20, engine.alive, every=1)
        used = memory(engine.pid)
        print({name: f"{bytes / 1e6:.1f} MB" for name, bytes in used.items()})
        assert has_sanitizer() or used["RssAnon"] <= 6e6
        assert engine.get("/readyz")[0] == 200
    finally:
        engine.end()
