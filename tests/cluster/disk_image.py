"""Reads the image of a volume of storage/csi-driver: its log, and what fsck says.

    python3 -m cluster.disk_image IMAGE [OUTPUT...]     judges an image and the outputs of its writers

Works on a copy, as the next node would find it: first the journal is played back. The volume should be detached, or its
writers stopped; the copy of an image that is written to meanwhile is of no one moment.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from .checker import Report, judge

FAILED = 8  # e2fsck's exit status from which on it could not do its work


def _run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace")


def _insist(*command) -> str:
    done = _run(*command)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit status {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def read(image: Path, name: str = "log") -> tuple:
    """The file `name` of the volume, "" if there is none, and fsck's words."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder, "disk.img")
        _insist("cp", "--sparse=always", image, copied)
        _run("e2fsck", "-y", "-E", "journal_only", copied)
        checked = _run("e2fsck", "-fn", copied)
        said = checked.stdout
        if checked.returncode >= FAILED:
            said += f"\ne2fsck ended with {checked.returncode}: {checked.stderr.strip()}\n"
        return _run("debugfs", "-R", f"cat /{name}", copied).stdout, said + _counted_errors(copied)


def _counted_errors(image: Path) -> str:
    """Errors that a kernel met while the file system was mounted stand in the superblock."""
    for line in _run("dumpe2fs", "-h", image).stdout.splitlines():
        if line.startswith("FS Error count:"):
            return f"{line}\n"
    return ""


def check(image: Path, outputs=()) -> Report:
    disk, fsck = read(image)
    return judge(disk, outputs, fsck)


def main() -> int:
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    for name in sys.argv[1:]:
        if not Path(name).is_file():
            print(f"disk_image: {name}: no such file", file=sys.stderr)
            return 2
    report = check(Path(sys.argv[1]), [Path(name).read_text(errors="replace") for name in sys.argv[2:]])
    print(report)
    return 0 if report.whole and not report.overlaps else 1


if __name__ == "__main__":
    sys.exit(main())
