"""A Kubernetes cluster of machines on this computer: real kubelets, real containers, in namespaces.

  up [N]             a control plane and N nodes (3); prints the path of an administrator's kubeconfig
  down               everything off; logs stay
  status             what runs, and the nodes
  off N / boot N     the power of a node; its disk stays, it boots with a new boot id
  cut N / mend N     its cable; what runs on it goes on
  freeze N / thaw N  the whole machine stands still; its kernel still acknowledges what it is sent
  kill N SERVICE / start N SERVICE   kubelet or containerd: killed, and away until it is started
  in N CMD...        a command on a node, or on the control-plane
  kubectl ...        as administrator
  results FILE...    a table of how long failures took, from files that tests wrote
  rounds             how long detection takes, on machines of its own (rounds --help)
  disturbances       whether machines that are disturbed but alive keep their pods (disturbances --help)

Needs root. The first `up` builds what is missing, which takes ten minutes; later ones take a few seconds.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from e2e.control_plane import REPO
from e2e.kube import ApiError

from . import results
from .bed import Bed
from .machine import Machine
from .needs import Unfit
from .node import ready
from .settings import ALL, STOCK


def say(text):
    print(f"machines: {text}", file=sys.stderr, flush=True)


def interrupted(number, _frame):
    raise SystemExit(128 + number)


def up(arguments) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupted)
    if (arguments.dir / "bed.json").exists() and attached(arguments).control_plane.is_on():
        raise Unfit([f"{arguments.dir}: a bed is up there; take it down first (scripts/machines down), or name another "
                     "folder (--dir)"])
    began = time.monotonic()
    bed = Bed(arguments.dir, arguments.name, ALL[arguments.settings], die_with_us=False, port=arguments.port)
    bed.up(arguments.nodes)
    say(f"{arguments.nodes} nodes are Ready after {time.monotonic() - began:.1f} s; {arguments.settings} settings")
    print(bed.control_plane.kubeconfig)
    return 0


def attached(arguments) -> Bed:
    return Bed.attach(arguments.dir)


def down(arguments) -> int:
    attached(arguments).down()
    say("everything is off")
    return 0


def status(arguments) -> int:
    bed = attached(arguments)
    for machine in (bed.control_plane, *bed.nodes):
        print(f"{machine.name:<14} {machine.host.address:<12} {state_of(machine)}")
        if machine.is_on() and not machine.group.frozen:
            for name, told in machine.ask("services").items():
                print(f"  {name:<24} {'pid ' + str(told['pid']) if told['pid'] else 'DOWN'}, started {told['starts']} times")
    if not bed.control_plane.is_on():
        return 1
    print(f"API server     {bed.control_plane.server}")
    for node in bed.client.list("nodes"):
        taints = ",".join(t["key"].split("/")[-1] + ":" + t["effect"] for t in node["spec"].get("taints") or [])
        info = node["status"]["nodeInfo"]
        print(f"  {node['metadata']['name']:<12} Ready={ready(node):<8} {info['kubeletVersion']}  boot {info['bootID'][:8]}  "
              f"{taints}".rstrip())
    return 0


def state_of(machine: Machine) -> str:
    if not machine.is_on():
        return "off"
    words = [f"on, boot {machine.boot_id[:8]}"]
    words += ["frozen"] if machine.group.frozen else []
    words += [] if machine.network.plugged(machine.host) else ["its cable is out"]
    return ", ".join(words)


# what is done to a node, as a method of Node
ACTS = {
    "off": ("power_off", "power off: every process on it is gone at once"),
    "boot": ("power_on", "power on"),
    "reboot": ("reboot", "power off and on again"),
    "cut": ("cable_out", "pull its cable"),
    "mend": ("cable_in", "put its cable back"),
    "freeze": ("freeze", "let every process on it stand still"),
    "thaw": ("thaw", "let them go on"),
}


def act(arguments) -> int:
    node = attached(arguments).node(arguments.node)
    getattr(node, ACTS[arguments.command][0])()
    say(f"{node.name}: {state_of(node)}")
    return 0


def serve(arguments) -> int:
    machine = any_machine(arguments)
    getattr(machine, arguments.command)(arguments.service)
    say(f"{machine.name}: {arguments.service} is {'killed' if arguments.command == 'kill' else 'started'}")
    return 0


def any_machine(arguments) -> Machine:
    bed = attached(arguments)
    return bed.control_plane if arguments.node == bed.control_plane.name else bed.node(arguments.node)


def inside(arguments) -> int:
    machine = any_machine(arguments)
    return subprocess.run(machine.inside(*arguments.words), env={**os.environ, **machine.environment}).returncode


def kubectl(arguments) -> int:
    bed = attached(arguments)
    return subprocess.run([bed.programs["kubectl"], "--kubeconfig", bed.control_plane.kubeconfig, *arguments.words],
                          env={k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}).returncode


def table(arguments) -> int:
    found = []
    for path in arguments.files:
        try:
            found += results.durations(json.loads(path.read_text()))
        except FileNotFoundError:
            raise Unfit([f"{path}: no such file; tests write it that run with {results.FILE}={path}"]) from None
        except ValueError as error:
            raise Unfit([f"{path}: is not a list of results ({error}); name a file that tests wrote"]) from None
    print(results.table(found))
    return 0


def parse(argv):
    parser = argparse.ArgumentParser(prog="machines", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", type=Path, default=REPO / "build" / "machines" / "hand",
                        help="folder with all state (default: build/machines/hand in the repository)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")

    def command(name, function, text, **more):
        sub = commands.add_parser(name, help=text, description=text, **more)
        sub.set_defaults(function=function)
        return sub

    sub = command("up", up, "start a cluster and print the path of its administrator's kubeconfig")
    sub.add_argument("nodes", type=int, nargs="?", default=3)
    sub.add_argument("--settings", choices=ALL, default=STOCK.name,
                     help="stock: Kubernetes' own timings, a dead node is NotReady after 40 to 55 s; fast: after 8 s")
    sub.add_argument("--name", default="", help="of the bed (default: made from its folder)")
    sub.add_argument("--port", type=int, default=0, help="of the API server on 127.0.0.1 (default: a free one)")
    command("down", down, "everything off")
    command("status", status, "what runs, and the nodes")
    for name, (_, text) in ACTS.items():
        command(name, act, text).add_argument("node", help="its number or name")
    for name, text in (("kill", "kill a service, which stays away"), ("start", "start a service that was killed")):
        sub = command(name, serve, text)
        sub.add_argument("node", help="its number or name, or control-plane")
        sub.add_argument("service")
    sub = command("in", inside, "run a command on a machine")
    sub.add_argument("node", help="its number or name, or control-plane")
    sub.add_argument("words", nargs=argparse.REMAINDER, metavar="CMD")
    command("kubectl", kubectl, "kubectl as administrator", add_help=False).add_argument(
        "words", nargs=argparse.REMAINDER, metavar="...")
    sub = command("results", table, "a table of how long failures took, from the files that tests wrote with "
                  f"{results.FILE}; needs no root")
    sub.add_argument("files", type=Path, nargs="+", metavar="FILE")
    return parser.parse_args(argv)


def main() -> int:
    arguments = parse(sys.argv[1:])
    try:
        return arguments.function(arguments)
    except Unfit as unfit:
        for line in unfit.lines:
            say(f"error: {line}")
    except (RuntimeError, ValueError, TimeoutError, OSError, ApiError) as error:
        say(f"error: {error}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
