"""The control groups of a machine, in every hierarchy of version 1 that this computer has."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

# what a kubelet, a container and our freezing need
NEEDED = {"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids"}
PATIENCE = 20  # seconds for the kernel to freeze or to let go; a bound, not a wait
# Heartbeats must not be late because a compiler runs beside us: the bed as a whole weighs as much as this many
# ordinary processes would (1024 is one).
BED_SHARES = 16384


def below(folder: Path) -> list:
    """The group and those below it. Groups come and go with containers: one that is removed meanwhile is left out, where
    rglob() of this Python fails."""
    return [Path(place) for place, _, _ in os.walk(folder)]


def processes_in(groups: list) -> set:
    found = set()
    for group in groups:
        try:
            found.update(int(pid) for pid in (group / "cgroup.procs").read_text().split())
        except OSError:
            continue  # it was removed meanwhile
    return found


def states(pids: set) -> list:
    """[(pid, name, state, where in the kernel)], for the message of a test that failed."""
    found = []
    for pid in sorted(pids):
        try:
            name, rest = Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
            found.append((pid, name, rest.split()[0], Path(f"/proc/{pid}/wchan").read_text()))
        except OSError:
            continue  # it has ended meanwhile
    return found


@dataclass(frozen=True)
class Hierarchy:
    """One tree of control groups: the names that /proc/self/cgroup gives it, and where it is mounted."""

    controllers: str
    root: Path

    @property
    def names(self) -> set:
        return set(self.controllers.split(","))


def _mounted() -> list:
    """[(options of the file system, where)] of every mounted hierarchy of version 1."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        kind, _, options = right.split(" ", 2)
        if kind == "cgroup":
            found.append((set(options.split(",")), Path(left.split()[4])))
    return found


def hierarchies() -> list:
    """All of them, the ones with a name and no controller too: the kubelet refuses to start when one that
    /proc/self/cgroup lists is not mounted ("missing paths")."""
    mounted, found = _mounted(), []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, _ = line.split(":", 2)
        if number == "0" or not controllers:
            continue  # version 2
        places = [place for options, place in mounted if set(controllers.split(",")) <= options]
        if places:
            found.append(Hierarchy(controllers, places[0]))
    return found


def missing() -> set:
    """The controllers that no hierarchy of version 1 has."""
    return NEEDED.difference(*(each.names for each in hierarchies()))


class Group:
    """The group `path` (like bed/node-1) in every hierarchy."""

    def __init__(self, path: str):
        self.path = path

    def folders(self) -> list:
        return [each.root / self.path for each in hierarchies()]

    def _of(self, controller: str) -> Path:
        (root,) = [each.root for each in hierarchies() if controller in each.names]
        return root / self.path

    def make(self):
        for folder in self.folders():
            folder.mkdir(parents=True, exist_ok=True)
        # a new group of cpuset takes no process before it is told its processors and memory; parents first
        cpuset = self._of("cpuset")
        top = cpuset.parents[len(Path(self.path).parts) - 1]
        for folder in reversed([cpuset, *cpuset.parents[:len(Path(self.path).parts) - 1]]):
            for name in ("cpuset.cpus", "cpuset.mems"):
                (folder / name).write_text((top / name).read_text())
        (self._of("cpu").parent / "cpu.shares").write_text(str(BED_SHARES))

    def doors(self) -> list:
        """The files through which a process joins, one a hierarchy."""
        return [folder / "cgroup.procs" for folder in self.folders()]

    def processes(self) -> set:
        """Pids of all processes in the group and below it."""
        return processes_in(below(self._of("pids")))

    # --- standing still

    def freeze(self):
        self._set("FROZEN")

    def thaw(self):
        self._set("THAWED")

    @property
    def frozen(self) -> bool:
        try:
            return (self._of("freezer") / "freezer.state").read_text().strip() != "THAWED"
        except FileNotFoundError:
            return False

    def _set(self, state: str):
        """Said again until it is so: a process that was in the middle of a fork or of its end when the kernel went
        through the group keeps it FREEZING, and only another order goes through it again."""
        file = self._of("freezer") / "freezer.state"
        end = time.monotonic() + PATIENCE
        while True:
            file.write_text(state)
            if file.read_text().strip() == state:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{file} is {file.read_text().strip()} after {PATIENCE} s, wanted {state}; "
                                   f"{states(processes_in(below(file.parent)))}")
            time.sleep(0.01)

    # --- how fast it runs

    def limit_cpu(self, share: float):
        """So much of one processor for all of it together; 0: as much as there is."""
        cpu = self._of("cpu")
        period = int((cpu / "cpu.cfs_period_us").read_text())
        (cpu / "cpu.cfs_quota_us").write_text(str(round(period * share) or -1))

    @property
    def waited_for_cpu(self) -> float:
        """For how many seconds it has stood still since it was made because of that limit."""
        told = dict(line.split() for line in (self._of("cpu") / "cpu.stat").read_text().splitlines())
        return int(told["throttled_time"]) / 1e9

    # --- the end

    def remove(self):
        """The group and all below it. Its processes have been killed; the kernel may need a moment more for them."""
        end = time.monotonic() + PATIENCE
        for folder in self.folders():
            while folder.exists():
                for each in sorted(below(folder)[1:], reverse=True):
                    _rmdir(each)
                if _rmdir(folder):
                    break
                if time.monotonic() > end:
                    raise RuntimeError(f"{folder} cannot be removed, processes: {sorted(self.processes())}")
                time.sleep(0.02)


def _rmdir(folder: Path) -> bool:
    try:
        folder.rmdir()
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return False
