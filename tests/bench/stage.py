"""What the measurements play on: a cluster, two nodes that take turns in failing, and the engine."""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.audit import AuditLog
from e2e.control_plane import REPO, ControlPlane
from e2e.engine import STORAGE_RULES
from e2e.hollow_control import lease_interval, start_hollow
from e2e.kube import wait_for
from e2e.processes import free_port
from e2e.workloads import Workloads, is_ready, node_ready, taints

BINARY = Path(os.environ.get("MOONFENCE_BINARY", REPO / "build/release/moonfence"))
POLICY = REPO / "policies/noobaa/policy.lua"

RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]},
]

# The engine's limits on how many nodes it fences are for whoever runs it: here a node fails every few seconds.
UNBRAKED = "brake: {maxDown: off, maxAtOnce: off, maxPerWindow: off, zone: {maxDown: off}}"

# a Lease that the controller manager renews, as every real one does: nothing is released without
CONTROLLERS = ("--leader-elect=true",)


def keep_to(cores: set, pids: list):
    """All threads that these processes have; those that they start later do as their parents."""
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*"):
            with suppress(ProcessLookupError):  # it has just ended
                os.sched_setaffinity(int(thread.name), cores)


class Stage:
    """A control plane of its own below `folder`."""

    def __init__(self, folder: Path, grace: int = 20):
        self.control_plane = ControlPlane(folder, grace=grace, monitor=1, controller_flags=CONTROLLERS)
        self.folder = folder
        self.grace = grace

    def __enter__(self) -> "Stage":
        self.control_plane.start()
        self.control_plane.supervise()  # a kubelet would start again what crashes
        try:
            self.hollow = start_hollow(self.control_plane.processes, self.folder,
                                       interval=lease_interval(self.grace))
            wait_for("the hollow process takes orders", self.hollow.status, 30)
            self.client = self.control_plane.client("bench")
            self._grant()
        except BaseException:
            self.control_plane.stop()
            raise
        return self

    def __exit__(self, *_):
        self.control_plane.stop()

    def audit(self) -> AuditLog:
        return self.control_plane.audit().mark()

    @contextmanager
    def slow_controllers(self, seconds: float):
        """What they see meanwhile they act on that much later, as busy ones do."""
        self.control_plane.processes.signal("kube-controller-manager", signal.SIGSTOP)
        try:
            yield
            time.sleep(seconds)
        finally:
            self.control_plane.processes.signal("kube-controller-manager", signal.SIGCONT)

    @contextmanager
    def apart(self, engine):
        """The engine has a core for itself; all that runs for the measurement beside it shares the others."""
        cores, processes = os.sched_getaffinity(0), self.control_plane.processes
        beside = [os.getpid(), *filter(None, map(processes.pid, processes.read()))]
        try:
            keep_to({max(cores)}, [engine.pid])
            keep_to(cores - {max(cores)}, beside)
            yield
        finally:
            keep_to(cores, [engine.pid, *beside])

    def _grant(self):
        """The engine's ServiceAccount with the permissions of docs/reference.md."""
        self.client.create("namespaces", {"metadata": {"name": "moonfence"}})
        self.client.create("serviceaccounts", {"metadata": {"name": "moonfence"}}, "moonfence")
        self.client.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                            {"metadata": {"name": "moonfence"}, "rules": [*RULES, *STORAGE_RULES]})
        self.client.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "moonfence"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "moonfence"},
            "subjects": [{"kind": "ServiceAccount", "name": "moonfence", "namespace": "moonfence"}]})
        self.token = self.client.token("moonfence", "moonfence")
        self.kubeconfig = self.control_plane.token_kubeconfig("moonfence", self.token, "moonfence")

    @contextmanager
    def engine(self, namespace: str, mode: str = "enforce", policies: str = "", kubeconfig: Path = None,
               settings: str = UNBRAKED):
        """A running engine with the attributes `metrics_port` and `ready_in`, the seconds from its start until it was
        ready; with `policies` it takes its policies from the ConfigMap in that namespace instead of from the file.
        `settings` are lines of its configuration."""
        source = ["--namespace", policies, "--leader-elect=false"] if policies else [
            "--policy", str(POLICY), "--policy-namespace", namespace, "--mode", mode]
        config = self.folder / "moonfence.yaml"
        config.write_text(f"api: 1\n{settings}\n")
        port, health = free_port(), free_port()
        log = open(self.folder / "moonfence.log", "ab")
        process = subprocess.Popen(
            [str(BINARY), "run", "--kubeconfig", str(kubeconfig or self.kubeconfig), *source,
             "--config", str(config), "--metrics-bind-address", f"127.0.0.1:{port}",
             "--health-probe-bind-address", f"127.0.0.1:{health}", "--status-bind-address", "0",
             "--audit-log", str(self.folder / "moonfence-audit.jsonl")],
            stdin=subprocess.DEVNULL, stderr=log)
        process.metrics_port = port
        began = time.monotonic()
        try:
            wait_for("the engine is ready", lambda: self._ready(process, health), 120, every=0.005)
            process.ready_in = time.monotonic() - began
            time.sleep(6)  # until what begins with it is over: the Lease, events, connections for deletions (kube/wire/heartbeat)
            yield process
        finally:
            process.terminate()
            process.wait(20)
            log.close()

    @staticmethod
    def _ready(process, port: int) -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"the engine ended with {process.returncode}; see moonfence.log")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False


