"""Python packages that the tests need and Debian lacks. They are pinned by their hashes, fetched once, and kept beside the
programs of programs.py; what they need themselves is Debian's (scripts/setup)."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import programs

SUSHY_TOOLS = programs.MODULES / "sushy-tools" / "requirements.txt"


def installed(requirements: Path) -> Path:
    """The folder for PYTHONPATH."""
    told = f"{requirements.read_text()} {sys.version_info[:2]}"
    name = requirements.parent.name
    folder = programs.cache_root() / f"{name}-{hashlib.sha256(told.encode()).hexdigest()[:16]}"
    if not folder.is_dir():
        with programs.the_only_one():
            if not folder.is_dir():
                programs.sweep()
                _install(requirements, folder)
    with contextlib.suppress(OSError):  # the cache may be somebody else's
        os.utime(folder)  # when it was used last
    return folder


def _install(requirements: Path, folder: Path):
    """Beside its place, and into it in one step. The lock is held."""
    work = Path(tempfile.mkdtemp(prefix="building.", dir=programs.cache_root()))
    try:
        work.chmod(0o755)
        done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
                               "--only-binary", ":all:", "--require-hashes", "--target", work, "--requirement", requirements],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise programs.Failure(f"pip cannot fetch {requirements}: {done.stderr.strip()[-2000:]}")
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
