"""Starts a program as a container runtime does: `python3 container.py SPEC.json`, as root. Nothing of the network is
its own: the API server of the tests listens on loopback. seccomp is not applied.

SPEC: root, the folder of the image; mounts, [[folder, where in the container]], read-only; user, group, groups; writable,
whether the root is; privileges, whether it may gain and keep any; command; environment.

It becomes the program, with the same pid, which dies with whoever started it.
"""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
LIBC = ctypes.CDLL(None, use_errno=True)


def call(name: str, *arguments):
    """One call of the C library; what it refuses ends everything, in words."""
    values = [os.fsencode(each) if isinstance(each, (str, Path)) else ctypes.c_ulong(each) if isinstance(each, int) else each
              for each in arguments]
    if getattr(LIBC, name)(*values) != 0:
        told = " ".join(map(str, arguments))
        sys.exit(f"container: {name} {told}: {os.strerror(ctypes.get_errno())}: the tests of the image need to be root, "
                 f"with mount namespaces, and / to be a mount point")


def bind(source, target, read_only: bool):
    call("mount", source, target, None, MS_BIND, None)
    if read_only:
        call("mount", None, target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, None)


def main():
    spec = json.loads(Path(sys.argv[1]).read_text())
    root = Path(spec["root"])
    call("unshare", CLONE_NEWNS)
    call("mount", "none", "/", None, MS_REC | MS_PRIVATE, None)
    bind(root, root, not spec["writable"])
    for source, place in spec["mounts"]:
        bind(source, root / place.lstrip("/"), True)
    bind("/proc", root / "proc", False)
    os.chroot(root)
    os.chdir("/")
    if not spec["privileges"]:
        for number in range(int(Path("/proc/sys/kernel/cap_last_cap").read_text()) + 1):
            call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    os.setgroups(spec["groups"])
    os.setresgid(*[spec["group"]] * 3)
    os.setresuid(*[spec["user"]] * 3)
    if not spec["privileges"]:
        call("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user would take it back
    os.execve(spec["command"][0], spec["command"], spec["environment"])


if __name__ == "__main__":
    main()
