"""Faults at random moments on a real control plane with stand-in nodes, many times over.

A round: a node fails, its pods are to be replaced elsewhere, and beside that something breaks at a moment drawn by the
seed. Right is: the pods are gone and replaced once, their attachments are gone, and nothing else was deleted, by the
state of the cluster and by the API server's audit log.
"""

import argparse
import random
import signal
import sys
import time

from e2e.cluster import running_cluster

from .network import permitted
from .program import FLAGS, GRACE, HEAD, KINDS, PENDING, chosen, play, say


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=20, metavar="N", help="rounds of each kind (default: 20)")
    parser.add_argument("--only", nargs="+", default=[], metavar="KIND",
                        help=f"of: {' '.join(KINDS)}; not yet right, and left out when none is named: "
                        f"{' '.join(PENDING)}")
    parser.add_argument("--seed", default=str(random.SystemRandom().randrange(10**6)),
                        help="draws the moments (default: another each time)")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a setting of the engines' configuration, for example release=on; may be repeated")
    arguments = parser.parse_args()
    kinds = chosen(arguments.only)
    settings = dict(pair.split("=", 1) for pair in arguments.set)
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    results, began = [], time.monotonic()
    with running_cluster("chaos", GRACE, controller_flags=FLAGS) as cluster:
        version = ".".join(map(str, cluster.control_plane.version))
        say(f"seed {arguments.seed}, Kubernetes {version}, stand-in kubelets; the network of the engines: "
            f"{'namespaces' if permitted() else 'a proxy (no network namespaces here)'}")
        for kind in kinds:
            results.append(play(cluster, kind, arguments.times, arguments.seed, settings))
            say(f"{HEAD}\n{results[-1].row()}")
        for name, words in cluster.control_plane.crashed:
            say(f"{name} crashed and was started again: {words}")
    say(f"\nseed {arguments.seed}, {(time.monotonic() - began) / 60:.0f} minutes\n{HEAD}")
    for result in results:
        say(result.row())
    right, wrong = sum(len(r.seconds) for r in results), sum(r.wrong for r in results)
    say(f"{right} passed, {wrong} failed")
    return 1 if wrong or not right else 0


try:
    sys.exit(main())
except KeyboardInterrupt:
    sys.exit("chaos: interrupted")
