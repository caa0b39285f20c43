"""Machines that are disturbed but alive, round after round: none may be called silent, and nothing deleted.

    scripts/machines disturbances [--rounds N] [--only NAME,...] [--dir FOLDER]

Three real machines with Kubernetes' own settings and moonfence inside, two replicas, `detection: on`. A policy that takes
every pod of a dead machine is bound twice: by Kubernetes' word, and with `actOn: lost, after: 12s`. Every round disturbs,
holds, undoes, waits until all is as before, and prints a line of JSON. A round fails when moonfence deleted anything, or
called a machine silent that was there to answer, or when all did not come back. In the end a machine loses its power, and
its pods must go. Then there is a table; the exit code is 1 if anything failed.
"""

import argparse
import json
import os
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Callable, Iterator, Optional

from cluster.bed import Bed
from cluster.control_plane import API_SERVER
from cluster.node import Node
from cluster.settings import STOCK
from e2e.control_plane import REPO
from e2e.kube import ApiError, wait_for
from e2e.replica import make_image
from e2e.workloads import Workloads, is_ready, node_ready, taints

from .bindings import DEAD
from .chronicle import Chronicle, seconds
from .inside import Inside, installed, process_of
from .rounds import CONFIG, LIMIT, RIGHTS, victim_of
from .stage import FENCED, OBEYS, pod_spec
from .told import Told, seconds_of, told

SPACE = "disturbances"
BINDINGS = "api: 1\nbindings:\n" + "".join(
    f"- {{policy: dead, source: dead.lua, namespaces: [{SPACE}], mode: enforce{more}}}\n"
    for more in ("", ", actOn: lost, after: 12s"))
POWER_OFF = "power-off"
SILENT_AFTER = 4.0  # seconds; a machine that was away for less may not be called silent
GIVEN_UP = 30  # seconds for which the machine stays as it is after everybody has given it up
AFTERWARDS = 6  # seconds until whatever began in a round has been told
OUTAGES, CUTS, LOSSES = (5, 10, 20, 30), (10, 30), (0.05, 0.20, 0.50)


@dataclass
class Scene:
    """One round: on which machine, what is known of it, and what the disturbance itself tells."""

    bed: Bed
    inside: Inside
    number: int
    struck: Node
    pods: list  # of moonfence
    leader: str  # its uid
    seen: Chronicle
    began: float = field(default_factory=time.monotonic)
    wall: float = field(default_factory=time.time)
    about: dict = field(default_factory=dict)  # with what measure it was disturbed
    away: dict = field(default_factory=dict)  # node: for how many seconds nobody else could reach it

    def told(self) -> list:
        return told(self.bed, self.wall)

    @property
    def outage(self) -> int:
        self.about["seconds"] = OUTAGES[self.number % len(OUTAGES)]
        return self.about["seconds"]

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.away[self.struck.name] = round(time.monotonic() - began, 2)


@dataclass(frozen=True)
class Disturbance:
    """`of`: whose machine is struck: `bare` has no replica."""

    act: Callable[[Scene], None]
    of: str = "bare"


# --- what is done; each returns when it is undone

def wait_given_up(scene: Scene):
    """Kubernetes calls the node Unknown, its Lease is dead, and the engine says that the machine answers; and then on."""
    name, client = scene.struck.name, scene.bed.client

    def lease_is_dead() -> bool:
        spec = client.get("leases", name, "kube-node-lease")["spec"]
        renewed = datetime.fromisoformat(spec["renewTime"].replace("Z", "+00:00")).timestamp()
        return time.time() > renewed + spec["leaseDurationSeconds"]

    def is_held() -> bool:
        return any(line.words.get("reason") == "kernel_answers" and line.words.get("node") == name for line in scene.told())
    wait_for(f"{name} is Unknown", lambda: node_ready(client.get("nodes", name)) == "Unknown", LIMIT)
    wait_for(f"the Lease of {name} is dead", lease_is_dead, LIMIT)
    wait_for(f"an incident of {name} says that its machine answers", is_held, LIMIT, 1)
    time.sleep(GIVEN_UP)


