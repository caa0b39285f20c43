"""What a story needs: workloads on the node that will fail, others that are none of its business, and moonfence."""

import json
import time
from dataclasses import dataclass, field
from typing import Callable, Optional

from cluster.bed import Bed
from cluster.image import BOX
from cluster.node import Node
from e2e.engine import Engine
from e2e.kube import wait_for
from e2e.workloads import Workloads, is_ready, taints

from .chronicle import Chronicle, keep, seconds

LIMIT = 240  # seconds until what must happen has happened; a bound, not a wait
OBEYS = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"]
IGNORES = ["sleep", "1000000"]  # as pid 1 without a handler it is deaf to SIGTERM
FENCED = "moonfence.io/fenced"
# the workloads on the node that fails, by what is special about them
PLAIN, DEAF, WEB, JOB = "plain", "deaf", "web", "once"
MOVING = (PLAIN, DEAF, WEB, JOB)
BYSTANDER = "bystander"


def pod_spec(command: list, grace: int = 30, prefer: str = "") -> dict:
    spec = {"terminationGracePeriodSeconds": grace,
            "containers": [{"name": "main", "image": BOX, "command": command,
                            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}
    if prefer:
        term = {"weight": 100, "preference": {"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": [prefer]}]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return spec


@dataclass
class Stage:
    bed: Bed
    workloads: Workloads
    victim: Node
    start_engine: Callable
    old: dict = field(default_factory=dict)  # workload: its pod on the node that fails
    others: list = field(default_factory=list)  # pods elsewhere
    engine: Optional[Engine] = None
    chronicle: Optional[Chronicle] = None
    struck: float = 0.0

    # --- before

    def fill(self):
        """One pod of each workload on the victim, and a Deployment on the other nodes."""
        load, victim = self.workloads, self.victim.name
        labels = {"app": "noobaa"}
        spec = pod_spec(OBEYS, prefer=victim)
        load.stateful_set(PLAIN, labels=labels, toleration_seconds=None, pod_spec=spec)
        load.stateful_set(DEAF, labels=labels, toleration_seconds=None, pod_spec=pod_spec(IGNORES, prefer=victim))
        load.deployment(WEB, labels=labels, toleration_seconds=None, pod_spec=spec)
        load.job(JOB, labels=labels, toleration_seconds=None, pod_spec=spec)
        elsewhere = next(n.name for n in self.bed.nodes if n.name != victim)
        load.deployment(BYSTANDER, replicas=2, labels=labels, toleration_seconds=None,
                        pod_spec=pod_spec(OBEYS, prefer=elsewhere))
        pods = load.wait_all_running("noobaa", len(MOVING) + 2)
        self.old = {name: self._only(pods, name) for name in MOVING}
        assert {pod["spec"]["nodeName"] for pod in self.old.values()} == {victim}
        self.others = [pod for pod in pods if self._of(pod) == BYSTANDER]
        assert victim not in {pod["spec"]["nodeName"] for pod in self.others}

    def arm(self, **arguments):
        """moonfence runs and enforces."""
        self.engine = self.start_engine(**arguments)
        self.chronicle = Chronicle(self.bed.control_plane.client(timeout=30), self.workloads.namespace)

    def strike(self, act: Callable[[], None]):
        self.struck = time.monotonic()
        act()

    @staticmethod
    def _of(pod: dict) -> str:
        return pod["metadata"]["labels"].get("moonfence.io/workload", "")

    def _only(self, pods: list, name: str) -> dict:
        (pod,) = [each for each in pods if self._of(each) == name]
        return pod

    # --- after

    @property
    def old_uids(self) -> dict:
        return {name: pod["metadata"]["uid"] for name, pod in self.old.items()}

    def new_pods(self, away_from: tuple) -> Optional[dict]:
        """{workload: its one Ready pod} once each has one that is new and on another node."""
        pods = self.workloads.pods("noobaa")
        found = {}
        for name in MOVING:
            fresh = [p for p in pods if self._of(p) == name and is_ready(p) and p["metadata"]["uid"] not in
                     self.old_uids.values() and p["spec"]["nodeName"] not in away_from]
            if len(fresh) != 1:
                return None
            found[name] = fresh[0]
        return found

    def wait_moved(self, *away_from: str) -> dict:
        return self.workloads.wait(f"everything of {self.victim.name} runs elsewhere",
                                   lambda: self.new_pods(away_from or (self.victim.name,)), LIMIT)

    def wait_old_pods_gone(self):
        """Their objects: nothing hangs in Terminating."""
        def gone():
            return not {p["metadata"]["uid"] for p in self.workloads.pods()} & set(self.old_uids.values())
        self.workloads.wait("the old pods are gone", gone, LIMIT)

    def wait_closed(self, node: str = "", incidents: int = 1) -> dict:
        """The newest record of the node's incidents, once every one is closed. There must be so many."""
        def closed():
            records = [r for r in self.records() if r["node"]["name"] == (node or self.victim.name)]
            assert len(records) <= incidents, f"more than {incidents} incidents: {records}"
            if len(records) == incidents and all("closed" in record for record in records):
                return max(records, key=lambda record: record["opened"])
            return None
        return self.workloads.wait("the incident is closed", closed, LIMIT)

    def records(self) -> list:

        maps = self.bed.client.list("configmaps", self.engine.account.namespace, labels="moonfence.io/incident")
        return [json.loads(each["data"]["record.json"]) for each in maps]

    def check_record(self, record: dict, untold: tuple = ()):
        """It says of each pod that was there that it was deleted (`marked_only`: a Job's, whose finalizer its controller
        takes off), and leaves nothing unsettled, but for pods of whose deletion nobody lived to tell."""
        steps = {step["pod"]["uid"]: step.get("outcome") for step in record["steps"]}
        assert set(steps) == set(self.old_uids.values())
        assert {outcome for uid, outcome in steps.items() if uid not in untold} <= {"done", "marked_only"}, steps

    def check_deletions(self):
        """Nothing was deleted but the old pods, and none while its node was Ready or without a taint. For stories of
        more than a minute, before the API server forgets what happened."""
        deleted = [each.uid_precondition for each in self.engine.deletes(resource="pods", status=200)]
        assert set(deleted) == set(self.old_uids.values())
        self.engine.witness.check(deleted)
        self.engine.witness = None

    def check_bystanders(self):
        """The same pods as before, never restarted."""
        now = {p["metadata"]["uid"]: p for p in self.workloads.pods("noobaa") if self._of(p) == BYSTANDER}
        assert set(now) == {pod["metadata"]["uid"] for pod in self.others}
        assert all(is_ready(pod) for pod in now.values())
        assert not any(s["restartCount"] for pod in now.values() for s in pod["status"]["containerStatuses"])

    def old_processes(self) -> dict:
        """{workload: pids} of what still runs of the old pods on the victim, by its control groups."""
        found = {name: self.victim.container_processes(uid) for name, uid in self.old_uids.items()}
        return {name: pids for name, pids in found.items() if pids}

    def wait_clean(self):
        """The victim is back: Ready, without a taint, nothing of the old pods runs there, and it takes pods."""
        self.victim.wait_ready()
        wait_for(f"the old containers on {self.victim.name} have ended", lambda: not self.old_processes(), LIMIT)
        self.workloads.wait(f"{self.victim.name} has no taint",
                            lambda: not taints(self.bed.client.get("nodes", self.victim.name)), LIMIT)
        name = f"guest-{self.victim.name}"
        self.workloads.pod(name, node=self.victim.name, pod_spec=pod_spec(OBEYS, grace=1))
        self.workloads.wait_running(name)

    def tell(self, failure: str):
        """The durations, into the result file."""
        seen = self.chronicle
        first = min((t for uid, t in seen.deleted.items() if uid in self.old_uids.values()), default=None)
        elsewhere = {self._of(pod): seconds(self.struck, at) for at, pod in seen.running.values()
                     if at > self.struck and self._of(pod) in MOVING and pod["metadata"]["uid"] not in
                     self.old_uids.values()}
        keep({"failure": failure, "settings": self.bed.settings.name, "volume": False,
              "not_ready": seconds(self.struck, seen.not_ready.get(self.victim.name)),
              "first_deletion": seconds(self.struck, first), "running_elsewhere": elsewhere})
