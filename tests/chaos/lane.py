"""A namespace with its engines, the pods that must stay, and the pods that go round by round."""

import re
from pathlib import Path
from typing import Callable, Optional

from e2e.cluster import Cluster
from e2e.doomed import uid_of
from e2e.elected import RenewedLease
from e2e.engine import QUARANTINE_RULES, RELEASE_RULES, RULES, STORAGE_RULES, Account, Engine
from e2e.faults import metric
from e2e.kube import wait_for
from e2e.policies import policy_text
from e2e.workloads import Workloads, free, taints

from .judge import KEY, Absence, deleted_untainted, faults_of, faults_of_patches
from .register import Register

# the shortest term that is accepted, so that a round does not wait long for the next leader
TERM = {"leaseDuration": "8s", "leaseRenewDeadline": "5s", "leaseRetry": "1s"}


class Staying:
    """Pods on nodes that never fail. Nobody may touch them."""

    def __init__(self, lane: "Lane", nodes: int = 2, pods: int = 3):
        label = {"moonfence.io/staying": lane.namespace}
        self.cluster, self.names = lane.cluster, [f"{lane.namespace}-stay-{n + 1}" for n in range(nodes)]
        self.cluster.hollow.add(self.names, labels=label)
        self.workloads = Workloads(lane.cluster.client, lane.namespace, label, lane.cluster.control_plane)
        self.workloads.stateful_set("stay", pods, toleration_seconds=600)
        self.uids = {uid_of(p) for p in self.workloads.wait_all_running("stay", pods, seconds=120)}

    def faults(self) -> list:
        lost = self.uids - {uid_of(p) for p in self.workloads.pods("stay")}
        return [f"a pod of a node that lives is gone: {uid}" for uid in sorted(lost)]

    def remove(self):
        self.workloads.client.delete("statefulsets", "stay", self.workloads.namespace, missing_ok=True)
        for pod in self.workloads.pods("stay"):
            free(self.workloads.client, "pods", pod, grace=0)
        self.cluster.hollow.remove(self.names)
        self.uids = set()