def kubelet_killed(scene: Scene):
    scene.struck.kill("kubelet")
    wait_given_up(scene)
    scene.struck.start("kubelet")


def frozen(scene: Scene):
    scene.struck.freeze()
    wait_given_up(scene)
    scene.struck.thaw()


def starved(scene: Scene):
    """`waited`: for how long its processors did nothing for it though it had work."""
    before = scene.struck.group.waited_for_cpu
    scene.struck.limit_cpu(0.02)
    time.sleep(60)
    scene.struck.limit_cpu(0)
    scene.about["waited"] = round(scene.struck.group.waited_for_cpu - before, 1)


def containerd_killed(scene: Scene):
    """Its kubelet says Ready=False after half a minute."""
    scene.struck.kill("containerd")
    time.sleep(60)
    scene.struck.start("containerd")


def kubelet_restarted(scene: Scene):
    scene.struck.restart("kubelet")


def rebooted(scene: Scene):
    """Until its kernel has its address again nobody answers."""
    def starts() -> dict:
        return {pod["metadata"]["uid"]: pod["status"]["containerStatuses"][0]["restartCount"]
                for pod in scene.bed.client.list("pods", SPACE) if pod["spec"].get("nodeName") == scene.struck.name}
    before = starts()
    with scene.unreachable():
        scene.struck.reboot()
    scene.struck.wait_ready()
    wait_for("its pods are started anew", lambda: all(n > before.get(uid, -1) for uid, n in starts().items()), LIMIT)


def link_flaps(scene: Scene):
    with scene.unreachable():
        scene.struck.cable_out()
        time.sleep(3)
        scene.struck.cable_in()


def packets_lost(scene: Scene):
    """Each way: of 50 % a quarter of the questions is answered."""
    scene.about["loss"] = LOSSES[scene.number % len(LOSSES)]
    scene.struck.lose(scene.about["loss"])
    time.sleep(30)
    scene.struck.cable_in()


def api_server_stopped(scene: Scene):
    scene.bed.control_plane.restart_component(API_SERVER, scene.outage)


def etcd_stopped(scene: Scene):
    scene.bed.control_plane.restart_component("etcd", scene.outage)
    scene.bed.control_plane.wait_ready()


def own_link_cut(scene: Scene):
    """For less than `after`: longer, and its machine is rightly lost."""
    with scene.unreachable():
        scene.struck.cable_out()
        time.sleep(10)
        scene.struck.cable_in()


def own_link_cut_to_nodes(scene: Scene):
    """Its kubelet goes on to renew its Lease, and it to ask the API server."""
    scene.about["seconds"] = CUTS[scene.number % len(CUTS)]
    with scene.unreachable():
        scene.struck.cut_from_nodes()
        time.sleep(scene.about["seconds"])
        scene.struck.cable_in()


def replica_stopped(scene: Scene):
    """The leader and the other one in turn, each for all times."""
    pod = scene.inside.leader() if scene.number // len(OUTAGES) % 2 == 0 else scene.inside.standby()
    scene.about["replica"] = pod["metadata"]["uid"]
    process = process_of(scene.bed.node(pod["spec"]["nodeName"]), pod)
    os.kill(int(process.name), signal.SIGSTOP)
    time.sleep(scene.outage)
    if process.exists():  # else its kubelet was quicker
        os.kill(int(process.name), signal.SIGCONT)


DISTURBANCES = {
    "kubelet-restarted": Disturbance(kubelet_restarted),
    "link-flap": Disturbance(link_flaps),
    "quick-reboot": Disturbance(rebooted),
    "api-server-stopped": Disturbance(api_server_stopped),
    "etcd-stopped": Disturbance(etcd_stopped),
    "replica-stopped": Disturbance(replica_stopped),
    "own-link-cut": Disturbance(own_link_cut, "leader"),
    "own-link-cut-to-nodes": Disturbance(own_link_cut_to_nodes, "leader"),
    "packets-lost": Disturbance(packets_lost),
    "containerd-killed": Disturbance(containerd_killed),
    "starved": Disturbance(starved),
    "kubelet-killed": Disturbance(kubelet_killed),
    "frozen": Disturbance(frozen),
}


# --- before and after

