"""Files of lines that another process is writing: a log, the record, an audit log.

The kernel shows a long write page by page, so at any moment the last line may be there by half, cut within a letter.
"""

from pathlib import Path

FAR = 1 << 20  # bytes from the end in which a line begins


def next_line(path: Path) -> int:
    """Where the first line begins that is not yet there as a whole. Unlike the file's size, never within a line."""
    if not path.exists():
        return 0
    with open(path, "rb") as file:
        begin = max(path.stat().st_size - FAR, 0)
        file.seek(begin)
        return begin + file.read().rfind(b"\n") + 1


def whole_lines(path: Path, offset: int = 0) -> list:
    """The whole lines from an offset on that next_line() gave; none of a file that is not there."""
    if not path.exists():
        return []
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read()
    # split at the end of line alone: splitlines() knows others (U+0085), which are written as they are
    return [line.decode(errors="replace") for line in data[:data.rfind(b"\n") + 1].split(b"\n") if line]
