"""The file systems of a machine, seen from inside its mount namespace.

It has the computer's own files, with a disk of its own above /etc and /var that outlives a reboot, and a /run that
does not.
"""

import subprocess
import uuid
from pathlib import Path

# Folders whose content cannot sit on an overlay: containerd makes overlays of its own in them, which the kernel
# refuses on top of another one, and the kubelet mounts volumes there.
PLAIN = ("/var/lib/containerd", "/var/lib/kubelet")

# What the kubelet wants of the kernel. These settings are the whole computer's, so it gets files that say already
# what it would write, and the computer keeps its own.
SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def mount(*words: str):
    done = subprocess.run(["mount", *map(str, words)], stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise RuntimeError(f"mount {' '.join(map(str, words))} failed with {done.returncode}")


def mount_all(config: dict):
    mount("-t", "proc", "proc", "/proc")
    if config["disk"]:
        folder = Path(config["folder"])
        _mount_disk(folder / "disk")
        _mount_run()
        _mount_kernel(config["boot_id"])
        _mount_groups(config["hierarchies"])
        _mount_firmware(config["machine_id"])
        Path("/etc/machine-id").write_text(config["machine_id"] + "\n")
        # containerd copies it for every pod, and the smallest Debian has none
        Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {config['name']}\n")
        # the kubelet hands mounts of volumes on to containers
        mount("--make-rshared", "/")


def _mount_disk(disk: Path):
    for name in ("etc", "var"):
        upper, work = disk / name, disk / f".{name}"
        upper.mkdir(parents=True, exist_ok=True)
        work.mkdir(exist_ok=True)
        mount("-t", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", "overlay", f"/{name}")
    for place in map(Path, PLAIN):
        own = disk / place.name
        own.mkdir(exist_ok=True)
        place.mkdir(parents=True, exist_ok=True)
        mount("--bind", own, place)


def _mount_run():
    mount("-t", "tmpfs", "-o", "mode=755", "run", "/run")
    for name in ("netns", "lock", "machine"):
        Path("/run", name).mkdir()


def _mount_kernel(boot_id: str):
    """A boot id of its own, by which a kubelet notices that the machine was rebooted, and settings of its own."""
    for name, value in {"kernel/random/boot_id": boot_id, **SETTINGS}.items():
        target = Path("/proc/sys", name)
        if target.exists():
            own = Path("/run/machine", name.replace("/", "."))
            own.write_text(value + "\n")
            mount("--bind", own, target)


def _mount_firmware(machine_id: str):
    """Its UUID, by which a management controller is known as its own, where this computer has one to hide."""
    target = Path("/sys/class/dmi/id/product_uuid")
    if target.exists():
        own = Path("/run/machine/product_uuid")
        own.write_text(f"{uuid.UUID(machine_id)}\n")
        mount("--bind", own, target)


def _mount_groups(hierarchies: list):
    """Every hierarchy that /proc/self/cgroup names, also those without a controller; within the cgroup namespace
    the machine's group is their root."""
    mount("-t", "sysfs", "sysfs", "/sys")
    top = Path("/sys/fs/cgroup")
    mount("-t", "tmpfs", "-o", "mode=755", "cgroup", top)
    for controllers in hierarchies:
        own = top / controllers.removeprefix("name=")
        own.mkdir()
        mount("-t", "cgroup", "-o", f"none,{controllers}" if controllers.startswith("name=") else controllers, "cgroup", own)
        for alias in controllers.split(",") if "," in controllers else ():
            (top / alias).symlink_to(own.name)
