"""The storage of a bed: volumes in a folder, the commands that serve them, and a look at what is on their disks.

    san = San(folder / "san", programs["csi-driver"])
    san.create("v", volumes.FENCE)
    san.power_off("node-1")                 # just before the machine's processes are killed
    san.check("v", witnesses(disks, "default", "db-0"))     # a checker.Report

bed_with_volumes.py runs the commands. Their loop devices are taken away with the bed (leftover.py).
"""

import subprocess
from pathlib import Path

from . import disk_image
from .checker import Report
from .volumes import BOOKKEEPING, DRIVER, SIZE, witness

# where a kubelet looks for drivers; its own folder on a machine is where every kubelet has it
KUBELET = Path("/var/lib/kubelet")


def witnesses(disks, namespace: str, pod: str) -> list:
    """What the writers in pods of this name called durable, on all machines; `disks` are the machines' own."""
    return [said.read_text(errors="replace") for disk in disks
            for said in sorted(Path(disk, witness(namespace).lstrip("/")).glob(f"{pod}_*"))]


class San:
    def __init__(self, folder: Path, driver: Path):
        self.folder, self.driver = Path(folder), Path(driver)

    # --- services

    def controller_command(self, socket: str, attach_delay: float = 0, detach_delay: float = 0) -> tuple:
        return (self.driver, "controller", "--san", self.folder, "--socket", socket,
                f"--attach-delay={attach_delay}s", f"--detach-delay={detach_delay}s")

    @staticmethod
    def attacher_command(attacher: Path, socket: str, kubeconfig: Path) -> tuple:
        """With a leader's Lease, by which moonfence sees whether the attacher is alive."""
        return (attacher, f"--csi-address={socket}", f"--kubeconfig={kubeconfig}", "--leader-election",
                "--leader-election-namespace=kube-system", "--http-endpoint=", "--v=2")

    def addons_command(self, kubeconfig: Path) -> tuple:
        return (self.driver, "addons", "--san", self.folder, "--kubeconfig", kubeconfig)

    def node_command(self, node: str, address: str) -> tuple:
        """`address`: by which the storage knows it."""
        return (self.driver, "node", "--san", self.folder, "--node", node, "--address", address,
                "--socket", KUBELET / "plugins" / DRIVER / "csi.sock", "--registry", KUBELET / "plugins_registry")

    # --- volumes

    def create(self, volume: str, detach: str = BOOKKEEPING):
        self._do("create", "--volume", volume, "--detach", detach, "--size", SIZE)

    def power_off(self, node: str):
        """What the node has not written out is lost; else the kernel would write it out while it ends the machine."""
        self._do("power-off", "--node", node)

    # --- what is there

    def image(self, volume: str) -> Path:
        return self.folder / volume / "disk.img"

    def attached_to(self, volume: str) -> list:
        """Names of nodes."""
        return sorted(record.stem for record in (self.folder / volume / "attachments").glob("*.json"))

    def check(self, volume: str, outputs=()) -> Report:
        """`outputs`: what witnesses() found."""
        return disk_image.check(self.image(volume), outputs)

    def _do(self, mode: str, *words: str):
        done = subprocess.run([str(self.driver), mode, "--san", str(self.folder), *words], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise RuntimeError(f"csi-driver {mode} {' '.join(words)}: {done.stdout.strip()}")
