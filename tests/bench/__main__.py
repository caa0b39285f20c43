"""Runs the measurements named on the command line, all of them without names."""

import argparse
import os
import platform
import shutil
import tempfile
from pathlib import Path

from e2e.control_plane import REPO

from . import ceiling, failover, footprint, reaction, reload
from .stage import BINARY, Stage

MEASUREMENTS = {"reaction": reaction.measure, "ceiling": ceiling.measure, "footprint": footprint.measure,
                "reload": reload.measure, "failover": failover.measure}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MEASUREMENT",
                        help=f"of: {' '.join(MEASUREMENTS)} (default: all)")
    parser.add_argument("--samples", type=int, default=100, help="of the reaction (default: 100)")
    parser.add_argument("--times", type=int, default=20, help="failovers with release (default: 20)")
    parser.add_argument("--slow-times", type=int, default=10, help="failovers without release (default: 10)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(MEASUREMENTS)
    if unknown:
        parser.error(f"unknown: {' '.join(sorted(unknown))}; known: {' '.join(MEASUREMENTS)}")
    if not BINARY.exists():
        parser.error(f"{BINARY} does not exist; scripts/bench builds it")
    more = {"reaction": {"samples": arguments.samples},
            "failover": {"times": arguments.times, "slow_times": arguments.slow_times}}
    base = REPO / "build" / "bench"
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="stage-", dir=base))
    try:
        with Stage(folder) as stage:
            print(f"Kubernetes {'.'.join(str(n) for n in stage.control_plane.version)}, {os.cpu_count()} cores, "
                  f"{platform.machine()}, stand-in kubelets")
            for name in arguments.names or MEASUREMENTS:
                MEASUREMENTS[name](stage, **more.get(name, {}))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


main()
