"""What a story needs: workloads on the node that will fail, two of them with volumes, others that are none of its
business, and moonfence."""

import json
import time
from dataclasses import dataclass, field
from typing import Callable, Optional

from cluster.bed import Bed
from cluster.image import BOX
from cluster.node import Node
from cluster.results import keep
from e2e.engine import Engine
from e2e.kube import wait_for
from e2e.workloads import WORKLOAD, Workloads, is_ready, taints

from . import bindings
from .chronicle import Chronicle, seconds
from .disks import DETACH, Disks
from .disks import FENCED as FENCED_DISK
from .disks import RISKED as RISKED_DISK

LIMIT = 240  # seconds until what must happen has happened; a bound, not a wait
OBEYS = ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done"]
IGNORES = ["sleep", "1000000"]  # as pid 1 without a handler it is deaf to SIGTERM
FENCED = "moonfence.io/fenced"
# the workloads on the node that fails, by what is special about them; those with a volume are in disks.py
PLAIN, DEAF, WEB, JOB = "plain", "deaf", "web", "once"
STATELESS = (PLAIN, DEAF, WEB, JOB)
BYSTANDER = "bystander"


def preference(node: str) -> dict:
    """Of a pod's spec: where it runs unless that cannot be."""
    term = {"weight": 100, "preference": {"matchExpressions": [
        {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}}
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def pod_spec(command: list, grace: int = 30, prefer: str = "") -> dict:
    return {"terminationGracePeriodSeconds": grace, **(preference(prefer) if prefer else {}),
            "containers": [{"name": "main", "image": BOX, "command": command,
                            "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}


@dataclass
class Stage:
    """Without `disks` no workload has a volume. `moving`: those that moonfence is to move; all, if nothing else is said."""

    bed: Bed
    workloads: Workloads
    victim: Node
    start_engine: Callable
    disks: Optional[Disks] = None
    moving: tuple = ()
    old: dict = field(default_factory=dict)  # workload: its pod on the node that fails
    others: list = field(default_factory=list)  # pods elsewhere
    engines: list = field(default_factory=list)
    engine: Optional[Engine] = None
    chronicle: Optional[Chronicle] = None
    struck: float = 0.0

    def __post_init__(self):
        self.moving = self.moving or self.everything

    @property
    def with_volumes(self) -> tuple:
        return tuple(self.disks.detach) if self.disks else ()

    @property
    def everything(self) -> tuple:
        return (*STATELESS, *self.with_volumes)

    # --- before

    def fill(self):
        """One pod of each workload on the victim, and a Deployment on the other nodes."""
        load, victim = self.workloads, self.victim.name
        labels = {"app": "noobaa"}
        spec = pod_spec(OBEYS, prefer=victim)
        if self.disks:
            self.disks.create(preference(victim))
        load.stateful_set(PLAIN, labels=labels, toleration_seconds=None, pod_spec=spec)
        load.stateful_set(DEAF, labels=labels, toleration_seconds=None, pod_spec=pod_spec(IGNORES, prefer=victim))
        load.deployment(WEB, labels=labels, toleration_seconds=None, pod_spec=spec)
        load.job(JOB, labels=labels, toleration_seconds=None, pod_spec=spec)
        elsewhere = next(n.name for n in self.bed.nodes if n.name != victim)
        load.deployment(BYSTANDER, replicas=2, labels=labels, toleration_seconds=None,
                        pod_spec=pod_spec(OBEYS, prefer=elsewhere))
        pods = self.wait_settled()
        self.old = {name: self._only(pods, name) for name in self.everything}
        assert {pod["spec"]["nodeName"] for pod in self.old.values()} == {victim}
        self.others = [pod for pod in pods if self._of(pod) == BYSTANDER]
        assert victim not in {pod["spec"]["nodeName"] for pod in self.others}

    def start(self, config: Optional[dict] = None, rules: tuple = (), **arguments) -> Engine:
        """moonfence runs and enforces; `config` and `rules` come to what it needs for these workloads."""
        if not self.engines:
            bindings.bind(self.bed.client, self.workloads.namespace)
        engine = self.start_engine(policy=None, mode=None, config={**bindings.CONFIG, **(config or {})},
                                   rules=(*bindings.RIGHTS, *rules), **arguments)
        self.engines.append(engine)
        self.workloads.wait("its policies are in force", lambda: bindings.in_force(
            self.bed.client, self.workloads.namespace, len(self.engines)), LIMIT)
        return engine

    def arm(self, **arguments):
        """It is looked at, too."""
        self.engine = self.start(**arguments)
        self.chronicle = Chronicle(self.bed.control_plane.client(timeout=30), self.workloads.namespace)

    def strike(self, act: Callable[[], None]):
        self.struck = time.monotonic()
        act()

    @staticmethod
    def _of(pod: dict) -> str:
        return pod["metadata"]["labels"].get(WORKLOAD, "")

    def _only(self, pods: list, name: str) -> dict:
        (pod,) = [each for each in pods if self._of(each) == name]
        return pod

    # --- after

    @property
    def old_uids(self) -> dict:
        return {name: pod["metadata"]["uid"] for name, pod in self.old.items()}

    @property
    def moving_uids(self) -> set:
        """Of the pods that are to be deleted."""
        return {self.old_uids[name] for name in self.moving}

    def settled(self) -> Optional[list]:
        """The pods, once each workload has one Ready pod and nothing is in between, wherever that is."""
        pods = [p for p in self.workloads.pods() if self._of(p) and p["status"]["phase"] not in ("Succeeded", "Failed")]
        return pods if len(pods) == len(self.everything) + 2 and all(map(is_ready, pods)) else None

    def wait_settled(self) -> list:
        return self.workloads.wait("everything runs once", self.settled, LIMIT)

    def wait_runs_again(self) -> list:
        """The same after a reboot: what stands there is of before until the kubelet says that it started them anew."""
        def again():
            pods = self.settled() or []
            return pods if all(pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods
                               if pod["metadata"]["uid"] in self.old_uids.values()) else None
        return self.workloads.wait("everything runs again", again, LIMIT)

    def new_pods(self, away_from: tuple) -> Optional[dict]:
        """{workload: its one Ready pod} once each that moves has one that is new and on another node."""
        pods = self.workloads.pods()
        found = {}
        for name in self.moving:
            fresh = [p for p in pods if self._of(p) == name and is_ready(p) and p["metadata"]["uid"] not in
                     self.old_uids.values() and p["spec"]["nodeName"] not in away_from]
            if len(fresh) != 1:
                return None
            found[name] = fresh[0]
        return found

    def wait_moved(self, *away_from: str) -> dict:
        """Their volumes too: each is attached to the node of its pod alone."""
        moved = self.workloads.wait(f"everything of {self.victim.name} runs elsewhere",
                                    lambda: self.new_pods(away_from or (self.victim.name,)), LIMIT)
        for name in self.with_volumes:
            self.disks.wait_attached(name, moved.get(name) or self.old[name])
        return moved

    def wait_old_pods_gone(self):
        """Their objects: nothing hangs in Terminating."""
        def gone():
            return not {p["metadata"]["uid"] for p in self.workloads.pods()} & self.moving_uids
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

    def wait_all_closed(self) -> list:
        """The records of all incidents, of which there may be none."""
        wait_for("every record is closed", lambda: all("closed" in record for record in self.records()), LIMIT)
        return self.records()

    def records(self) -> list:
        maps = self.bed.client.list("configmaps", self.engine.account.namespace, labels="moonfence.io/incident")
        return [json.loads(each["data"]["record.json"]) for each in maps]

    def check_record(self, record: dict, found_gone: tuple = (), came: str = ""):
        """It says of each pod that was there that it was deleted (`marked_only`: a Job's, whose finalizer its controller
        takes off), of each volume that it was detached and at what risk, and leaves nothing unsettled. Of `found_gone`,
        pods of whose deletion nobody lived to tell, the next leader says that it found them so. If the node was back before the incident had ended, it was told at these pods
        that their storage had been withdrawn under them. `came`: a workload whose pods may have been bound to the node
        after it had failed, before anybody knew."""
        deletions = [step for step in record["steps"] if step["step"] == "delete_pod"
                     and not (came and step["pod"]["name"].startswith(f"{came}-"))]
        steps = {step["pod"]["uid"]: step.get("outcome") for step in deletions}
        assert set(steps) == self.moving_uids
        for uid, outcome in steps.items():
            assert outcome in ("done", "marked_only") or (uid in found_gone and outcome == "already_gone"), steps
        if not self.disks:
            return
        self.disks.check_record(record, self.detached, found_gone)
        if record["closed"]["reason"] == "node_ready":
            self.disks.wait_told_withdrawn(self.detached)

    @property
    def detached(self) -> list:
        """The workloads whose volumes are to be taken from the victim."""
        return [name for name in self.with_volumes if name in self.moving]

    def check_deletions(self):
        """Nothing was deleted but the old pods and the attachments of their volumes, and none while its node was Ready
        or without a taint. For stories of more than a minute, before the API server forgets what happened."""
        deleted = [each.uid_precondition for each in self.engine.deletes(resource="pods", status=200)]
        assert set(deleted) == self.moving_uids
        attachments = [each.name for each in self.engine.deletes(resource="volumeattachments", status=200)]
        assert sorted(attachments) == sorted(
            self.disks.attachment_name(name, self.victim.name) for name in self.detached)
        self.engine.witness.check(deleted)
        self.engine.witness = None

    def wait_stays(self, moved: dict):
        """Everything runs where it is: nobody moved it a second time, and what was not to be moved is the same pod as
        before. The volume of `risked` may be damaged, and its pod fail."""
        def stays():
            now = {p["metadata"]["uid"]: p for p in self.workloads.pods()}
            found = {name: now.get(pod["metadata"]["uid"]) for name, pod in {**self.old, **moved}.items()}
            return all(pod and (is_ready(pod) or name == RISKED_DISK) for name, pod in found.items())
        self.workloads.wait("everything runs where it is", stays, LIMIT)

    def check_bystanders(self):
        """The same pods as before, never restarted."""
        now = {p["metadata"]["uid"]: p for p in self.workloads.pods("noobaa") if self._of(p) == BYSTANDER}
        assert set(now) == {pod["metadata"]["uid"] for pod in self.others}
        assert all(is_ready(pod) for pod in now.values())
        assert not any(s["restartCount"] for pod in now.values() for s in pod["status"]["containerStatuses"])

    def old_processes(self) -> dict:
        """{workload: pids} of what still runs on the victim of the old pods that moved, by its control groups."""
        found = {name: self.victim.container_processes(self.old_uids[name]) for name in self.moving}
        return {name: pids for name, pids in found.items() if pids}

    def wait_clean(self):
        """The victim is back, and nothing of the old pods runs there."""
        self.wait_back()
        wait_for(f"the old containers on {self.victim.name} have ended", lambda: not self.old_processes(), LIMIT)

    def wait_back(self):
        """It is Ready, without a taint, and takes pods."""
        self.victim.wait_ready()
        self.workloads.wait(f"{self.victim.name} has no taint",
                            lambda: not taints(self.bed.client.get("nodes", self.victim.name)), LIMIT)
        name = f"guest-{self.victim.name}"
        self.workloads.pod(name, node=self.victim.name, pod_spec=pod_spec(OBEYS, grace=1))
        self.workloads.wait_running(name)

    # --- the end

    def conclude(self, failure: str, power_lost: bool):
        """What the writers left on their volumes is judged, and the durations go into the result file.

        A node without power writes nothing any more. Any other may have gone on writing to the volume that does not keep
        it from that, and then anything may have happened to it: that this might be was said (check_record)."""
        self.chronicle.end()
        sound = {name: {self.old_uids[name], self.disks.pod(name)["metadata"]["uid"]} for name in DETACH
                 if power_lost or name == FENCED_DISK or name not in self.moving}
        reports = self.disks.judge(sound)
        for name, pods in sound.items():
            report = reports[name]
            assert report.whole and not report.overlaps, f"{name}: {report}"
            assert {writer.pod for writer in report.writers} >= pods, f"{name}: {report.writers}"
        self.tell(failure, {name: max((overlap.seconds for overlap in report.overlaps), default=None)
                            for name, report in reports.items()})

    def tell(self, failure: str, two_writers: Optional[dict] = None):
        """The durations, into the result file."""
        seen, old = self.chronicle, self.old_uids.values()
        first = min((t for uid, t in seen.deleted.items() if uid in old), default=None)
        elsewhere = {self._of(pod): seconds(self.struck, at) for at, pod in seen.running.values()
                     if at > self.struck and self._of(pod) in self.moving and pod["metadata"]["uid"] not in old}
        node = self.bed.client.get("nodes", self.victim.name)
        keep({"failure": failure, "settings": self.bed.settings.name,
              "kubernetes": node["status"]["nodeInfo"]["kubeletVersion"], "volumes": list(self.with_volumes),
              "not_ready": seconds(self.struck, seen.not_ready.get(self.victim.name)),
              "first_deletion": seconds(self.struck, first), "running_elsewhere": elsewhere,
              "two_writers": two_writers or {}})
