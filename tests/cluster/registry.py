"""Which runs have a bed up on this computer, wherever its folder is.

A killed run leaves its bed behind, and its checkout is often gone: nobody will ever start another one in that folder. So every
start looks here first, and takes away the beds of runs that have ended. A bed that is meant to outlive its run
(scripts/machines up) is not listed.
"""

import contextlib
import fcntl
import json
import os
from pathlib import Path

from e2e.processes import Processes, start_time

from . import leftover

FOLDER = Path("/run/moonfence/beds")


def enter(name: str, folder: Path):
    FOLDER.mkdir(parents=True, exist_ok=True)
    told = {"folder": str(folder), "pid": os.getpid(), "started": start_time(os.getpid())}
    (FOLDER / f"{name}.json").write_text(json.dumps(told) + "\n")


def leave(name: str):
    (FOLDER / f"{name}.json").unlink(missing_ok=True)


def sweep():
    """Takes the beds of ended runs away; one start at a time."""
    if not FOLDER.is_dir():
        return
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for entry in sorted(FOLDER.glob("*.json")):
            with contextlib.suppress(FileNotFoundError, ValueError):  # it was just left, or is just being written
                told = json.loads(entry.read_text())
                if start_time(told["pid"]) != told["started"]:
                    folder = Path(told["folder"])
                    leftover.sweep(entry.stem, folder, Processes(folder))
                    entry.unlink()
