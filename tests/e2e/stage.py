"""Many rows of the conformance table side by side: nodes, namespaces and one engine for all of them.

    stage = Stage(cluster, folder, "lh", subjects)    # a Subject a pod that some row is about
    stage.build(["dead"])                             # its pods run, their volumes are attached
    stage.add_nodes("spare")                          # where replacements may go
    stage.start(bindings, drivers)                    # the engine, through a proxy
    stage.terminate("lh-03")                          # somebody asks for its deletion; its kubelet cannot answer
    assert stage.pod_deletes("lh-01") == []           # by the API server's audit log, the engine's own requests
    stage.close()

The time that a row takes is then the longest of all, not the sum. What the engine deletes beyond what the rows
name is seen by `unaccounted`.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Iterable, Optional

from .audit import that_did_it
from .engine import RULES, STORAGE_RULES, Engine, Engines
from .hollow_objects import attachment_name
from .kube import ApiError, wait_for
from .policies import PolicyMap
from .proxy import Proxy
from .proxy_rules import Call
from .workloads import WORKLOAD, Workloads, free, is_ready, node_ready, taints

PATIENT = 600  # seconds; nobody else evicts a pod while a stage lasts


def parse_time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@dataclass
class Subject:
    """A pod that a row is about, on `node`; `drivers` are those of its claims, one each."""

    row: str                      # names its workload too
    space: str                    # its namespace, without the stage's name
    node: str
    drivers: tuple = ()
    kind: str = "StatefulSet"     # Deployment, DaemonSet, Job, bare, or custom: owned by a kind nobody knows
    labels: dict = field(default_factory=dict)
    annotations: dict = field(default_factory=dict)   # of its claims
    select: dict = field(default_factory=dict)        # its nodeSelector; otherwise it is pinned to `node`
    spec: dict = field(default_factory=dict)          # more of its pod
    access_mode: str = "ReadWriteOnce"
    pod: dict = field(default_factory=dict)           # as it was when the stage was built

    @property
    def claims(self) -> list:
        return [f"data-{self.row}-{number}" for number in range(len(self.drivers))]

    @property
    def uid(self) -> str:
        return self.pod["metadata"]["uid"]


class Stage:
    def __init__(self, cluster, folder, name: str, subjects: Iterable[Subject]):
        self.cluster, self.client, self.name = cluster, cluster.client, name
        self.subjects = {subject.row: subject for subject in subjects}
        self.made_nodes: list = []
        self.volumes: list = []
        self.deadlines: dict = {}  # of those that were asked to go
        self.spaces = {space: Workloads(self.client, f"{name}-{space}", {"moonfence.io/test": name}, cluster.control_plane)
                       for space in ["engine", *sorted({s.space for s in self.subjects.values()})]}
        self.proxy = Proxy(cluster.control_plane, with_client_certificate=True).start()
        self.policies = PolicyMap(self.client, self.spaces["engine"].namespace)
        self.engines = Engines(cluster, folder, self.spaces["engine"].namespace)
        self.engine: Optional[Engine] = None

    # --- building

    def node(self, short: str) -> str:
        return f"{self.name}-{short}"

    def add_nodes(self, *shorts: str, labels: Optional[dict] = None):
        names = [self.node(short) for short in shorts]
        self.made_nodes += names
        self.cluster.hollow.add(names, labels={"moonfence.io/test": self.name, **(labels or {})})
        wait_for(f"{names} are Ready", lambda: all(
            node_ready(n) == "True" and not taints(n) for n in (self.client.get("nodes", name) for name in names)))

    def build(self):
        """Every subject's pod runs where it should, and its volumes are attached."""
        for space in self.spaces.values():
            space.create_namespace()
        for subject in self.subjects.values():
            self._create_claims(subject)
        wait_for("all claims are bound", lambda: all(
            claim["status"].get("phase") == "Bound" for claim in self._list("persistentvolumeclaims")), 180)
        for subject in self.subjects.values():
            self._create_workload(subject)
        wait_for("all pods run", self._find_pods, 240)
        for subject in self.subjects.values():
            assert subject.pod["spec"]["nodeName"] == self.node(subject.node), subject

    def _list(self, resource: str) -> list:
        mine = {space.namespace for space in self.spaces.values()}
        return [item for item in self.client.list(resource) if item["metadata"]["namespace"] in mine]

    def namespace(self, row: str) -> str:
        return self.spaces[self.subjects[row].space].namespace

    def _create_claims(self, subject: Subject):
        namespace = self.namespace(subject.row)
        spec = {"accessModes": [subject.access_mode], "storageClassName": ""}
        for claim, driver in zip(subject.claims, subject.drivers):
            name = f"pv-{namespace}-{claim}"
            self.volumes.append(name)
            self.client.create("persistentvolumes", {"metadata": {"name": name}, "spec": {
                **spec, "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
                "csi": {"driver": driver, "volumeHandle": self.handle(subject.row, claim)}}})
            self.client.create("persistentvolumeclaims", {
                "metadata": {"name": claim, "annotations": subject.annotations},
                "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}}}, namespace)

    def handle(self, row: str, claim: str) -> str:
        return f"vol-{self.namespace(row)}-{claim}"

    def _pod_spec(self, subject: Subject) -> dict:
        volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in subject.claims]
        return {"nodeSelector": subject.select or {"kubernetes.io/hostname": self.node(subject.node)},
                **subject.spec, "volumes": [*volumes, *subject.spec.get("volumes", [])]}

    def _create_workload(self, subject: Subject):
        space, row, spec = self.spaces[subject.space], subject.row, self._pod_spec(subject)
        how = {"labels": subject.labels, "toleration_seconds": PATIENT, "pod_spec": spec}
        if subject.kind in ("StatefulSet", "Deployment"):
            make = space.stateful_set if subject.kind == "StatefulSet" else space.deployment
            make(row, **how)
        elif subject.kind == "DaemonSet":
            space.daemon_set(row, labels=subject.labels, pod_spec=spec)
        elif subject.kind == "Job":
            space.job(row, **how)
        else:
            space.pod(row, labels={WORKLOAD: row, **subject.labels}, toleration_seconds=PATIENT, pod_spec=spec,
                      metadata=self._custom_owner(space) if subject.kind == "custom" else None)

    def _custom_owner(self, space: Workloads) -> dict:
        made = self.client.create("configmaps", {"metadata": {"generateName": "owner-"}}, space.namespace)
        return {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": made["metadata"]["name"],
                                     "uid": made["metadata"]["uid"], "controller": True}]}

    def _find_pods(self) -> bool:
        running = {(p["metadata"]["namespace"], p["metadata"]["labels"].get(WORKLOAD)): p
                   for p in self._list("pods") if is_ready(p)}
        for subject in self.subjects.values():
            subject.pod = running.get((self.namespace(subject.row), subject.row), {})
        return all(subject.pod for subject in self.subjects.values())

    # --- running

    def start(self, bindings: str, drivers: Iterable[str], config: Optional[dict] = None, **keys: str):
        """The engine with these bindings (SPACE in them stands for the namespace of that space) and `keys` of the
        policies' ConfigMap beside them."""
        text = "api: 1\nmode: enforce\nbindings:\n" + re.sub(
            r"namespaces: \[(\w[\w-]*)\]", lambda m: f"namespaces: [{self.spaces[m[1]].namespace}]", bindings)
        self.policies.write({"moonfence.yaml": text, **keys})
        self.engine = self.engines(
            policy=None, mode=None, server=self.proxy.server, rules=[*RULES, *STORAGE_RULES], witnessed=False,
            spaces=tuple(space.namespace for space in self.spaces.values()),
            config={"fencingDrivers": f"[{', '.join(drivers)}]", "retryInterval": "500ms", "retryWindow": "20s",
                    **(config or {})})
        wait_for("its policies are in force", lambda: any(
            p["state"] == "Active" for r in self.policies.status().values() for p in r["policies"]), 90, 0.05)
        (told,) = self.policies.status().values()
        assert not told["faults"] and {p["state"] for p in told["policies"]} == {"Active"}, told

    def fail(self, node: str, mode: str = "notready"):
        self.cluster.hollow.fail(self.node(node), mode)

    def terminate(self, *rows: str, grace: int = 1):
        """Somebody asks for their deletion; the kubelet of a node that failed does not answer."""
        for row in rows:
            pod = self.subjects[row].pod["metadata"]
            going = self.client.delete("pods", pod["name"], pod["namespace"], grace=grace, uid=pod["uid"])
            self.deadlines[row] = parse_time(going["metadata"]["deletionTimestamp"])

    # --- looking

    def attachment_name(self, row: str, number: int = 0) -> str:
        subject = self.subjects[row]
        return attachment_name(subject.drivers[number], self.handle(row, subject.claims[number]), self.node(subject.node))

    def attachment(self, row: str, number: int = 0) -> Optional[dict]:
        return self.client.find("volumeattachments", self.attachment_name(row, number))

    def detach(self, row: str, number: int = 0):
        """Takes an attachment away; Kubernetes looks once a minute, and makes it again while the pod is there."""
        self.client.delete("volumeattachments", self.attachment_name(row, number))
        wait_for(f"the attachment of {row} is gone", lambda: not self.attachment(row, number), 60, 0.02)

    def keep_detached(self, row: str):
        """Whenever the engine is about to look at it, its attachment has just been taken away: long before, and
        Kubernetes has made it again on a busy machine."""
        def take(_):
            if self.attachment(row):
                self.detach(row)
        self.proxy.on("GET", f"/volumeattachments(/{self.attachment_name(row)})?$", Call(take))

    def replace_attachment(self, row: str, number: int = 0, **spec):
        """Another attachment stands under the name of its own, so that Kubernetes cannot make it again: left
        alone, its controller would, at the next of its looks."""
        theirs = {"metadata": {"name": self.attachment_name(row, number)},
                  "spec": {**self.attachment(row, number)["spec"], **spec}}

        def replaced() -> bool:
            if self.attachment(row, number):
                self.detach(row, number)
            try:
                self.client.create("volumeattachments", theirs)
            except ApiError as error:
                if error.status != 409:
                    raise
                return False  # the controller was faster
            return True
        wait_for(f"another attachment has the name of {row}'s", replaced, 60, 0.02)

    def hold(self, row: str, number: int = 0, held: bool = True):
        """With a finalizer of ours its attachment does not go."""
        kept = self.attachment(row, number)["metadata"].get("finalizers") or []
        others = [each for each in kept if each != "example.com/held"]
        self.client.patch("volumeattachments", self.attachment_name(row, number), {"metadata": {
            "finalizers": [*others, *(["example.com/held"] if held else [])]}})

    def pod_now(self, row: str) -> Optional[dict]:
        """The very pod that the stage was built with, None when it is gone."""
        meta = self.subjects[row].pod["metadata"]
        pod = self.client.find("pods", meta["name"], meta["namespace"])
        return pod if pod and pod["metadata"]["uid"] == meta["uid"] else None

    def pod_deletes(self, row: str) -> list:
        """The engine's DELETEs of the subject's pod, in order, by the audit log."""
        subject = self.subjects[row]
        return [e for e in self.engine.deletes(resource="pods", namespace=self.namespace(row))
                if e.name == subject.pod["metadata"]["name"] and e.uid_precondition in (subject.uid, None)]

    def attachment_deletes(self, row: str, number: int = 0) -> list:
        return self.engine.deletes(resource="volumeattachments", name=self.attachment_name(row, number) + "$")

    def wait_deleted(self, row: str, seconds: float = 90):
        """The engine has deleted the pod; the one DELETE that did it is returned."""
        def done():
            return that_did_it(self.pod_deletes(row), not self.pod_now(row))
        return self._wait(row, f"the engine deletes the pod of {row}", done, self.pod_deletes, seconds)[0]

    def wait_detached(self, row: str, number: int = 0, seconds: float = 90):
        def asked(row: str) -> list:
            return self.attachment_deletes(row, number)

        def done():
            gone = not self.attachment(row, number)
            # Where its kubelet lives Kubernetes detaches by itself, and may be first.
            return that_did_it(asked(row), gone) or [e for e in asked(row) if e.status == 404 and gone][:1]
        return self._wait(row, f"the engine deletes an attachment of {row}", done, asked, seconds)[0]

    def _wait(self, row: str, what: str, done, asked, seconds: float):
        """What is missing is told with what the engine asked for, and what it said last of the pod."""
        try:
            return wait_for(what, done, seconds)
        except TimeoutError as error:
            said = [r for r in self.engine.records() if r.get("pod_uid") == self.subjects[row].uid]
            raise TimeoutError(f"{error}; asked: {[(e.status, e.received) for e in asked(row)]}; pod is there: "
                               f"{bool(self.pod_now(row))}; said last: {said[-3:]}") from error

    def intended_at(self, row: str, what: str) -> float:
        """When the engine first decided to delete its "pod" or an "attachment", by its own record and clock."""
        return next(parse_time(r["time"]) for r in self.engine.records() if r["kind"] == "intent"
                    and r.get("pod_uid") == self.subjects[row].uid and r["action"] == f"delete_{what}")

    def judged_at(self, row: str) -> float:
        """When a policy first spoke of its pod, by the engine's own record and clock."""
        return next(parse_time(r["time"]) for r in self.engine.records() if r["kind"] == "verdict"
                    and r.get("pod_uid") == self.subjects[row].uid)

    def attachment_gone_at(self, row: str, number: int = 0) -> float:
        """When the object that the engine asked to go had vanished, by the audit log: with the last write that took a
        finalizer from it. For as long as its pod is there Kubernetes may attach the volume again, at any moment, by
        another object of that name; its making says that the one before was gone."""
        name = self.attachment_name(row, number)
        (first, *_) = self.attachment_deletes(row, number)
        writes = self.engine.audit().writes(resource="volumeattachments", name=name + "$")
        again = [e.received for e in writes if e.verb == "create" and e.status == 201 and e.received > first.received]
        assert again or not self.attachment(row, number)
        return max(e.staged for e in writes if e.status == 200 and e.received < min(again, default=float("inf")))

    def judged(self, row: str, reason: str) -> list:
        """The engine's own records that it judged the pod so: it was looked at, and this is what was said."""
        return [r for r in self.engine.records() if r["kind"] == "verdict" and r.get("pod_uid") == self.subjects[row].uid
                and r["reason"] == reason]

    def wait_judged(self, row: str, reason: str, seconds: float = 90) -> list:
        return wait_for(f"{row} is judged {reason}", lambda: self.judged(row, reason), seconds)

    def assert_kept(self, row: str):
        """Neither its pod nor an attachment of it was asked to go, in the audit log; both are there."""
        subject = self.subjects[row]
        assert self.pod_deletes(row) == [] and self.pod_now(row)
        for number, driver in enumerate(subject.drivers):
            assert self.attachment_deletes(row, number) == [], f"{row}: attachment {number} of {driver}"

    def kept(self, row: str, reason: str, beside: str):
        """The policy says so of it, and it is kept, when the pod of `beside` on the same node has been deleted."""
        self.wait_deleted(beside)
        self.wait_judged(row, reason)
        self.assert_kept(row)

    def unaccounted(self, *rows: str) -> list:
        """What the engine deleted that is no pod and no attachment of these rows."""
        names = {self.attachment_name(row, n) for row in rows for n in range(len(self.subjects[row].drivers))}
        uids = {self.subjects[row].uid for row in rows}
        return [e for e in self.engine.deletes(resource="volumeattachments") if e.name not in names] + [
            e for e in self.engine.deletes(resource="pods") if e.uid_precondition not in uids and e.status < 400]

    # --- the end

    def close(self):
        try:
            self.engines.end()
        finally:
            self.proxy.stop()
            self._remove()

    def _remove(self):
        for item in self.client.list("volumeattachments"):
            if item["spec"]["nodeName"] in [*self.made_nodes, self.node("elsewhere")]:
                free(self.client, "volumeattachments", item)
        for space in self.spaces.values():
            space.remove_all()
        for name in self.volumes:
            item = self.client.find("persistentvolumes", name)
            if item:
                free(self.client, "persistentvolumes", item)
        self.cluster.hollow.remove(self.made_nodes)
