"""A Kubernetes cluster for tests on this machine: the real control plane, stand-in nodes.

  up           start it; prints the path of an admin kubeconfig
  down         end every process of it
  status       what runs, and the nodes
  fail NODE    the node's machine dies (or fails in another way, see --mode)
  heal NODE    undo it
  kubeconfig   print the path of the admin kubeconfig

Everything listens on loopback only. The first `up` on a machine builds the control plane, which takes
4 to 9 minutes; later ones take 5 seconds.
"""

import argparse
import signal
import sys
import time
from pathlib import Path

from .control_plane import COMPONENTS, REPO, ControlPlane
from .hollow_control import HollowControl, lease_interval, start_hollow
from .kube import wait_for

MODES = ("silent", "notready", "missing", "missing-alive")


def say(text):
    print(f"cluster: {text}", file=sys.stderr, flush=True)


def ready_of(node: dict) -> str:
    found = [c for c in node.get("status", {}).get("conditions") or [] if c["type"] == "Ready"]
    return found[0]["status"] if found else "missing"


def is_usable(node: dict) -> bool:
    return ready_of(node) == "True" and not node["spec"].get("taints")


def running(cluster: ControlPlane) -> list:
    return [name for name in (*COMPONENTS, "hollow") if cluster.processes.pid(name)]


def default_grace(nodes: int) -> float:
    """Short for a few nodes; longer for many, so that their heartbeats leave the machine time."""
    return 8 if nodes <= 100 else 20 if nodes <= 1000 else 40


def up(arguments) -> int:
    grace = arguments.grace or default_grace(arguments.nodes)
    cluster = ControlPlane(arguments.dir, grace=grace, die_with_us=False)
    alive = running(cluster)
    if len(alive) == len(COMPONENTS) + 1:
        say("it runs already")
        print(cluster.kubeconfig)
        return 0
    if {"etcd", "kube-apiserver", "hollow"} <= set(alive):
        say("it runs; started again what had ended: " + ", ".join(attached(arguments).revive()))
        print(cluster.kubeconfig)
        return 0
    if alive:
        say("a part of it still runs; starting afresh")

    def interrupted(number, _frame):
        raise SystemExit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    try:
        cluster.start()
        version = ".".join(map(str, cluster.version))
        say(f"Kubernetes {version} is up after {cluster.started_in:.1f} s; grace period {grace:g} s")
        began = time.monotonic()
        start_hollow(cluster.processes, cluster.folder, nodes=arguments.nodes, interval=lease_interval(grace),
                     images=arguments.images, conditions=arguments.conditions,
                     status_period=60 if arguments.nodes <= 100 else 300)
        client = cluster.client()
        wait_for(f"{arguments.nodes} nodes are Ready",
                 lambda: len([n for n in client.list("nodes") if is_usable(n)]) >= arguments.nodes,
                 60 + arguments.nodes / 10, every=0.2 if arguments.nodes <= 100 else 2)
        wait_for("the hollow process takes orders", lambda: HollowControl(cluster.folder / "hollow.sock").status(), 30)
        say(f"{arguments.nodes} nodes are Ready after {time.monotonic() - began:.1f} s more")
    except BaseException:
        cluster.stop()
        raise
    print(cluster.kubeconfig)
    return 0


def down(arguments) -> int:
    cluster = ControlPlane(arguments.dir, die_with_us=False)
    alive = running(cluster)
    cluster.stop()
    say("ended " + ", ".join(alive) if alive else "nothing runs")
    return 0


def attached(arguments) -> ControlPlane:
    try:
        return ControlPlane(arguments.dir, die_with_us=False).attach()
    except (OSError, ValueError) as error:
        raise RuntimeError(f"no cluster in {arguments.dir}; start one with `up`") from error


def status(arguments) -> int:
    cluster = attached(arguments)
    for name in (*COMPONENTS, "hollow"):
        pid = cluster.processes.pid(name)
        print(f"{name:<24} {'pid ' + str(pid) if pid else 'DOWN'}")
    if len(running(cluster)) <= len(COMPONENTS):
        return 1
    modes = HollowControl(cluster.folder / "hollow.sock").status()["nodes"]
    nodes = cluster.client().list("nodes")
    print(f"{'API server':<24} {cluster.server}  (Kubernetes {'.'.join(map(str, cluster.version))})")
    print(f"{'nodes':<24} {len(nodes)}, usable {len([n for n in nodes if is_usable(n)])}")
    for node in nodes if len(nodes) <= 20 or arguments.all else [n for n in nodes if not is_usable(n)]:
        name = node["metadata"]["name"]
        mode = modes.get(name, {"mode": "not hollow", "pods": "?"})
        taints = ",".join(t["key"].split("/")[-1] + ":" + t["effect"] for t in node["spec"].get("taints") or [])
        print(f"  {name:<22} Ready={ready_of(node):<8} {mode['mode']:<14} {mode['pods']} pods  {taints}")
    return 0


def fail(arguments) -> int:
    HollowControl(attached(arguments).folder / "hollow.sock").fail(arguments.node, arguments.mode)
    say(f"{arguments.node} fails: {arguments.mode}")
    return 0


def heal(arguments) -> int:
    HollowControl(attached(arguments).folder / "hollow.sock").heal(arguments.node, arguments.reboot)
    say(f"{arguments.node} is back" + (", rebooted" if arguments.reboot else ""))
    return 0


def kubeconfig(arguments) -> int:
    print(attached(arguments).kubeconfig)
    return 0


def parse(argv):
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name, function, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--dir", type=Path, default=REPO / "build" / "cluster",
                         help="folder with all state (default: build/cluster in the repository)")
        sub.set_defaults(function=function)
        return sub

    sub = command("up", up, "start a cluster and print the path of its admin kubeconfig")
    sub.add_argument("--nodes", type=int, default=3, help="stand-in nodes (default 3)")
    sub.add_argument("--grace", type=float,
                     help="seconds without a heartbeat after which a node is given up (default 8; 20 above 100 nodes)")
    sub.add_argument("--images", type=int, default=0, help="images in each node's status (50 is realistic)")
    sub.add_argument("--conditions", action="store_true", help="all conditions of a kubelet, not Ready alone")
    command("down", down, "end every process of the cluster")
    sub = command("status", status, "what runs, and the nodes (of many only the unusable ones)")
    sub.add_argument("--all", action="store_true", help="list every node")
    sub = command("fail", fail, "let a node fail")
    sub.add_argument("node")
    sub.add_argument("--mode", choices=MODES, default="silent",
                     help="silent: a dead machine; notready: a living kubelet that posts Ready=False and renews its "
                     "Lease; missing: the Ready condition is removed, then silence; missing-alive: removed, but the "
                     "Lease is renewed")
    sub = command("heal", heal, "bring a node back")
    sub.add_argument("node")
    sub.add_argument("--reboot", action="store_true", help="with a new boot id and no memory of its pods")
    command("kubeconfig", kubeconfig, "print the path of the admin kubeconfig")
    return parser.parse_args(argv)


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        return arguments.function(arguments)
    except (RuntimeError, TimeoutError, OSError) as error:
        say(f"error: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
