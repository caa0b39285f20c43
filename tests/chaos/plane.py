"""The control plane is harmed: the API server, etcd, or the heartbeat of most nodes at once. One round at a time."""

import signal
import time
from typing import Callable

from e2e.doomed import uid_of
from e2e.faults import metric
from e2e.kube import wait_for
from e2e.workloads import Workloads, node_ready, taints

from .kind import Kind, Round
from .replicas import RELEASING

STEPS = ("", "incident_opened", "verdict", "pod's intent", "pod's outcome")
SHIPPED_BRAKE = "{maxPerWindow: off}"  # but for the window, since twenty rounds fit into it
OUTAGE = 30.0
PATIENT = 'live_kubelet = true, failures = 2, interval = "10s"'


class Plane(Kind):
    lanes = 1
    replicas = 1
    brake = SHIPPED_BRAKE
    trigger = "live_kubelet = true"
    steps = STEPS

    def equip(self, lane):
        for _ in range(self.replicas):
            lane.engine(elect=self.elects, config={"brake": self.brake}, trigger=self.trigger)

    def break_it(self, now: Round) -> Callable[[], str]:
        """Breaks it at once; what it returns mends it, some time later, and says what was done."""
        raise NotImplementedError

    def harm(self, now: Round) -> str:
        name = now.chance.choice(self.steps)
        if name:
            with now.held_at(name):
                mend = self.break_it(now)
            return f"{mend()} after {name}"
        pause = now.chance.uniform(0, 0.05)
        now.fail()
        time.sleep(pause)
        return f"{self.break_it(now)()} {1000 * pause:.0f} ms after the failure"

    def mend(self, now: Round):
        """All nodes but the failed one live again for Kubernetes, and nothing is left to be done."""
        for engine in now.lane.engines:
            engine.wait_ready()

        def well():
            nodes = [n for n in now.lane.cluster.client.list("nodes") if n["metadata"]["name"] != now.doomed.node]
            return all(node_ready(n) == "True" and not taints(n) for n in nodes)
        wait_for("the other nodes live", well, self.right_within)


class ApiServer(Plane):
    """kube-apiserver is killed and comes back, and with it a controller manager that has forgotten which volumes were
    to be detached: without a release it waits six minutes."""

    def break_it(self, now: Round) -> Callable[[], str]:
        plane, down = now.lane.cluster.control_plane, now.chance.uniform(0, 4)
        plane.stop_component("kube-apiserver", hard=True)

        def mend() -> str:
            time.sleep(down)
            plane.start_component("kube-apiserver")
            return f"API server killed for {down:.1f} s"
        return mend


class Etcd(Plane):
    """etcd stops for 30 s: it is frozen, or ends and begins again. The controller manager goes on meanwhile and takes
    the outage for the silence of every node; its reflectors may take another minute to come back."""

    right_within = 240.0

    def break_it(self, now: Round) -> Callable[[], str]:
        plane, frozen = now.lane.cluster.control_plane, now.chance.random() < 0.5
        if frozen:
            plane.processes.signal("etcd", signal.SIGSTOP)
        else:
            plane.stop_component("etcd")

        def mend() -> str:
            time.sleep(OUTAGE)
            if frozen:
                plane.processes.signal("etcd", signal.SIGCONT)
            else:
                plane.start_component("etcd")
            return f"etcd {'frozen' if frozen else 'down'} for {OUTAGE:.0f} s"
        return mend


class Storm(Plane):
    """Two thirds of the nodes fail within some tenths of a second. Nothing may be deleted."""

    nodes = 9
    held = (2, 5)  # seconds for which they stay down
    modes = ("notready", "notready", "notready", "silent")

    def equip(self, lane):
        label = {"moonfence.io/storm": lane.namespace}
        self.names = [f"{lane.namespace}-{number + 1}" for number in range(self.nodes)]
        lane.cluster.hollow.add(self.names, labels=label)
        self.workloads = Workloads(lane.cluster.client, lane.namespace, label, lane.cluster.control_plane)
        self.workloads.stateful_set("storm", 2 * self.nodes, toleration_seconds=600)
        self.workloads.wait_all_running("storm", 2 * self.nodes, seconds=120)
        # the pods that must stay are on the nodes of the storm; beside these there are none
        lane.staying.remove()
        lane.closing.append(lambda: lane.cluster.hollow.remove(self.names))
        super().equip(lane)

    def play(self, lane, number: int, seed: str) -> tuple:
        chance = self.chance(number, seed)
        before = {uid_of(p) for p in self.workloads.pods("storm")}
        down = chance.sample(self.names, 2 * self.nodes // 3)
        within, mode = chance.uniform(0, 0.5), chance.choice(self.modes)
        for name in down:
            lane.cluster.hollow.fail(name, mode)
            time.sleep(within / len(down))
        for name in down:
            self.workloads.wait_node(name, "Unknown" if mode == "silent" else "False", 60)
        began = time.monotonic()
        time.sleep(chance.uniform(*self.held))
        for name in down:
            lane.cluster.hollow.heal(name)

        def calm():
            nodes = [self.workloads.client.get("nodes", name) for name in self.names]
            return all(node_ready(n) == "True" and not taints(n) for n in nodes)
        self.workloads.wait("all nodes live", calm, 60)
        self.workloads.wait_all_running("storm", 2 * self.nodes, seconds=90)
        # or the next round would find the brake engaged already
        wait_for("the brake has cooled down", lambda: all(
            metric(engine, "moonfence_brake_engaged") == 0 for engine in lane.engines), 60)
        seconds = time.monotonic() - began
        lost = before - {uid_of(p) for p in self.workloads.pods("storm")}
        faults = [f"{len(lost)} pods of {len(down)} nodes were deleted"] if lost else []
        pod_by_pod = lane.new_faults()
        note = f"{len(down)} of {self.nodes} nodes {mode} within {within:.2f} s"
        return note, seconds, faults + pod_by_pod[:1] + lane.story(pod_by_pod)


def kinds() -> list:
    return [ApiServer("api-server"), ApiServer("api-server-replicas", replicas=2),
            ApiServer("api-server-volumes", volumes=True, releases=True),
            ApiServer("api-server-release", volumes=True, releases=True, steps=RELEASING),
            Etcd("etcd", volumes=True), Etcd("etcd-patient", trigger=PATIENT, volumes=True),
            Storm("storm", modes=("silent",)),
            Storm("storm-patient", trigger=PATIENT.replace("10s", "2s"))]
