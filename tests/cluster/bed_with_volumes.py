"""A bed with storage: pods have volumes there, and what is on a volume's disk can be judged afterwards.

    with BedWithVolumes(folder, settings=FAST).up(3) as bed:
        bed.san.create("v", volumes.FENCE)
        bed.client.create("persistentvolumes", volumes.persistent_volume("v", volumes.FENCE, "data-db-0"))
        bed.client.create("statefulsets", volumes.writers("db", volumes.FENCE))

The driver's controller, external-attacher and what stands in for CSI-Addons run beside the control plane, the driver's other
half on each node. All machines see the storage in the bed's folder, as over a storage network of its own: it is not behind
their cables. By an address of that network, 10.78.0.N, the storage knows a node and can refuse it; no packet goes there.
"""

from pathlib import Path

from e2e.kube import ApiError, wait_for

from . import csi_addons, volumes
from .bed import FIRST_NODE, Bed
from .control_plane import INSIDE
from .image import Image, write_archive
from .machine import Service
from .san import San
from .settings import STOCK, Settings

CONTROLLER, ATTACHER, ADDONS, PLUGIN = "csi-controller", "csi-attacher", "csi-addons", "csi-node"
STORAGE_SUBNET = "10.78.0"
# Both run in the control plane's folder, whose own path may be too long for a unix socket (107 bytes).
SOCKET = "/proc/self/cwd/csi.sock"
READY_LIMIT = 180  # seconds until a kubelet knows the driver; a bound, not a wait

# what external-attacher's own manifests grant it
CLUSTER_RULES = (
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["csinodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments/status"], "verbs": ["patch"]},
)
LEASE_RULES = (
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
     "verbs": ["get", "watch", "list", "delete", "update", "create"]},
)


class BedWithVolumes(Bed):
    parts = (*Bed.parts, "attacher", "storage")

    def __init__(self, folder, name: str = "", settings: Settings = STOCK, **more):
        super().__init__(folder, name, settings, extra_services=self._services, **more)

    def prepare(self):
        self.san = San(self.folder / "san", Path(self.programs["csi-driver"]))
        self.san.folder.mkdir()
        writer = Image(volumes.WRITER, ("/bin/writer",), (("bin/writer", self.programs["writer"]),),
                       folders=("bin", "data", "dev", "etc", "proc", "sys", "witness"))
        self.archives.append(write_archive(self.folder / "writer.tar", [writer]))

    def _services(self, machine: str) -> list:
        if machine != "control-plane":
            number = FIRST_NODE + int(machine.removeprefix("node-"))
            return [Service(PLUGIN, self.san.node_command(machine, f"{STORAGE_SUBNET}.{number}"))]
        attacher, addons = (self.folder / machine / f"{name}.kubeconfig" for name in (ATTACHER, ADDONS))
        commands = {CONTROLLER: self.san.controller_command(SOCKET),
                    ATTACHER: self.san.attacher_command(self.programs["csi-attacher"], SOCKET, attacher),
                    ADDONS: self.san.addons_command(addons)}
        inside = ("sh", "-c", 'cd "$0" && exec "$@"', self.folder / machine)
        return [Service(name, (*inside, *command), wanted=False) for name, command in commands.items()]

    def _make(self, count: int):
        super()._make(count)
        self.control_plane.when_ready.append(self._make_objects)
        for node in self.nodes:
            node.before_power_off.append(lambda node: self.san.power_off(node.name))

    def _make_objects(self):
        """The driver's classes, the kinds of CSI-Addons, and accounts, by a client certificate each."""
        wait_for("the namespace kube-system", lambda: self.client.find("namespaces", "kube-system"), READY_LIMIT, 0.05)
        self._create("csidrivers", volumes.csi_driver())
        for detach in (volumes.BOOKKEEPING, volumes.FENCE):
            self._create("storageclasses", volumes.storage_class(detach))
        csi_addons.install(self.client)
        self._account(ATTACHER, ("ClusterRole", CLUSTER_RULES, ""), ("Role", LEASE_RULES, "kube-system"))
        self._account(ADDONS, ("ClusterRole", csi_addons.RULES, ""))

    def _account(self, name: str, *roles: tuple):
        self.control_plane.write_kubeconfig(name, name, server=INSIDE)
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        named = {"metadata": {"name": name}}
        for kind, rules, namespace in roles:
            resource = kind.lower()
            self._create(f"{resource}s", {**named, "rules": list(rules)}, namespace)
            self._create(f"{resource}bindings", {**named, "subjects": [subject], "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}}, namespace)

    def _create(self, resource: str, body: dict, namespace: str = ""):
        try:
            self.client.create(resource, body, namespace)
        except ApiError as error:
            if error.status != 409:  # of an earlier life of the control plane
                raise

    def wait_ready(self):
        super().wait_ready()

        def known():
            told = {each["metadata"]["name"]: each["spec"]["drivers"] for each in self.client.list("csinodes")}
            return all(volumes.DRIVER in [driver["name"] for driver in told.get(node.name) or []] for node in self.nodes)
        wait_for("every kubelet knows the driver", known, READY_LIMIT, 0.05)
