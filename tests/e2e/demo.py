"""Shows what moonfence does: a real control plane on loopback, stand-in nodes, one of them dies.

`scripts/run` builds the engine and calls this. Everything that it starts ends with it, whether it
succeeds, fails, or is interrupted.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import textwrap
import threading
import time
import urllib.request
from pathlib import Path

from cluster import programs

from .control_plane import REPO, ControlPlane
from .hollow_control import HollowControl, lease_interval, start_hollow
from .kube import Client, path_of, wait_for
from .processes import free_port
from .workloads import is_ready, node_ready, taints

GRACE = 8
SPACE = "noobaa"
ACCOUNT = "moonfence"
DATABASE = "noobaa-db-pg-0"
POLICY = REPO / "policies" / "noobaa" / "policy.lua"
# docs/operating.md, "What it may do in the cluster"
RULES = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
]
LEASES = "kube-node-lease"
LEASE_RULES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]}]
RECORD_RULES = [{"apiGroups": [""], "resources": ["configmaps"],
                 "verbs": ["get", "list", "create", "patch", "delete"]}]
SETTLED = 0.5  # what happened longer ago than this many seconds can no longer be overtaken


def say(text=""):
    print(text, flush=True)


def fact(name, text):
    say(textwrap.fill(text, 104, initial_indent=f"  {name:<11} ", subsequent_indent=" " * 14))


class Timeline:
    """Prints what happened in the order in which it happened, though it is learnt of in another."""

    def __init__(self, zero: float):
        self.zero, self.waiting = zero, []

    def add(self, at: float, text: str):
        self.waiting.append((at, text))

    def show(self, until: float = float("inf")):
        due = sorted(e for e in self.waiting if e[0] <= until)
        self.waiting = [e for e in self.waiting if e[0] > until]
        for at, text in due:
            say(f"  {at - self.zero:+7.2f} s  {text}")


class Watch(threading.Thread):
    """When each state of an object was first seen; the pods of the namespace, or the nodes."""

    def __init__(self, client: Client, resource: str, space: str = ""):
        super().__init__(daemon=True)
        self.client, self.resource, self.space = client, resource, space
        self.events: list = []
        self.start()

    def run(self):
        version = self.client.request("GET", path_of(self.resource, "", self.space))["metadata"]["resourceVersion"]
        for event in self.client.watch(self.resource, self.space, version, seconds=600):
            self.events.append((time.time(), event["object"]))


class Demo:
    def __init__(self, binary: Path, folder: Path):
        self.binary, self.folder = binary, folder
        self.plane = ControlPlane(folder / "cluster", grace=GRACE)

    # --- the stage

    def start_cluster(self):
        programs.find()  # builds them the first time, and says so
        self.plane.start()
        self.hollow: HollowControl = start_hollow(self.plane.processes, self.plane.folder, nodes=3,
                                                  interval=lease_interval(GRACE))
        self.client = self.plane.client()
        wait_for("three nodes are Ready", lambda: len([
            n for n in self.client.list("nodes") if node_ready(n) == "True" and not taints(n)]) == 3, 60)
        wait_for("the stand-in nodes take orders", lambda: self.hollow.status(), 30)
        version = ".".join(map(str, self.plane.version))
        fact("Cluster", f"a real control plane, Kubernetes {version}, on 127.0.0.1; 3 stand-in nodes")

    def _workload(self, kind: str, name: str, replicas: int):
        part = {"moonfence.io/part": name}
        apart = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": {
            "labelSelector": {"matchLabels": part}, "topologyKey": "kubernetes.io/hostname"}}]}
        pod = {"metadata": {"labels": {"app": "noobaa", **part}}, "spec": {
            "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": False,
            "affinity": {"podAntiAffinity": apart},
            "containers": [{"name": "main", "image": "example.com/image:1"}]}}
        spec = {"replicas": replicas, "selector": {"matchLabels": part}, "template": pod}
        if kind == "statefulsets":
            spec.update(serviceName=name, podManagementPolicy="Parallel")
        self.client.create(kind, {"metadata": {"name": name}, "spec": spec}, SPACE)

    def start_workloads(self):
        self.client.create("namespaces", {"metadata": {"name": SPACE}})
        wait_for("the namespace's service account", lambda: self.client.find("serviceaccounts", "default", SPACE), 30)
        self._workload("statefulsets", "noobaa-core", 3)
        self._workload("statefulsets", "noobaa-db-pg", 1)
        self._workload("deployments", "noobaa-endpoint", 3)
        wait_for("all seven pods run", lambda: len([p for p in self.pods() if is_ready(p)]) == 7, 60)
        fact("Workload", "StatefulSets noobaa-core (3 pods) and noobaa-db-pg (1), Deployment noobaa-endpoint (3); "
             f"label app=noobaa, namespace {SPACE}")

    def start_engine(self):
        client = self.client
        client.create("namespaces", {"metadata": {"name": ACCOUNT}})
        client.create("serviceaccounts", {"metadata": {"name": ACCOUNT}}, ACCOUNT)
        client.create("clusterroles", {"metadata": {"name": ACCOUNT}, "rules": RULES})
        client.create("clusterrolebindings", {
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ACCOUNT}]})
        for rules, space in ((LEASE_RULES, LEASES), (RECORD_RULES, ACCOUNT)):
            client.create("roles", {"metadata": {"name": ACCOUNT}, "rules": rules}, space)
            client.create("rolebindings", {
                "metadata": {"name": ACCOUNT},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT},
                "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": ACCOUNT}]}, space)
        kubeconfig = self.plane.token_kubeconfig("moonfence", client.token(ACCOUNT, ACCOUNT), ACCOUNT)
        health = free_port()
        words = ["run", "--policy", POLICY.relative_to(REPO), "--policy-namespace", SPACE, "--mode", "enforce"]
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        self.plane.processes.start("moonfence", [
            self.binary, *words[:2], POLICY, *words[3:], "--kubeconfig", kubeconfig,
            "--metrics-bind-address", "0", "--status-bind-address", "0", "--health-probe-bind-address", f"127.0.0.1:{health}"], env)

        def ready():
            if not self.plane.processes.alive("moonfence"):
                raise RuntimeError("moonfence ended:\n" + self.plane.processes.log_tail("moonfence"))
            with urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5) as answer:
                return answer.status == 200
        wait_for("moonfence is ready", ready, 60)
        fact("moonfence", "moonfence " + " ".join(map(str, words)))
        fact("Its rights", "read nodes; list and delete pods; write events")

    def pods(self, node: str = "") -> list:
        return [p for p in self.client.list("pods", SPACE) if not node or p["spec"].get("nodeName") == node]

    # --- the play

    def play(self):
        node = self.client.get("pods", DATABASE, SPACE)["spec"]["nodeName"]
        doomed = {p["metadata"]["uid"]: p["metadata"]["name"] for p in self.pods(node)}
        moving = sorted(name for name in doomed.values() if name != DATABASE)
        known = {p["metadata"]["uid"] for p in self.pods()}
        if len(moving) < 2:
            raise RuntimeError(f"the scheduler put only {moving} beside the database; try again")
        say(f"\n{node} runs {', '.join(sorted(doomed.values()))}. Now its power is cut.\n")

        watches = Watch(self.client, "pods", SPACE), Watch(self.client, "nodes")
        audit = self.plane.audit().mark()
        self.hollow.fail(node, "silent")
        self.zero = time.time()
        line = self.line = Timeline(self.zero)
        line.add(self.zero, f"{node} stops. Kubernetes waits {GRACE} s for a sign of life "
                 "(here; 40 s by default)")
        self.unready, self.deleted, self.running = None, {}, {}
        while len(self.running) < len(moving):
            if time.time() > self.zero + 90:
                line.show()
                raise RuntimeError("the pods do not run elsewhere after 90 s:\n" +
                                   self.plane.processes.log_tail("moonfence"))
            if not self.plane.processes.alive("moonfence"):
                raise RuntimeError("moonfence ended:\n" + self.plane.processes.log_tail("moonfence"))
            self._see_node(watches[1], node)
            self._see_deletions(audit, doomed)
            self._see_pods(watches[0], known)
            line.show(until=time.time() - SETTLED)
            time.sleep(0.05)
        self._see_deletions(audit, doomed)
        line.show()
        self._sum_up(node, moving)

    def _see_node(self, watch: Watch, node: str):
        for at, seen in list(watch.events):
            if not self.unready and seen["metadata"]["name"] == node and node_ready(seen) != "True":
                self.unready = at
                self.line.add(at, f"Kubernetes marks {node} NotReady (Ready={node_ready(seen)})")

    def _see_deletions(self, audit, doomed: dict):
        for entry in audit.deletes(by=f"system:serviceaccount:{ACCOUNT}:{ACCOUNT}$", resource="pods", status=200):
            uid = entry.uid_precondition
            if uid not in self.deleted:
                self.deleted[uid] = entry.received
                self.line.add(entry.received, f"moonfence deletes {doomed.get(uid, uid)}")

    def _see_pods(self, watch: Watch, known: set):
        for at, pod in list(watch.events):
            uid = pod["metadata"]["uid"]
            if uid not in known and uid not in self.running and is_ready(pod):
                self.running[uid] = at
                self.line.add(at, f"{pod['metadata']['name']} is Running on {pod['spec']['nodeName']}")

    def _sum_up(self, node: str, moving: list):
        left = self.client.find("pods", DATABASE, SPACE)
        if not left or left["spec"]["nodeName"] != node or len(self.deleted) != len(moving):
            raise RuntimeError(f"deleted {len(self.deleted)} pods, expected {moving}; the database: {left}")

        def after(times):
            return f"{times - self.unready:.2f} s"
        say(f"\nAfter NotReady: first deletion {after(min(self.deleted.values()))}, last deletion "
            f"{after(max(self.deleted.values()))}, all of them running elsewhere {after(max(self.running.values()))}.")
        say("Without a fencer: Deployment pods after 5 minutes, StatefulSet pods never.")
        say(f"{DATABASE} was left alone: as the policy says, two databases on one volume corrupt it.")
        say("(Containers of stand-in nodes start at once; real ones add their own time.)")

    def end(self):
        self.plane.stop()


def interrupted(number, _frame):
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="demo", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=Path, default=REPO / "build" / "release" / "moonfence")
    parser.add_argument("--dir", type=Path, default=REPO / "build" / "demo", help="where its folder is made")
    arguments = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    arguments.dir.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=arguments.dir))
    demo, keep = Demo(arguments.binary.absolute(), folder), False
    try:
        say("\nA node dies; its pods run again elsewhere.\n")
        demo.start_cluster()
        demo.start_workloads()
        demo.start_engine()
        demo.play()
        return 0
    except (RuntimeError, TimeoutError, OSError) as error:
        keep = True
        print(f"demo: {error}\ndemo: logs are in {folder}", file=sys.stderr)
        return 1
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # nothing interrupts the cleaning up
        demo.end()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            say("\nEverything that was started has ended.")


if __name__ == "__main__":
    sys.exit(main())
