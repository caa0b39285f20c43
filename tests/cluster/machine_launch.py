"""Puts a process into the control groups and namespaces of a machine and makes it the machine's pid 1.

    machine_launch.py CONFIG       the file that machine_init.py reads
"""

import json
import os
import sys
from pathlib import Path


def main(config: str):
    told = json.loads(Path(config).read_text())
    # Before the cgroup namespace is made: its root is where we are then, and so the kubelet finds its groups at /.
    for door in told["groups"]:
        Path(door).write_text(str(os.getpid()))
    init = Path(__file__).resolve().with_name("machine_init.py")
    # --kill-child: whoever ends this process ends the machine
    os.execvp("nsenter", [
        "nsenter", f"--net={told['network']}", "unshare", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--fork",
        "--kill-child=KILL", sys.executable, "-B", str(init), config])


if __name__ == "__main__":
    main(sys.argv[1])
