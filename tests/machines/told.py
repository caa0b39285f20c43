"""What the replicas of moonfence in a bed logged, read from the disks of their machines: of a dead one, too."""

import re
from dataclasses import dataclass
from datetime import datetime

from cluster.bed import Bed
from e2e.installation import NAMESPACE

# as the container runtime wrote it down: when, which stream, whether the line ends there, the line
WRITTEN = re.compile(r"\S+ stderr F (\S+) +[A-Z]+ +(\w+) ?(.*)")
WORD = re.compile(r'(\w+)=("[^"]*"|\S+)')
UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


@dataclass(frozen=True)
class Told:
    """`pod`: the replica's uid; `at`: by the computer's clock; `words`: what the event is told with, node=node-1."""

    pod: str
    at: float
    event: str
    words: dict


def parse(pod: str, text: str) -> list:
    found = []
    for line in text.splitlines():
        match = WRITTEN.fullmatch(line)
        if match:
            at = datetime.fromisoformat(match[1].replace("Z", "+00:00")).timestamp()
            found.append(Told(pod, at, match[2], {name: word.strip('"') for name, word in WORD.findall(match[3])}))
    return found


def told(bed: Bed, since: float) -> list:
    """From that time on, in order."""
    files = [file for node in bed.nodes
             for file in (node.folder / "disk/var/log/pods").glob(f"{NAMESPACE}_*/*/*.log")]
    lines = [line for file in files for line in parse(file.parents[1].name.rsplit("_", 1)[1], file.read_text(errors="replace"))]
    return sorted((line for line in lines if line.at >= since), key=lambda line: line.at)


def seconds_of(duration: str) -> float:
    """4s17462644ns"""
    return sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([a-z]+)", duration))
