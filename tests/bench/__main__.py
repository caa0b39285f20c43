"""Runs the measurements named on the command line, all of them without names."""

import argparse
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional

from e2e.control_plane import REPO

from . import calls, ceiling, counted, decision, detection, failover, footprint, reaction, reload, report, verdict, volumes
from .machines import FarStage
from .stage import BINARY, Stage


@dataclass(frozen=True)
class Measurement:
    run: Callable           # gives a figures.Block
    options: tuple = ()     # of the command line, by name
    stage: Optional[dict] = None  # arguments of the control plane that it needs; None: it needs none
    kind: Callable = Stage  # of which kind that is


SHARED: dict = {}
ALONE = {"grace": footprint.GRACE}
FAR = {"grace": footprint.GRACE}
MEASUREMENTS = {
    "counted": Measurement(counted.measure),
    "decision": Measurement(decision.measure, ("rounds",)),
    "reaction": Measurement(reaction.measure, ("samples",), SHARED),
    "verdict": Measurement(verdict.measure, ("verdict_sizes", "rounds"), SHARED),
    "ceiling": Measurement(ceiling.measure, ("sizes", "rounds", "nodes"), SHARED),
    "needs": Measurement(volumes.needs, (), SHARED),
    "volumes": Measurement(volumes.measure, ("pods", "rounds"), SHARED),
    "calls": Measurement(calls.measure, ("call_sizes",), SHARED),
    "reload": Measurement(reload.measure, (), SHARED),
    "failover": Measurement(failover.measure, ("times", "slow_times"), SHARED),
    "footprint": Measurement(footprint.measure, ("crowd", "crowd_pods", "rounds", "seconds", "lease", "status"), ALONE),
    "detection": Measurement(detection.measure, ("far", "silent", "quiet", "lease", "status"), FAR, FarStage),
}
UNPAGED = {"detection"}  # docs/performance.md has no place for them: only by name
RENAMED = {"call_sizes": "sizes", "verdict_sizes": "sizes", "crowd": "nodes", "crowd_pods": "pods", "far": "nodes", "quiet": "seconds"}


def numbers(text: str) -> tuple:
    return tuple(int(word) for word in text.split(",") if word)


def read_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="MEASUREMENT",
                        help=f"of: {' '.join(MEASUREMENTS)}; or all (the default; without {', '.join(UNPAGED)}), or report")
    parser.add_argument("--keep", action="store_true", help="write what is found into docs/ even if not all is measured")
    parser.add_argument("--check", action="store_true", help="of counted: hold it against the limits, and fail")
    parser.add_argument("--accept", action="store_true", help="of counted: what is found becomes the limits")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the engine and what it is compared with (default: 3)")
    parser.add_argument("--samples", type=int, default=100, help="of the reaction (default: 100)")
    parser.add_argument("--verdict-sizes", type=numbers, default=(1, 100, 400, 1000),
                        help="pods of the verdict (default: 1,100,400,1000)")
    parser.add_argument("--sizes", type=numbers, default=(1, 10, 100, 400, 1000),
                        help="pods of the ceiling (default: 1,10,100,400,1000)")
    parser.add_argument("--nodes", type=numbers, default=(50, 10, 120),
                        help="of the storm: failing, pods on each, all (default: 50,10,120)")
    parser.add_argument("--times", type=int, default=20, help="failovers with release (default: 20)")
    parser.add_argument("--slow-times", type=int, default=4, help="failovers without release (default: 4)")
    parser.add_argument("--pods", type=int, default=400, help="of the volumes (default: 400)")
    parser.add_argument("--call-sizes", type=numbers, default=(10, 100, 400), help="pods of the calls (default: 10,100,400)")
    parser.add_argument("--crowd", type=numbers, default=(500, 2000, 5000), help="nodes of the footprint (default: 500,2000,5000)")
    parser.add_argument("--crowd-pods", type=numbers, default=(30000,), help="pods beside the most nodes (default: 30000)")
    parser.add_argument("--seconds", type=float, default=120, help="over which CPU is measured (default: 120)")
    parser.add_argument("--far", type=int, default=5000, help="nodes of the detection (default: 5000)")
    parser.add_argument("--silent", type=int, default=500, help="of which so many fall silent (default: 500)")
    parser.add_argument("--quiet", type=float, default=60, help="seconds of its quiet (default: 60)")
    parser.add_argument("--lease", type=float, default=10,
                        help="seconds between two renewals of a node's Lease, 0: none (default: 10)")
    parser.add_argument("--status", type=float, default=300, help="seconds between two statuses of a node (default: 300)")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {*MEASUREMENTS, "all", "report"}
    if unknown:
        parser.error(f"unknown: {' '.join(sorted(unknown))}; known: {' '.join([*MEASUREMENTS, 'all', 'report'])}")
    return arguments


def run(names: list, arguments, keep: bool):
    """One after the other; those that can share a control plane do, and one that fails does not end the others."""
    failed = []
    for wanted in (None, SHARED, ALONE, FAR):
        group = [name for name in names if MEASUREMENTS[name].stage is wanted]
        if group and wanted is None:
            failed += run_group(group, None, arguments, keep)
        elif group:
            failed += staged(group, wanted, arguments, keep)
    if keep:
        report.write()
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def staged(group: list, options: dict, arguments, keep: bool) -> list:
    if not BINARY.exists():
        sys.exit(f"{BINARY} does not exist; scripts/bench builds it")
    base = REPO / "build" / "bench"
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="stage-", dir=base))
    try:
        with MEASUREMENTS[group[0]].kind(folder, **options) as stage:
            return run_group(group, stage, arguments, keep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_group(group: list, stage: Optional[Stage], arguments, keep: bool) -> list:
    kubernetes = ".".join(map(str, stage.control_plane.version)) if stage else ""
    failed = []
    for name in group:
        measurement = MEASUREMENTS[name]
        where = report.machine(kubernetes)
        options = {RENAMED.get(o, o): getattr(arguments, o) for o in measurement.options}
        try:
            block = measurement.run(*([stage] if stage else []), **options)
        except (RuntimeError, TimeoutError, OSError, AssertionError) as error:
            print(f"{name} failed: {error}", flush=True)
            failed.append(name)
            continue
        print(f"{block.text()}\n  {name}: {where}", flush=True)
        if keep:
            report.keep(name, block, where)
    return failed


def main():
    arguments = read_arguments()
    if arguments.keep and UNPAGED & set(arguments.names):
        sys.exit(f"docs/performance.md has no place for {', '.join(UNPAGED)}")
    if arguments.check or arguments.accept:
        sys.exit(0 if counted.check(arguments.accept) else 1)
    if arguments.names == ["report"]:
        report.write()
        return
    everything = not arguments.names or "all" in arguments.names
    names = [name for name in MEASUREMENTS if name not in UNPAGED] if everything else arguments.names
    run(names, arguments, arguments.keep or everything)


main()