def fill(bed: Bed, load: Workloads):
    """A pod of a Deployment and one of a StatefulSet on every machine; where they are there already, nothing is done."""
    def placed() -> bool:
        pods = load.pods()
        where = {pod["metadata"]["name"].rsplit("-of-", 1)[1][:len("node-1")]: pod["spec"].get("nodeName") for pod in pods}
        return len(pods) == 2 * len(bed.nodes) == len([pod for pod in pods if is_ready(pod)]) and all(
            wanted == is_on for wanted, is_on in where.items())
    if placed():
        return
    load.remove_all()
    for node in bed.nodes:
        for make, kind in ((load.deployment, "web"), (load.stateful_set, "plain")):
            make(f"{kind}-of-{node.name}", toleration_seconds=None, pod_spec=pod_spec(OBEYS, grace=1, prefer=node.name))
    load.wait("every machine has its pods", placed, LIMIT)


def wait_over(bed: Bed, inside: Inside, load: Workloads):
    """The nodes are Ready and without a taint, the pods Ready, two replicas there, and no incident is open."""
    bed.wait_ready()
    inside.wait_ready()
    load.wait("every pod is Ready", lambda: all(map(is_ready, load.pods())), LIMIT)

    def all_closed() -> bool:
        told = [replica.get("situation", {}).get("openIncidents") for replica in inside.policies.status().values()]
        return 0 in told and not any(told)
    wait_for("no incident is open", all_closed, LIMIT)
    time.sleep(AFTERWARDS)


def clean(bed: Bed):
    """After a round that failed: what is fenced is proven clean by a reboot."""
    for node in bed.nodes:
        if any(key == FENCED for key, _ in taints(bed.client.get("nodes", node.name))):
            node.reboot()
    bed.make_well()


# --- what became of it

def silences(scene: Scene, lines: list) -> list:
    """Each time a replica called a machine silent: after how long, and how long it lasted in the end."""
    where = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in scene.pods}
    found = []
    for number, line in enumerate(lines):
        if line.event == "machine_silent":
            heard = [later for later in lines[number:] if later.event == "machine_answers"
                     and (later.pod, later.words["node"]) == (line.pod, line.words["node"])]
            found.append({"node": line.words["node"], "by": line.pod, "by_node": where.get(line.pod),
                          "at": round(line.at - scene.wall, 2), "quiet": round(seconds_of(line.words["quiet"]), 2),
                          "lasted": round(seconds_of(heard[0].words["quiet"]), 2) if heard else None})
    return found


def was_away(scene: Scene, silence: dict) -> bool:
    """Nobody else could reach it so long that it is rightly called silent. It can always reach itself."""
    return scene.away.get(silence["node"], 0) >= SILENT_AFTER and silence["by_node"] != silence["node"]


def reasons(lines: list) -> dict:
    """{node: the reasons that its incidents told}"""
    found: dict = {}
    for line in lines:
        if line.event.startswith("incident_") and "node" in line.words:
            found.setdefault(line.words["node"], set()).add(line.words.get("reason", line.event))
    return {node: sorted(words) for node, words in found.items()}


def result_of(scene: Scene, name: str, error: Optional[Exception]) -> dict:
    lines: list[Told] = scene.told()
    silent = silences(scene, lines)
    deleted = [f"{each.verb} {each.resource} {each.name}: {each.status}" for each in scene.inside.deletes()]
    wrongly = [each for each in silent if not was_away(scene, each)]
    failed = [*(["deleted"] if deleted else []), *(["silent"] if wrongly else []),
              *([f"{type(error).__name__}: {error}"] if error else [])]
    return {
        "disturbance": name, "round": scene.number + 1, "struck": scene.struck.name, **scene.about,
        "at": datetime.fromtimestamp(scene.wall).isoformat(timespec="seconds"), "took": round(time.monotonic() - scene.began, 1),
        "leader": scene.leader, "away": scene.away, "silent": silent, "wrongly_silent": len(wrongly), "deleted": deleted,
        "gone": len(scene.seen.deleted),
        "unknown": {node: seconds(scene.began, at) for node, at in scene.seen.unknown.items()},
        "reasons": reasons(lines), "failed": failed}