class Lane:
    """Several lanes live side by side on one control plane; an engine acts in its own lane's namespace alone."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, settings: Optional[dict], *,
                 releases: bool, quarantine: bool, raced: bool, late: bool):
        self.cluster, self.namespace, self.settings = cluster, name, dict(settings or {})
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        space = Workloads(cluster.client, name).create_namespace()
        space.create_driver()
        self.driver = space.driver
        self.releases, self.quarantine = releases, quarantine
        self.raced = raced  # several engines act at once, on purpose
        self.late = late    # what an engine has sent may arrive long after
        self.account = Account(cluster, name, "moonfence").create(
            [*RULES, *STORAGE_RULES, *(RELEASE_RULES if releases else ()), *(QUARANTINE_RULES if quarantine else ())])
        self.closing: list = []   # what else ends with the lane
        if releases:
            self.settings |= {"release": "on", "controllerLease": self._controller_lease()}
        if quarantine:
            self.settings |= {"quarantine": "always"}
        self.audit = cluster.audit()
        self.register = Register(cluster.client, name, self.driver)
        self.staying = Staying(self)
        self.engines: list = []
        self.doomed: set = set()  # nodes that were let fail
        self.told: set = set()
        self.carry: set = set()   # nodes that were seen with our taint
        self.detach_delay = 0.0   # how long its storage takes to let go of a volume, in seconds

    def set_detach_delay(self, seconds: float):
        self.cluster.hollow.attacher(self.driver, detach_delay=seconds)
        self.detach_delay = seconds

    def _controller_lease(self) -> str:
        """The control plane's own controllers elect nobody."""
        lease = RenewedLease(self.cluster.client, self.namespace, "controllers").start()
        self.closing.append(lease.remove)
        return lease.text

    def engine(self, elect: bool, config: Optional[dict] = None, trigger: str = "live_kubelet = true",
               make: Callable[..., Engine] = Engine, **more) -> Engine:
        """Another engine of this lane; it deletes pods with their attachments."""
        policy = self.folder / "chaos.lua"
        options = ", { release = true }" if self.releases else ""
        verdict = f'fence.delete_pod_and_attachments("its node is down"{options})'
        text = policy_text("chaos", verdict, more='needs = { "volumes" },')
        policy.write_text(text.replace("live_kubelet = true", trigger))
        config = {"fencingDrivers": f"[{self.driver}]", **(TERM if elect else {}), **(config or {}), **self.settings}
        engine = make(self.cluster, self.folder, self.account, self.namespace, len(self.engines) + 1, policy=policy,
                      config=config, elect=elect, witnessed=False, **more)
        self.engines.append(engine)
        return engine.start()

    def leader(self, not_this: Optional[Engine] = None) -> Engine:
        """The replica that holds the Lease and says so: the Lease may still name one that was killed."""
        def holder():
            lease = self.cluster.client.find("leases", "moonfence", self.namespace)
            name = (lease or {"spec": {}})["spec"].get("holderIdentity") or ""
            found = next((e for e in self.engines if name.startswith(e.name + "_") and e is not not_this), None)
            leads = found and metric(found, "leader_election_master_status", name="moonfence") == 1
            return found if leads else None
        return wait_for("a replica leads", holder, 60, 0.05)

    def may_go(self) -> tuple:
        """UIDs of the pods and of the attachments that were ever of a node that failed."""
        every = set().union(*map(self.register.bound_to, self.doomed))
        return every, every

    def new_faults(self) -> list:
        """What was done wrong since the lane began and was not told before."""
        if self.quarantine:
            self.carry |= {node["metadata"]["name"] for node in self.cluster.client.list("nodes")
                           if node["metadata"]["name"] in self.doomed and KEY in {key for key, _ in taints(node)}}
        fresh = [fault for fault in self.faults() if fault not in self.told]
        self.told |= set(fresh)
        return fresh

    def story(self, faults: list) -> list:
        """What the engines say of the incidents in which they deleted the pods that these faults name."""
        records = [(engine.name, record) for engine in self.engines for record in engine.records()]
        guilty = {r["incident"] for _, r in records if r.get("pod_uid") and any(r["pod_uid"] in f for f in faults)}
        told = ("incident_opened", "incident_held", "intent")
        return [" ".join([r["time"], name, r["kind"], r["reason"], r["node"], r.get("pod", "")])
                for name, r in records if r.get("incident") in guilty and r["kind"] in told][-20:]

    def patches(self, node: str) -> list:
        """The engines' patches of a node that went through."""
        return self.audit.find(by=re.escape(self.account.user) + "$", verb="patch", resource="nodes",
                               name=re.escape(node) + "$", status=200)

    def faults(self) -> list:
        log = self.audit.entries()
        ours = [entry for entry in log if entry.user == self.account.user]
        deletes = [entry for entry in ours if entry.verb in ("delete", "deletecollection")]
        double = [f"{volume} on two nodes at once" for volume in self.cluster.hollow.status()["double"]
                  if volume["driver"] == self.driver]
        untainted = deleted_untainted(ours, self.register.node_of, self.carry) if self.quarantine else []
        return [*faults_of(deletes, *self.may_go(), self.raced, self.late), *untainted,
                *faults_of_patches(ours, self.doomed, self.driver, Absence(log)), *self.staying.faults(), *double]

    def end(self) -> list:
        """Ends all of it; what was wrong, in words."""
        faults = []
        for engine in self.engines:
            for step in (engine.end, engine.check):
                try:
                    step()
                except (AssertionError, OSError) as fault:
                    faults.append(f"{engine.name}: {fault}")
        faults += self.new_faults()
        self.register.end()
        for close in self.closing:
            close()
        self.staying.remove()
        self.account.remove()
        self.cluster.client.delete("namespaces", self.namespace, missing_ok=True)
        return faults
