"""Work that is counted and not timed, held against tests/bench/limits.json: what `scripts/check --full` looks at.

Instructions come from callgrind, allocations from a counting operator new, API calls from a simulated cluster; all of them
are the same on every run of the same build. Another compiler gives other instructions, hence their margin. More than a
limit fails; whoever makes something cheaper lowers its limit with `scripts/bench counted --accept`.
"""

import json
import re
import subprocess

from e2e.control_plane import REPO

from .figures import Block, Table

PROGRAM = REPO / "build/bench/counted_bench"
LIMITS = REPO / "tests/bench/limits.json"
TIMES = 50
MARGINS = {"instructions": 0.05, "allocations": 0, "calls": 0}
GOALS = {"allocations/heartbeat": 0}


def instructions(*what: str) -> float:
    """Of one, from a run of TIMES."""
    done = subprocess.run(["/usr/bin/valgrind", "--tool=callgrind", "--collect-atstart=no", "--callgrind-out-file=/dev/null",
                           str(PROGRAM), *what, str(TIMES)], capture_output=True, text=True, timeout=120)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        raise RuntimeError(f"callgrind of {what}: {done.stderr[-2000:]}")
    return round(int(found.group(1)) / TIMES)


def asked(*what: str) -> dict:
    return json.loads(subprocess.run([str(PROGRAM), *what], capture_output=True, text=True, check=True, timeout=120).stdout)


def count() -> dict:
    """{"instructions/heartbeat": n, …}"""
    allocations = asked("allocations", "200")
    found = {f"allocations/{name}": value for name, value in allocations.items()}
    for name in allocations:
        kind, _, policy = name.partition("/")
        found[f"instructions/{name}"] = instructions(f"{kind}s", *([policy] if policy else []))
    for name, calls in asked("calls").items():
        found[f"calls/{name} pods"] = calls["all"]
    return dict(sorted(found.items()))


def limit_of(name: str, measured: float) -> float:
    return measured * (1 + MARGINS[name.partition("/")[0]])


def check(accept: bool = False) -> bool:
    """Prints a table; False when something costs more than it may."""
    found = count()
    known = json.loads(LIMITS.read_text()) if LIMITS.exists() else {}
    if accept:
        LIMITS.write_text(json.dumps(found, indent=1) + "\n")
        known = found
    rows, good = [], True
    for name, value in found.items():
        may = limit_of(name, known[name]) if name in known else None
        verdict = ("no limit" if may is None else "TOO MUCH" if value > may else
                   "less: --accept" if value < 0.95 * known[name] else "ok")
        good = good and may is not None and value <= may
        rows.append([name, f"{value:,.10g}", "" if may is None else f"{may:,.10g}", GOALS.get(name, ""), verdict])
    print(Table(["counted", "now", "at most", "goal", ""], rows).text(), flush=True)
    gone = set(known) - set(found)
    if gone:
        print(f"no longer counted: {', '.join(sorted(gone))}")
    return good and not gone


def measure() -> Block:
    found = count()
    rows = [[name, f"{value:,.10g}", GOALS.get(name, "")] for name, value in found.items()]
    how = (f"Instructions by callgrind, mean of {TIMES}; allocations by a counting `operator new`; API calls of an incident "
           "in a simulated "
           "cluster, until nothing more is looked at, with one replica, without watches and heartbeats. A heartbeat is the "
           "bytes of a watch event of a node "
           "with 50 images and 10 conditions, from the wire to the cache. `scripts/check --full` holds them against "
           "tests/bench/limits.json.")
    return Block(how, [Table(["", "counted", "goal"], rows)], [], found)