def play(bed: Bed, inside: Inside, load: Workloads, name: str, number: int) -> dict:
    disturbance = DISTURBANCES[name]
    fill(bed, load)
    struck, pods = victim_of(bed, inside, disturbance.of), inside.pods()
    inside.mark()
    leader = inside.leader()["metadata"]["uid"]
    scene = Scene(bed, inside, number, struck, pods, leader, Chronicle(bed.control_plane.client(timeout=30), SPACE))
    error = None
    try:
        disturbance.act(scene)
        wait_over(bed, inside, load)
    except (ApiError, OSError, RuntimeError, AssertionError) as caught:
        error = caught
    result = result_of(scene, name, error)
    scene.seen.end()
    if result["failed"]:
        clean(bed)
    return result


def check_power_off(bed: Bed, inside: Inside, load: Workloads) -> dict:
    """The last act: all this proves nothing unless the same moonfence deletes all pods of a machine without power."""
    fill(bed, load)
    struck = victim_of(bed, inside, "bare")
    doomed = {pod["metadata"]["uid"] for pod in load.pods() if pod["spec"]["nodeName"] == struck.name}
    inside.mark()
    began = time.monotonic()
    struck.power_off()

    def deleted() -> set:
        return {each.uid_precondition for each in inside.deletes(resource="pods", status=200)}
    try:
        wait_for("its pods are deleted", lambda: deleted() == doomed, LIMIT, 1)
        failed = []
    except TimeoutError as error:
        failed = [f"{error}: {deleted()} of {doomed}"]
    return {"disturbance": POWER_OFF, "struck": struck.name, "deleted": len(deleted()), "took": seconds(began, time.monotonic()),
            "failed": failed}


COLUMNS = {"silent": "silent", "wrongly_silent": "wrongly", "deleted": "deleted", "unknown": "Unknown", "failed": "failed"}


def table(rows: list) -> str:
    """In how many rounds. `wrongly`: silent, and it was there to answer."""
    lines = ["  ".join([f"{'disturbance':<22}", "rounds", *(f"{title:>7}" for title in COLUMNS.values())])]
    for name in DISTURBANCES:
        mine = [row for row in rows if row["disturbance"] == name]
        if mine:
            counts = [sum(bool(row[key]) for row in mine) for key in COLUMNS]
            lines.append("  ".join([f"{name:<22}", f"{len(mine):>6}", *(f"{count:>7}" for count in counts)]))
    return "\n".join(lines)


def run(arguments) -> int:
    rows: list = []
    try:
        with Bed(arguments.dir, settings=STOCK).up(3) as bed:
            folder = Path(arguments.dir) / "install"
            folder.mkdir()
            with installed(bed, make_image().archive, folder, RIGHTS, CONFIG) as inside:
                inside.wait_ready()
                load = Workloads(bed.client, SPACE, {}, bed.control_plane)
                load.create_namespace()
                inside.policies.wait_observed(inside.policies.edit(moonfence_yaml=BINDINGS, dead_lua=DEAD))
                for number in range(arguments.rounds):
                    for name in arguments.only:
                        rows.append(play(bed, inside, load, name, number))
                        print(json.dumps(rows[-1]), flush=True)
                rows.append(check_power_off(bed, inside, load))
                print(json.dumps(rows[-1]), flush=True)
    finally:
        print(table(rows), flush=True)
    return int(any(row["failed"] for row in rows))


def names(text: str) -> list:
    chosen = text.split(",")
    for name in chosen:
        if name not in DISTURBANCES:
            raise argparse.ArgumentTypeError(f"there is no '{name}'; there are {', '.join(DISTURBANCES)}")
    return chosen


def interrupted(number, _frame):
    raise SystemExit(128 + number)


def main() -> int:
    parser = argparse.ArgumentParser(prog="machines disturbances", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20, help="of each")
    parser.add_argument("--only", type=names, default=list(DISTURBANCES), metavar="NAME,...", help=", ".join(DISTURBANCES))
    parser.add_argument("--dir", type=Path, default=REPO / "build" / "machines" / "disturbances")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    return run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
