"""What a bed leaves on this computer when its run was killed, and how it is found and taken away.

Nothing is ended by a name that somebody else could bear: processes by pid and start time or by the bed's own control
group, namespaces by the bed's name, loop devices and mounts by the bed's folder.
"""

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

from e2e.kube import wait_for
from e2e.processes import Processes

from . import network
from .groups import Group

PATIENCE = 20  # seconds; a bound, not a wait


def groups_of(bed: str) -> list:
    """Names of the machines that still have a control group."""
    return sorted({path.name for folder in Group(bed).folders() if folder.is_dir()
                   for path in folder.iterdir() if path.is_dir()})


def namespaces_of(bed: str) -> list:
    ours = re.compile(re.escape(bed) + r"-(switch|control-plane|node-\d+)")
    return [name for name in network.namespaces(bed) if ours.fullmatch(name)]


def loops_of(folder: Path) -> list:
    """Loop devices whose file is in the folder, and those that lie above them; the highest first."""
    backing = {}
    for file in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            backing[f"/dev/{file.parents[1].name}"] = file.read_text().strip().removesuffix(" (deleted)")
        except OSError:
            continue  # it was detached meanwhile
    layer = [device for device, below in backing.items() if Path(below).is_relative_to(folder)]
    found: list = []
    while layer:
        found = layer + found
        layer = [device for device, below in backing.items() if below in layer]
    return found


def mounts_of(folder: Path) -> list:
    """Mounts below the folder in our own mount namespace, the last first."""
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [place for place in reversed(places) if Path(place) != folder and Path(place).is_relative_to(folder)]


def found(bed: str, folder: Path, processes: Processes) -> list:
    """Everything of the bed that is still there, as words for a person."""
    return ([f"process {name}" for name in processes.read() if processes.pid(name)]
            + [f"control group {bed}/{name}" for name in groups_of(bed)]
            + [f"network namespace {name}" for name in namespaces_of(bed)]
            + [f"mount {place}" for place in mounts_of(folder)]
            + [f"loop device {device}" for device in loops_of(folder)])


def sweep(bed: str, folder: Path, processes: Processes):
    """Takes it all away; what is not there is no fault."""
    for name in reversed(list(processes.read())):
        pid = processes.pid(name)
        if pid:
            os.kill(pid, signal.SIGKILL)  # waited for below: one that is frozen does not die yet
    for name in groups_of(bed):
        _end_group(Group(f"{bed}/{name}"))
    for name in list(processes.read()):
        processes.end(name, hard=True)
    Group(bed).remove()
    for place in mounts_of(folder):
        subprocess.run(["umount", "--lazy", place], check=True)
    for device in loops_of(folder):
        # the kernel detaches it when the last one closes it, which the end of a namespace does a moment later
        subprocess.run(["losetup", "--detach", device], check=False, stderr=subprocess.DEVNULL)
    wait_for(f"the loop devices of {folder} are free", lambda: not loops_of(folder), PATIENCE, 0.02)
    for name in namespaces_of(bed):
        network.remove(name)


def _end_group(group: Group):
    """Kills whoever is in it, until nobody is."""
    def empty():
        pids = group.processes()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if group.frozen:
            group.thaw()
        return not pids
    wait_for(f"the processes of {group.path} have ended", empty, PATIENCE, 0.02)
    group.remove()