class Pair:
    """Two nodes; a Deployment `noobaa` of `pods` pods lives on one of them and flees to the other."""

    def __init__(self, stage: Stage, name: str, pods: int):
        self.stage, self.pods = stage, pods
        self.namespace = name
        self.nodes = [f"{name}-a", f"{name}-b"]
        label = {"bench": name}
        stage.hollow.add(self.nodes, labels=label)
        for node in self.nodes:
            self.wait_usable(node)
        self.workloads = Workloads(stage.client, name, node_labels=label).create_namespace()
        self.cordon(self.nodes[1], True)
        self.workloads.deployment("noobaa", replicas=pods)
        self.wait_all_on(self.nodes[0])
        self.cordon(self.nodes[1], False)
        self.home = 0

    def cordon(self, node: str, on: bool):
        """Until Kubernetes has put the taint on or taken it off, which it does a little later."""
        self.stage.client.patch("nodes", node, {"spec": {"unschedulable": on or None}})

        def is_so() -> bool:
            taints = self.stage.client.get("nodes", node)["spec"].get("taints", [])
            return any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints) == on

        wait_for(f"{node} is {'cordoned' if on else 'free'}", is_so, 30, every=0.02)

    @property
    def failing(self) -> str:
        return self.nodes[self.home]

    @property
    def refuge(self) -> str:
        return self.nodes[1 - self.home]

    # What a measurement needs to know of those who fail; a storm.Storm has the same.

    def failing_nodes(self) -> set:
        return {self.failing}

    def doomed_pods(self) -> list:
        return self.stage.client.list("pods", self.namespace, labels="app=noobaa")

    def fail(self):
        self.stage.hollow.fail(self.failing, "notready")

    def tainted(self, taint: tuple) -> bool:
        return taint in taints(self.stage.client.get("nodes", self.failing))

    def wait_fled(self):
        self.wait_all_on(self.refuge)

    def wait_usable(self, node: str):
        def usable():
            found = self.stage.client.find("nodes", node)
            return found and node_ready(found) == "True" and not taints(found)
        wait_for(f"{node} is usable", usable, 60, every=0.02)

    def wait_all_on(self, node: str):
        def there():
            pods = self.stage.client.list("pods", self.namespace, labels="app=noobaa")
            return len(pods) == self.pods and all(p["spec"].get("nodeName") == node and is_ready(p) for p in pods)
        wait_for(f"{self.pods} pods run on {node}", there, 60 + self.pods, every=0.05 if self.pods < 50 else 0.5)

    def swap(self):
        """The pods have fled: the failed node comes back and the roles change."""
        self.wait_all_on(self.refuge)
        self.stage.hollow.heal(self.failing)
        self.wait_usable(self.failing)
        self.home = 1 - self.home

    def remove(self):
        """The pods. The nodes stay, for the next round."""
        self.stage.client.delete("deployments", "noobaa", self.namespace)
        wait_for("the pods are gone", lambda: not self.doomed_pods(), 300, every=0.2)
