"""Plays kinds of chaos and counts."""

import shutil
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Callable, Optional

from e2e.cluster import Cluster
from e2e.control_plane import ControlPlane

from . import connections, pending, plane, replicas
from .kind import Kind
from .lane import Lane

GRACE = 8
# Without a release Kubernetes looks once a minute whether a volume is still attached, with this every two seconds. The
# kinds that release do without: it would be there before the next leader is.
FLAGS = ("--attach-detach-reconcile-sync-period=2s",)
KINDS = {kind.name: kind for module in (replicas, connections, plane) for kind in module.kinds()}
# What cannot end right yet; played when it is named.
PENDING = {kind.name: kind for kind, _ in pending.pending()}


@dataclass
class Result:
    kind: str
    seconds: list     # of the rounds that ended right
    wrong: int

    @property
    def rounds(self) -> int:
        return len(self.seconds) + self.wrong

    def row(self) -> str:
        took = f"{median(self.seconds):8.2f}" if self.seconds else "       –"
        return f"{self.kind:28} {self.rounds:6} {len(self.seconds):6} {self.wrong:6} {took}"


HEAD = f"{'kind':28} {'rounds':>6} {'right':>6} {'wrong':>6} {'median s':>8}"


def say(text: str):
    sys.stdout.write(text + "\n")  # in one piece: lanes are threads
    sys.stdout.flush()


def brief(fault: str) -> str:
    """Without the control plane's logs, which stay in its folder (MOONFENCE_KEEP_CLUSTER)."""
    return fault.partition("\nend of ")[0].replace("\n", "\n    ")[:4000]


def prepare(control_plane: ControlPlane, flags: tuple):
    """The controller manager runs with these flags."""
    if control_plane.controller_flags != flags:
        control_plane.controller_flags = flags
        control_plane.restart("kube-controller-manager", hard=True)


def play(cluster: Cluster, kind: Kind, times: int, seed: str, settings: Optional[dict] = None,
         tell: Callable[[str], None] = say, lanes: int = 0) -> Result:
    """So many rounds of a kind, spread over its lanes."""
    prepare(cluster.control_plane, () if kind.releases else FLAGS)
    width = min(lanes or kind.lanes, kind.lanes, times)
    folder = Path(tempfile.mkdtemp(prefix=f"{kind.name}-", dir=cluster.control_plane.folder))
    result, over = Result(kind.name, [], 0), threading.Event()

    def one_lane(index: int):
        lane = Lane(cluster, f"{kind.name}-{index + 1}", folder, settings, releases=kind.releases,
                    quarantine=kind.quarantine, raced=kind.raced, late=kind.late)
        try:
            kind.equip(lane)
            for number in range(index + 1, times + 1, width):
                if over.is_set():
                    break
                begun = time.monotonic()
                note, seconds, faults = kind.play(lane, number, seed)
                verdict = f"right after {seconds:6.2f} s" if not faults else "WRONG               "
                tell(f"{kind.name:28} {number:3}/{times} {verdict} ({time.monotonic() - begun:5.1f} s): {note}")
                for fault in faults:
                    tell(f"    {brief(fault)}")
                if faults:
                    result.wrong += 1
                else:
                    result.seconds.append(seconds)
        finally:
            left = lane.end()
            for fault in left:
                tell(f"    {kind.name}, at the end of a lane: {brief(fault)}")
            result.wrong += len(left)
    try:
        if width == 1:
            one_lane(0)  # in this thread: components that it starts end with the thread that started them
        else:
            with ThreadPoolExecutor(width) as pool:
                lanes_under_way = [pool.submit(one_lane, index) for index in range(width)]
                try:
                    for lane in lanes_under_way:
                        lane.result()
                except BaseException:
                    over.set()  # each lane ends its round and cleans up
                    raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def chosen(names: list) -> list:
    known = {**KINDS, **PENDING}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"chaos: unknown kind {' '.join(unknown)}; known: {' '.join(known)}")
    return [known[name] for name in names or KINDS]
