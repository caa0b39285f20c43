"""How many inotify instances root may have at once: a limit of the kernel that several kubelets on one computer reach."""

import contextlib
import os
from pathlib import Path

LIMIT = Path("/proc/sys/fs/inotify/max_user_instances")
A_NODE = 8  # its kubelet and its containerd
ENOUGH = 2048


def make_room():
    """Raises the limit, as the documentation of every tool asks for that runs several kubelets on one computer. Where it
    cannot be written it stays: check() says what that means."""
    try:
        if int(LIMIT.read_text()) < ENOUGH:
            LIMIT.write_text(str(ENOUGH))
    except OSError:
        pass


def check(nodes: int) -> list:
    """A line if so many nodes would have too few."""
    limit, used = int(LIMIT.read_text()), in_use()
    if used + nodes * A_NODE <= limit:
        return []
    return [f"{LIMIT}: {limit}, of which {used} are in use; {nodes} nodes take {nodes * A_NODE}; "
            f"sysctl -w fs.inotify.max_user_instances={ENOUGH}"]


def in_use(proc: str = "/proc") -> int:
    """Of all users; nearly all of them are root's where machines run."""
    return sum(_of_process(f"{proc}/{pid}/fd") for pid in os.listdir(proc) if pid.isdigit())


def _of_process(files: str) -> int:
    """Processes end and files are closed while they are counted, where glob() of this Python fails."""
    found = 0
    with contextlib.suppress(OSError):
        for name in os.listdir(files):
            with contextlib.suppress(OSError):
                found += os.readlink(f"{files}/{name}") == "anon_inode:inotify"
    return found
