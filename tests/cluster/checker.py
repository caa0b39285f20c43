"""Judges what the writers of a volume (storage/writer) left behind: were there ever two at a time, is what they were
promised on the disk, is the file system whole?

A pure function of texts, judge(), so it is tested without a cluster; disk_image.py reads the texts from an image.

The disk alone does not tell: when two machines have one ext4 mounted, each overwrites what the other has written, and
the lines of one of them may be gone. So the lines that writers called durable count as much as those on the disk.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import combinations
from typing import Iterable, NamedTuple

NANOSECONDS = 10**9

_WORDS = r"(\d+) (\d+)\.(\d{9}) (\S+) (\S+) ([^\s\"]+)"
LINE = re.compile(_WORDS + "(?: (found .*))?")
FOUND = re.compile(r'found \d+ lines, last "' + _WORDS)
# what a writer prints; in a container's log it stands behind the runtime's own words
DURABLE = re.compile(r"(?:^|\s)durable \d+\.\d{9} (.*)")


class Writer(NamedTuple):
    node: str
    boot: str
    pod: str

    def __str__(self):
        return f"pod {self.pod} on {self.node} (boot {self.boot})"


@dataclass(frozen=True)
class Line:
    """`time` is nanoseconds of the monotonic clock before the line was written. The time when it was called durable
    proves nothing: a machine may have been frozen between the write and the look at the clock."""

    number: int
    time: int
    writer: Writer
    text: str = field(compare=False)
    found: "Line | None" = field(default=None, compare=False)  # of a line 0: the last line before it

    @staticmethod
    def parse(text: str) -> "Line | None":
        match = LINE.fullmatch(text)
        if not match:
            return None
        before = FOUND.match(match[7] or "")
        return Line.of(match, text, Line.of(before, before[0]) if before else None)

    @staticmethod
    def of(match: re.Match, text: str, found: "Line | None" = None) -> "Line":
        number, seconds, rest, node, boot, pod = match.groups()[:6]
        return Line(int(number), int(seconds) * NANOSECONDS + int(rest), Writer(node, boot, pod), text, found)


@dataclass
class Life:
    """A writer from its line 0 on, in the order of its numbers. Every line is durable or on the disk."""

    lines: list
    places: list  # in the file, of those on the disk
    numbers: list  # of those on the disk

    @property
    def writer(self) -> Writer:
        return self.lines[0].writer

    @property
    def begin(self) -> int:
        return self.lines[0].time

    @property
    def end(self) -> int:
        """It wrote until then at least."""
        return self.lines[-1].time


@dataclass(frozen=True)
class Overlap:
    """Both wrote for `seconds` at least. 0: one wrote a single time after the other had begun, as with a write that was
    pending in a frozen machine."""

    one: Writer
    other: Writer
    seconds: float

    def __str__(self):
        return f"two writers for at least {self.seconds:.3f} s: {self.one} and {self.other}"


@dataclass(frozen=True)
class Gap:
    """On the disk, line `after` of a writer is followed by `before`."""

    writer: Writer
    after: int
    before: int

    def __str__(self):
        return f"lines {self.after + 1} to {self.before - 1} of {self.writer} are not on the disk, later ones are"


@dataclass
class Report:
    overlaps: list = field(default_factory=list)
    lost: list = field(default_factory=list)  # lines that were called durable and are not on the disk
    gaps: list = field(default_factory=list)
    damaged: list = field(default_factory=list)  # what stands in the file and is no line, or one for the second time
    file_system: list = field(default_factory=list)  # what fsck complains of
    writers: list = field(default_factory=list)  # in the order of their first lines

    @property
    def whole(self) -> bool:
        """Nothing was lost or damaged; there may have been two writers."""
        return not (self.lost or self.gaps or self.damaged or self.file_system)

    def __str__(self):
        said = [str(each) for each in (*self.overlaps, *self.gaps)]
        said += [f"durable, but not on the disk: {line}" for line in self.lost]
        said += [f"damaged: {text!r}" for text in self.damaged]
        said += [f"file system: {text}" for text in self.file_system]
        return "\n".join(said) or f"{len(self.writers)} writers, one after the other; nothing lost"


def judge(disk: str, outputs: Iterable[str] = (), fsck: str = "") -> Report:
    """`disk` is the volume's log; `outputs` are what the writers said, in their witnesses or their containers' logs;
    `fsck` is what `e2fsck -fn` says."""
    report = Report(file_system=fsck_errors(fsck))
    places = _read_disk(disk, report)
    durable = _read_outputs(outputs)
    lives = _lives(places, durable)
    report.writers = [life.writer for life in lives]
    report.lost = [line.text for line in sorted(durable - places.keys(), key=lambda line: line.time)]
    report.overlaps = [overlap for one, other in combinations(lives, 2) if (overlap := _overlap(one, other))]
    report.gaps = [gap for life in lives for gap in _gaps(life)]
    return report


def _read_disk(disk: str, report: Report) -> dict:
    """The lines and their places in the file."""
    places = {}
    for place, text in enumerate(disk.splitlines()):
        line = Line.parse(text)
        if line is None or line in places:
            report.damaged.append(text)
        else:
            places[line] = place
    return places


def _read_outputs(outputs: Iterable[str]) -> set:
    """The lines that were called durable. The last one of a killed process may be cut."""
    said = (match[1] for text in outputs for match in map(DURABLE.search, text.splitlines()) if match)
    return {line for line in map(Line.parse, said) if line}


def _lives(places: dict, durable: set) -> list:
    """A container that is started again is the same writer, and counts from 0 again. In the order of their begins."""
    by_writer = defaultdict(list)
    for line in sorted(places.keys() | durable, key=lambda line: line.time):
        lives = by_writer[line.writer]
        if not lives or line.number <= lives[-1][-1].number:
            lives.append([])
        lives[-1].append(line)
    found = []
    for lines in (lines for lives in by_writer.values() for lines in lives):
        kept = [line for line in lines if line in places]
        found.append(Life(lines, [places[line] for line in kept], [line.number for line in kept]))
    return sorted(found, key=lambda life: life.begin)


def _overlap(one: Life, other: Life) -> "Overlap | None":
    """`one` began first. It wrote after the other's begin if it says so, if its line stands behind one of the other's,
    or if it has a line that the other did not find when it began."""
    later = one.end > other.begin
    mixed = one.places and other.places and max(one.places) > min(other.places)
    found = other.lines[0].found
    unseen = found in one.lines and found != one.lines[-1]
    if not (later or mixed or unseen):
        return None
    return Overlap(one.writer, other.writer, max(0, min(one.end, other.end) - other.begin) / NANOSECONDS)


def _gaps(life: Life) -> list:
    before = [-1, *life.numbers[:-1]]
    return [Gap(life.writer, last, number) for last, number in zip(before, life.numbers) if number != last + 1]


# What e2fsck says when all is well. The sums of free blocks and inodes in the superblock are not kept up to date while
# a file system is mounted; those of a group ("for group #1") are.
_ROUTINE = re.compile(
    r"e2fsck \d.*|Pass \d.*|(Fix|Clear|Connect to /lost\+found|Salvage|Recreate|Ignore error)\? no|"
    r".*: recovering journal|"
    r"Free (blocks|inodes) count wrong \(\d+, counted=\d+\)\.|.*: \d+/\d+ files .*|"
    r".*: \*\*\*\*\* FILE SYSTEM WAS MODIFIED \*\*\*\*\*")


def fsck_errors(output: str) -> list:
    lines = (line.strip() for line in output.splitlines())
    return [line for line in lines if line and not _ROUTINE.fullmatch(line)]
