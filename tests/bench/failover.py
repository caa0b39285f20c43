"""From NotReady to the pod Running on another node with its volume attached.

A StatefulSet pod with one CSI volume; its node falls silent. Kubelets and attacher are stand-ins: the new kubelet of a
real node adds its own status tick (2 to 10 s). Two ways take turns in the same run:

    plain      pod, then attachment; Kubernetes finds out by its check once a minute
    release    the same, and the engine tells Kubernetes that the volume is free

Several nodes fail one after the other in a batch, so that the waiting for NotReady is shared; but each falls alone.
Nodes, pods and attachments come by three watches: of steps that are a few milliseconds apart the later may be seen
first. When the engine's DELETE came to the API server is read from the audit log.
"""

import itertools
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Optional

from e2e.cluster import Cluster
from e2e.doomed import Doomed, uid_of
from e2e.engine import RELEASE_RULES, RULES, STORAGE_RULES, Account, Engine
from e2e.policies import policy_text
from e2e.workloads import Workloads

from .figures import Block, Table
from .observer import Observer
from .stage import Stage

BATCH = 15      # nodes that fail in one batch
APART = 6       # seconds between two of them, so that Kubernetes, which looks every 5 s, finds them one by one
STEPS = ("NotReady → pod deleted", "→ attachment gone", "→ volume left volumesAttached", "→ new attachment",
         "→ Running", "NotReady → Running", "NotReady → its DELETE at the API server")
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Way:
    """How the engine is told to do it."""
    name: str
    options: str = ""              # of the verdict
    config: Optional[dict] = None  # of the engine

    def policy(self, folder: Path) -> Path:
        path = folder / f"{self.name}.lua"
        verdict = f'fence.delete_pod_and_attachments("its node is down"{self.options})'
        text = policy_text(self.name, verdict, more='needs = { "volumes" },')
        path.write_text(text.replace("live_kubelet = true", "live_kubelet = false"))
        return path


@dataclass
class Failover:
    """What the observer saw of one, in nanoseconds."""
    steps: list            # not_ready, pod_deleted, attachment_gone, left, new_attachment, running
    bound_to_the_dead: int  # replacements
    before_the_taint: bool  # the pod was deleted before the node carried a NoSchedule taint, by revision
    asked: int              # nanoseconds, when the DELETE of the pod came to the API server

    def spans(self) -> list:
        """Seconds from step to step, the whole, and how soon the first DELETE was asked for."""
        apart = [(after - before) / 1e9 for before, after in zip(self.steps, self.steps[1:])]
        return [*apart, (self.steps[-1] - self.steps[0]) / 1e9, (self.asked - self.steps[0]) / 1e9]


def first(events: list, condition) -> dict:
    return next(e for e in events if condition(e))


def asked_at(engine: Engine) -> dict:
    """When the DELETEs of pods came, by UID, on the observer's clock."""
    ahead = time.time_ns() - time.monotonic_ns()
    return {e.uid_precondition: int(e.received * 1e9) - ahead
            for e in engine.deletes(resource="pods") if e.status == 200}


def read(doomed: Doomed, by_resource: dict, since: int, asked: dict) -> Failover:
    """Of one node, from what was seen of all since it was told to fail."""
    (pod,), (attachment,) = doomed.pods, doomed.attachments
    node = [e for e in by_resource["nodes"] if e["name"] == doomed.node and e["at"] > since]
    pods = [e for e in by_resource["pods"] if e["name"] == doomed.pods[pod] and e["namespace"] == doomed.namespace]
    attachments = by_resource["volumeattachments"]
    fell = first(node, lambda e: e["ready"] != "True")
    tainted = first(node, lambda e: e["taints"])
    deleted = first(pods, lambda e: e["uid"] == pod and e["kind"] == "DELETED")
    gone = first(attachments, lambda e: e["uid"] == attachment and e["kind"] == "DELETED")
    left = first(node, lambda e: not e["attached"])
    fresh = first(attachments, lambda e: e["pv"] == gone["pv"] and e["node"] != doomed.node)
    runs = first(pods, lambda e: e["uid"] != pod and e["ready"] and e["node"] != doomed.node)
    return Failover([e["at"] for e in (fell, deleted, gone, left, fresh, runs)],
                    len({e["uid"] for e in pods if e["uid"] != pod and e["node"] == doomed.node}),
                    deleted["revision"] < tainted["revision"], asked[pod])


