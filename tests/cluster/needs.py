"""What this computer must have before machines can be made, one clear line for each thing that it has not."""

import fcntl
import os
import re
import shutil
import socket
import struct
import sys
from pathlib import Path

from . import groups, inotify
from .image import BUSYBOX
from .network import MOST_NODES

LOOP_CONTROL = Path("/dev/loop-control")
LOOP_CTL_GET_FREE = 0x4C82  # linux/loop.h
PT_INTERP = 3  # elf.h
TOOLS = {"ip": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "setpriv": "util-linux", "mount": "mount",
         "losetup": "mount", "openssl": "openssl", "mkfs.ext4": "e2fsprogs", "e2fsck": "e2fsprogs",
         "debugfs": "e2fsprogs"}
OWN_LAYER = ("/etc", "/var", "/run", "/proc", "/sys", "/dev")  # where a machine sees something else than this computer
NAME = re.compile(r"[a-z][a-z0-9-]{0,19}")


class Unfit(RuntimeError):
    """Lines for a person, each with the place, the value, the rule and the next step."""

    def __init__(self, lines: list):
        super().__init__("\n".join(lines))
        self.lines = lines


def check(folder: Path, name: str, nodes: int, port: int = 0):
    """Raises Unfit with everything that is wrong at once."""
    lines = [*user(), *control_groups(), *loop_devices(), *tools(), *inotify.check(min(nodes, MOST_NODES)), *place(folder),
             *numbers(name, nodes, port)]
    if lines:
        raise Unfit(lines)


def user() -> list:
    uid = os.geteuid()
    if uid == 0:
        return []
    return [f"user: uid {uid}; machines are made of namespaces, mounts and control groups, which only root may make; "
            "run it as root"]


def control_groups() -> list:
    absent = groups.missing()
    if not absent:
        return []
    return [f"/proc/self/mountinfo: no control groups of version 1 with {', '.join(sorted(absent))}; machines are frozen "
            "and limited by version 1, with version 2 alone they do not work; boot with "
            "systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1 on the kernel's command line"]


def loop_devices() -> list:
    try:
        with open(LOOP_CONTROL, "rb") as control:
            free = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
    except OSError as error:
        return [f"{LOOP_CONTROL}: {error.strerror}; volumes are file systems on loop devices; load the kernel's module "
                "(modprobe loop), or give the container its devices"]
    if Path(f"/dev/loop{free}").exists():
        return []
    return [f"/dev/loop{free}: is not there, and it is the next free loop device; volumes need it; "
            f"mknod /dev/loop{free} b 7 {free}"]


def tools() -> list:
    lines = [f"{tool}: is not in PATH; machines need it; apt-get install {package}"
             for tool, package in TOOLS.items() if not shutil.which(tool)]
    if not BUSYBOX.is_file() or not static(BUSYBOX):
        said = "needs shared libraries" if BUSYBOX.is_file() else "is not there"
        lines.append(f"{BUSYBOX}: {said}; the containers' image holds this one program; apt-get install busybox-static")
    return lines


def static(program: Path) -> bool:
    """Whether an ELF program names no interpreter, the dynamic linker."""
    data = program.read_bytes()
    begin, = struct.unpack_from("<Q", data, 32)  # of the program headers
    size, count = struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, begin + size * number)[0] for number in range(count)]
    return PT_INTERP not in kinds


def place(folder: Path) -> list:
    folder = folder.resolve()
    hidden = [top for top in OWN_LAYER if folder.is_relative_to(top)]
    if hidden:
        return [f"{folder}: is below {hidden[0]}, of which every machine has its own; choose a folder elsewhere"]
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    if kind_of(existing) == "overlay":
        return [f"{folder}: is on an overlay file system, on which the machines' disks cannot be; choose a folder on "
                "another one (a volume, or a tmpfs)"]
    return []


def kind_of(folder: Path) -> str:
    """The file system that holds a folder."""
    best = ("", "")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        left, right = line.split(" - ", 1)
        where = left.split()[4]
        if folder.is_relative_to(where) and len(where) >= len(best[0]):
            best = (where, right.split()[0])
    return best[1]


def numbers(name: str, nodes: int, port: int) -> list:
    lines = []
    if not NAME.fullmatch(name):
        lines.append(f"the bed's name: '{name}'; it becomes a part of names of network namespaces; write at most 20 "
                     "small letters, digits and -, the first one a letter")
    if not 0 <= nodes <= MOST_NODES:
        lines.append(f"the number of nodes: {nodes}; there are addresses for {MOST_NODES}; write 0 to {MOST_NODES}")
    if port and not free(port):
        lines.append(f"127.0.0.1:{port}: is taken; the API server is reached there; name another port, or none")
    return lines


def free(port: int) -> bool:
    with socket.socket() as probe:
        # as the forwarder does: a port on which nobody listens any more is free
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


def main():
    """`python3 -m cluster.needs FOLDER`: says what keeps a bed from being made there."""
    inotify.make_room()
    try:
        check(Path(sys.argv[1]), "bed", 3)
    except Unfit as error:
        sys.exit("\n".join(f"machines: {line}" for line in error.lines))


if __name__ == "__main__":
    main()
