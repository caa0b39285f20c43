"""A node: a machine with a disk, containerd and a kubelet."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path

from e2e.kube import ApiError, wait_for

from .control_plane import INSIDE, ControlPlane
from .groups import below, processes_in
from .image import PAUSE
from .machine import Machine, Service
from .settings import STOCK, Settings

SOCKET = "/run/containerd/containerd.sock"
READY_LIMIT = 180  # seconds until a node that was switched on is Ready; a bound, not a wait
CNI_PLUGIN = "ptp"

# containerd has many plugins for storage that is not here; each would say so at every start
NOT_HERE = ("io.containerd.nri.v1.nri", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
            "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing")


def ready(node: dict) -> str:
    """True, False, Unknown, or "" without such a condition."""
    return next((c["status"] for c in node["status"].get("conditions") or [] if c["type"] == "Ready"), "")


@dataclass
class Node(Machine):
    programs: dict = field(default_factory=dict)
    settings: Settings = STOCK
    control_plane: ControlPlane = None
    archives: list = field(default_factory=list)  # of images, which are there when the kubelet starts
    has_disk = True

    # --- life

    def power_on(self):
        self._configure()
        super().power_on()

    def wait_ready(self, seconds: float = READY_LIMIT) -> dict:
        """Until the API server says Ready of its present life: of a quick reboot it may not know yet."""
        client = self.control_plane.client(timeout=5)

        def seen():
            node = client.find("nodes", self.name)
            known = node and node["status"].get("nodeInfo", {}).get("bootID") == self.boot_id
            return node if known and ready(node) == "True" and not node["spec"].get("taints") else None
        try:
            return wait_for(f"{self.name} is Ready", seen, seconds, 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self._explain()}") from None

    def _explain(self) -> str:
        parts = [f"{name}: {self.log_tail(name, 12)}" for name in ("boot", "containerd", "kubelet")]
        try:
            parts.append(json.dumps(self.control_plane.client(timeout=5).find("nodes", self.name))[:4000])
        except (ApiError, OSError) as error:
            parts.append(str(error))
        return "\n".join(parts)

    # --- containers

    def ctr(self, *words, **more) -> str:
        return self.run(self.programs["ctr"], "--address", SOCKET, "--namespace", "k8s.io", *words, **more)

    def import_image(self, archive: Path):
        self.ctr("images", "import", archive, timeout=300)

    def containers(self) -> set:
        """Ids of those that run, sandboxes too, by containerd's word."""
        lines = [line.split() for line in self.ctr("tasks", "ls").splitlines()[1:]]
        return {words[0] for words in lines if words[2] == "RUNNING"}

    def container_processes(self, uid: str) -> set:
        """Pids of a pod's processes, by its control group: what really runs, whoever knows of it."""
        return processes_in([group for group in below(self.group.folders()[0]) if uid in str(group)])

    # --- files

    def services(self) -> list:
        programs = self.programs
        containerd = (programs["containerd"], "--config", self.folder / "containerd.toml", "--log-level", "warn")
        ctr = (programs["ctr"], "--address", SOCKET, "--namespace", "k8s.io")
        kubelet = (programs["kubelet"], "--config", self.folder / "kubelet.json", "--kubeconfig",
                   self.folder / "kubeconfig", "--hostname-override", self.name, "--node-ip", self.host.address,
                   "--root-dir", "/var/lib/kubelet", "--cert-dir", "/var/lib/kubelet/pki", "--v", "2")
        before = [(*ctr, "version"), *self._imports(ctr)]
        return [Service("containerd", containerd), Service("kubelet", kubelet, before=tuple(before))]

    def _imports(self, ctr: tuple) -> list:
        """Each archive once in the life of its disk."""
        commands = []
        for archive in self.archives:
            digest = hashlib.sha256(Path(archive).read_bytes()).hexdigest()[:16]
            done = f"/var/lib/containerd/imported-{digest}"
            commands.append(("sh", "-c", '[ -e "$1" ] || { shift; "$@"; } && touch "$0"', done, done,
                             *ctr, "images", "import", archive))
        return commands

    def _configure(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        kubeconfig = self.control_plane.write_kubeconfig(self.name, f"system:node:{self.name}", "system:nodes", INSIDE)
        kubeconfig.replace(self.folder / "kubeconfig")
        (self.folder / "containerd.toml").write_text(self._containerd())
        (self.folder / "cni").mkdir(exist_ok=True)
        (self.folder / "cni" / "10-bed.conflist").write_text(json.dumps(self._cni(), indent=1) + "\n")
        (self.folder / "kubelet.json").write_text(json.dumps(self._kubelet(), indent=1) + "\n")

    def _containerd(self) -> str:
        def quoted(text):
            return json.dumps(str(text))
        runtime = "[plugins.'io.containerd.cri.v1.runtime'"
        lines = [
            "version = 3", "root = '/var/lib/containerd'", "state = '/run/containerd'",
            f"disabled_plugins = {json.dumps(NOT_HERE)}",
            "[grpc]", f"address = {quoted(SOCKET)}",
            "[plugins.'io.containerd.cri.v1.images']", "snapshotter = 'overlayfs'",
            "[plugins.'io.containerd.cri.v1.images'.pinned_images]", f"sandbox = {quoted(PAUSE)}",
            # without CAP_SYS_RESOURCE nobody may lower oom_score_adj, and runc dies of it
            f"{runtime}]", "restrict_oom_score_adj = true",
            f"{runtime}.cni]", f"bin_dirs = [{quoted(Path(self.programs[CNI_PLUGIN]).parent)}]",
            f"conf_dir = {quoted(self.folder / 'cni')}",
            f"{runtime}.containerd]", "default_runtime_name = 'runc'",
            f"{runtime}.containerd.runtimes.runc]", "runtime_type = 'io.containerd.runc.v2'",
            f"{runtime}.containerd.runtimes.runc.options]", f"BinaryName = {quoted(self.programs['runc'])}",
            "SystemdCgroup = false"]
        return "\n".join(lines) + "\n"

    def _cni(self) -> dict:
        # what was given to whom is forgotten with /run, as the pods are
        ipam = {"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{"subnet": self.host.pods}]],
                "routes": [{"dst": "0.0.0.0/0"}]}
        return {"cniVersion": "1.0.0", "name": "bed", "plugins": [{"type": CNI_PLUGIN, "ipMasq": False, "ipam": ipam}]}

    def _kubelet(self) -> dict:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "address": self.host.address,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True},
                               "x509": {"clientCAFile": str(self.control_plane.ca)}},
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{SOCKET}",
            "volumePluginDir": "/var/lib/kubelet/volumeplugins",  # by default in /usr, which is this computer's
            "resolvConf": "", "clusterDNS": [],
            # control groups of version 1, without systemd
            "cgroupDriver": "cgroupfs", "failCgroupV1": False, "enforceNodeAllocatable": [],
            # swap, full disks and iptables are this computer's business; an empty evictionHard means the defaults
            "failSwapOn": False, "localStorageCapacityIsolation": False, "makeIPTablesUtilChains": False,
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                             "imagefs.available": "0%", "imagefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
            "shutdownGracePeriod": "0s",
            **self.settings.kubelet()}