class Trial:
    """The parts that live through all batches."""

    def __init__(self, stage: Stage):
        self.cluster = Cluster(stage.control_plane, stage.hollow, stage.client)
        self.folder = stage.folder
        self.space = Workloads(stage.client, "failover").create_namespace()
        self.space.create_driver()
        self.account = Account(self.cluster, "failover", "moonfence").create(
            [*RULES, *STORAGE_RULES, *RELEASE_RULES])
        self.observer = Observer(stage.control_plane)

    def batch(self, way: Way, detach: float, count: int) -> list:
        """So many failovers, each on nodes of its own."""
        self.cluster.hollow.attacher(self.space.driver, attach_delay=detach, detach_delay=detach)
        every = [Doomed(self.cluster, "failover", f"f{next(_numbers)}", volumes=True) for _ in range(count)]
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(Doomed.place, every))
        engine = Engine(self.cluster, self.folder, self.account, "failover", next(_numbers), way.policy(self.folder),
                        config={"fencingDrivers": f"[{self.space.driver}]", **(way.config or {})}, witnessed=False)
        engine.start()
        since = time.monotonic_ns()
        try:
            for doomed in every:
                doomed.fail("silent")
                time.sleep(APART)
            for doomed in every:
                doomed.workloads.wait(f"{doomed.name} moved", doomed.moved, 200)
            for doomed in every:
                assert {uid_of(p) for p in doomed.moved()}.isdisjoint(doomed.pods)
        finally:
            engine.end()
        by_resource = defaultdict(list)
        for event in self.observer.seen():
            by_resource[event["resource"]].append(event)
        asked = asked_at(engine)
        found = [read(doomed, by_resource, since, asked) for doomed in every]
        with ThreadPoolExecutor(5) as pool:
            list(pool.map(Doomed.remove, every))
        return found


def report(found: dict) -> Block:
    """`found` by way and delay of the attacher."""
    def cell(failovers: list, step: int) -> str:
        values = [f.spans()[step] for f in failovers]
        return f"{median(values):.3f} ({max(values):.3f})"
    head = [f"{way}, attacher {detach:g} s ({len(failovers)})" for (way, detach), failovers in found.items()]
    rows = [[step, *[cell(failovers, i) for failovers in found.values()]] for i, step in enumerate(STEPS)]
    every = [f for failovers in found.values() for f in failovers]
    how = (f"StatefulSet pods with one CSI volume each; their nodes fall silent one after another, {APART} s apart, with "
           "the release of volumes and without (plain), in turns. "
           "Stand-in kubelets and attacher: a real kubelet adds its own status tick (2 to 10 s). Seconds, by the clock of "
           "one process that "
           "watches nodes, pods and attachments: median and largest; how many in the head.")
    return Block(how, [Table(["seconds", *head], rows)], [
        f"Replacements bound to the failed node: {sum(f.bound_to_the_dead for f in every)}; pods deleted before the taint: "
        f"{sum(f.before_the_taint for f in every)} of {len(every)}. Without the release it is Kubernetes' own check once a "
        "minute that is waited for."],
        {f"{way}, {detach:g}": [f.spans() for f in failovers] for (way, detach), failovers in found.items()})


PLAIN = Way("plain")
RELEASE = Way("release", ", { release = true }", {"release": "on"})


def measure(stage: Stage, times: int = 20, slow_times: int = 10, delays: tuple = (0.0, 0.3)) -> Block:
    trial, found = Trial(stage), defaultdict(list)
    wanted = ((PLAIN, slow_times), (RELEASE, times))
    try:
        for detach in delays:
            while any(len(found[way.name, detach]) < count for way, count in wanted):
                for way, count in wanted:  # in turns, smaller shares for the one that is measured less
                    rounds = -(-max(times, slow_times) // BATCH)
                    share = min(-(-count // rounds), count - len(found[way.name, detach]))
                    found[way.name, detach] += trial.batch(way, detach, share) if share else []
    finally:
        trial.observer.end()
    return report(found)
