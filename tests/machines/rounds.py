"""How many seconds after a machine loses its power it is called silent, lost, and its pod runs elsewhere.

    scripts/machines rounds [--rounds N] [--of bare|leader|standby] [--act-on lost|off] [--by power|cable] [--after 12s] [--lease SECONDS]

Each round is on real machines with Kubernetes' own settings and moonfence inside, two replicas: the machine that has no
replica loses its power, or the one on which the leader, or the other replica, runs. The pod is a Deployment's, bound by
`actOn: lost`, or with `--act-on off` by `actOn: off`: each machine has a BMC then, sushy-tools' emulator, which says
whether it has power and switches it off for real. `--by cable`: it lives, behind a cable that is cut. `--lease 20`: kubelets
renew their Leases twice as often as by default.
"""

import argparse
import json
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Optional

from cluster.bed import Bed
from cluster.node import Node
from cluster.settings import STOCK
from e2e.control_plane import REPO
from e2e.kube import wait_for
from e2e.replica import make_image
from e2e.workloads import Workloads, is_ready, taints

from . import bmc
from .chronicle import Chronicle
from .inside import Inside, installed
from .stage import OBEYS, pod_spec
from .told import told

WEB, SPACE, LIMIT = "web", "rounds", 240
CONFIG = "detection: on\nquarantine: always"
RIGHTS = ("detection", "taint")
STEPS = ("silent", "lost", "deleted", "running")


def victim_of(bed: Bed, inside: Inside, of: str) -> Node:
    pods = inside.wait_ready()
    nodes = {"leader": inside.leader()["spec"]["nodeName"], "standby": inside.standby()["spec"]["nodeName"]}
    (nodes["bare"],) = {node.name for node in bed.nodes} - {pod["spec"]["nodeName"] for pod in pods}
    return bed.node(nodes[of])


def logged(lines: list, node: str, event: str, reason: Optional[str] = None) -> Optional[float]:
    """When a replica first logged that of the node."""
    return next((line.at for line in lines if line.event == event and line.words.get("node") == node
                 and line.words.get("reason") == reason), None)


def play(bed: Bed, inside: Inside, load: Workloads, of: str, by: str) -> dict:
    victim = victim_of(bed, inside, of)
    load.deployment(WEB, labels={"app": "noobaa"}, toleration_seconds=None, pod_spec=pod_spec(OBEYS, prefer=victim.name))
    (old,) = wait_for("the pod runs", lambda: [p for p in load.pods() if is_ready(p)], LIMIT)
    assert old["spec"]["nodeName"] == victim.name
    seen = Chronicle(bed.control_plane.client(timeout=30), load.namespace)
    time.sleep(3)  # the chronicle's watches are open, and all machines have been heard
    struck, wall = time.monotonic(), time.time()
    victim.power_off() if by == "power" else victim.cable_out()

    def moved() -> Optional[float]:
        return min((at for uid, (at, _) in dict(seen.running).items() if uid != old["metadata"]["uid"] and at > struck), default=None)
    running = wait_for("it runs elsewhere", moved, LIMIT, 0.02)
    lines = told(bed, wall)
    times = {"silent": logged(lines, victim.name, "machine_silent"),
             "lost": logged(lines, victim.name, "incident_opened", "node_lost")}
    result = {name: None if at is None else round(at - wall, 2) for name, at in times.items()}
    result |= {"deleted": round(seen.deleted[old["metadata"]["uid"]] - struck, 2), "running": round(running - struck, 2)}
    seen.end()
    result["left_on"] = victim.is_on()
    bed.make_well()
    victim.wait_ready()
    wait_for("it has no taint", lambda: not taints(bed.client.get("nodes", victim.name)), LIMIT)
    load.client.delete("deployments", WEB, load.namespace)
    wait_for("its pod is gone", lambda: not load.pods(), LIMIT)
    return result


def run(arguments) -> int:
    rows = []
    is_off = arguments.act_on == "off"
    settings = replace(STOCK, lease=arguments.lease)
    with Bed(arguments.dir, settings=settings).up(3) as bed, bmc.bmcs(bed) if is_off else nullcontext({}) as controllers:
        folder = Path(arguments.dir) / "install"
        folder.mkdir()
        config = CONFIG
        if is_off:
            config += f"\nleastAfter: {arguments.after}\nproof: {{everywhere: [off]}}\n{bmc.config(controllers)}"
        with installed(bed, make_image().archive, folder, RIGHTS, config) as inside:
            inside.wait_ready()
            load = Workloads(bed.client, SPACE, {}, bed.control_plane)
            load.create_namespace()
            inside.bind(load.namespace, f", actOn: {arguments.act_on}, after: {arguments.after}")
            for number in range(arguments.rounds):
                rows.append(play(bed, inside, load, arguments.of, arguments.by))
                print(json.dumps({"round": number + 1, "of": arguments.of, "act_on": arguments.act_on, "by": arguments.by,
                                  "after": arguments.after, **rows[-1],
                                  "told": [len(each.resets) for each in controllers.values()]}), flush=True)
    for step in STEPS:
        told = [row[step] for row in rows if row[step] is not None]
        if told:
            print(f"{step:<8} n {len(told):>3}  median {median(told):6.2f} s  worst {max(told):6.2f} s")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="machines rounds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--of", choices=("bare", "leader", "standby"), default="bare")
    parser.add_argument("--act-on", choices=("lost", "off"), default="lost")
    parser.add_argument("--by", choices=("power", "cable"), default="power")
    parser.add_argument("--after", default="12s")
    parser.add_argument("--lease", type=int, default=0)
    parser.add_argument("--dir", type=Path, default=REPO / "build" / "machines" / "rounds")
    return run(parser.parse_args())


if __name__ == "__main__":
    raise SystemExit(main())
