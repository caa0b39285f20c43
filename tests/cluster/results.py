"""How long each failure took: the file of results, and the table that is made of it.

    scripts/machines results FILE...

A result is one story: seconds from the failure to the first NotReady of the node, to the first deletion of a pod, and
until each of its workloads was Ready elsewhere; `volumes` are those with one. `two_writers` is for how long two pods wrote to
a volume, as far as its lines show; none when they never did. Nothing asserts any of it.
"""

import fcntl
import json
import os
from pathlib import Path
from statistics import median

FILE = "MOONFENCE_MACHINE_RESULTS"
JOB = "once"  # its replacement waits for the Job controller's own ten seconds
HEAD = ("failure", "n", "NotReady", "first deletion", "elsewhere, no volume", "elsewhere, with a volume", "the Job",
        "two writers, storage that does not fence")
NONE = "–"


def keep(result: dict):
    """Adds a result to the file MOONFENCE_MACHINE_RESULTS, a JSON list, if there is one; other runs may do the same."""
    if FILE not in os.environ:
        return
    path = Path(os.environ[FILE])
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps([*read(path), result], indent=1) + "\n")
        fresh.replace(path)


def read(path: Path) -> list:
    return json.loads(Path(path).read_text()) if Path(path).exists() else []


def durations(told) -> list:
    """Those of a file's results that are failures; stories of other things keep other results. Raises ValueError."""
    needed = {"failure", "settings", "kubernetes", "volumes", "not_ready", "first_deletion", "running_elsewhere",
              "two_writers"}
    if not isinstance(told, list):
        raise ValueError("it is no list")
    found = [each for each in told if isinstance(each, dict) and needed <= set(each)]
    if not found:
        raise ValueError("none in it has the durations of a failure")
    return found


def table(results: list) -> str:
    """In Markdown: one row for each failure, median (worst), in the order in which they first come; other settings and another
    Kubernetes have a table of their own."""
    groups: dict = {}
    for each in results:
        groups.setdefault((each["kubernetes"], each["settings"], each["failure"]), []).append(each)
    parts, before = [], None
    for (kubernetes, settings, failure), group in sorted(groups.items(), key=lambda item: item[0][:2]):
        if (kubernetes, settings) != before:
            before = kubernetes, settings
            parts += ["", f"Kubernetes {kubernetes}, settings `{settings}`:", "", row(HEAD), row(["---"] * len(HEAD))]
        parts.append(row([failure, len(group), *cells(group)]))
    return "\n".join(parts[1:])


def row(words) -> str:
    return "| " + " | ".join(map(str, words)) + " |"


def cells(group: list) -> list:
    return [told([each["not_ready"] for each in group]), told([each["first_deletion"] for each in group]),
            told([last(each, lambda name, each=each: name != JOB and name not in each["volumes"]) for each in group]),
            told([last(each, lambda name, each=each: name in each["volumes"]) for each in group]),
            told([last(each, lambda name: name == JOB) for each in group]),
            told([max((s for s in each["two_writers"].values() if s is not None), default=None) for each in group])]


def last(result: dict, chosen):
    """When the last of these workloads was Ready elsewhere."""
    return max((s for name, s in result["running_elsewhere"].items() if chosen(name)), default=None)


def told(values: list) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NONE
    part = "" if len(known) == len(values) else f", {len(known)} of {len(values)}"
    return f"{median(known):.1f} ({max(known):.1f}){part}"
