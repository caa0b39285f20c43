"""A control plane with stand-in nodes and its client, as one thing that begins and ends."""

import contextlib
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from .audit import AuditLog
from .control_plane import REPO, ControlPlane
from .hollow_control import HollowControl, lease_interval, start_hollow
from .kube import Client, wait_for
from .processes import Processes


@dataclass
class Cluster:
    """`control_plane` starts, stops and restarts components; `hollow` fails nodes."""

    control_plane: ControlPlane
    hollow: HollowControl
    client: Client

    def audit(self) -> AuditLog:
        """The audit log from now on."""
        return self.control_plane.audit().mark()


def sweep(base: Path):
    """Folders of earlier runs that were killed outright: nothing of them runs, nobody touched them lately."""
    for folder in base.glob("cluster-*"):
        left = Processes(folder)
        if time.time() - folder.stat().st_mtime > 600 and not any(left.pid(name) for name in left.read()):
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def running_cluster(place: str, grace: float, **more) -> Iterator[Cluster]:
    """A cluster without nodes in a folder of its own below build/<place>. Whatever happens, its processes end; the
    folder goes too, unless MOONFENCE_KEEP_CLUSTER is set. `more` goes to ControlPlane."""
    base = REPO / "build" / place
    base.mkdir(parents=True, exist_ok=True)
    sweep(base)
    folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=base))
    control_plane = ControlPlane(folder, grace=grace, **more)
    try:
        control_plane.start()
        hollow = start_hollow(control_plane.processes, control_plane.folder, interval=lease_interval(grace))
        wait_for("the hollow process takes orders", hollow.status, 120)
        control_plane.supervise()
        yield Cluster(control_plane, hollow, control_plane.client())
    finally:
        control_plane.stop()
        if os.environ.get("MOONFENCE_KEEP_CLUSTER"):
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
