"""What newcomers see first: it works, and leaves nothing behind however it ends."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .control_plane import REPO
from .kube import wait_for

BINARY = os.environ.get("MOONFENCE_BINARY") or REPO / "build" / "release" / "moonfence"


def start(tmp_path: Path) -> subprocess.Popen:
    env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
    return subprocess.Popen(["/usr/bin/python3", "-m", "e2e.demo", "--binary", str(BINARY), "--dir", str(tmp_path)],
                            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            start_new_session=True)


def mentioning(folder: Path) -> list:
    """Command lines of living processes that name the folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words:
            found.append(words)
    return found


def test_the_demo_shows_a_failover_and_leaves_nothing(tmp_path):
    demo = start(tmp_path)
    output, _ = demo.communicate(timeout=240)
    assert demo.returncode == 0, output
    assert "marks node-" in output and "moonfence deletes noobaa-core-" in output and "is Running on" in output
    assert mentioning(tmp_path) == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_demo_leaves_nothing(tmp_path, number):
    demo = start(tmp_path)
    end = time.monotonic() + 60
    while not any("kube-scheduler" in words for words in mentioning(tmp_path)) and time.monotonic() < end:
        time.sleep(0.1)
    demo.send_signal(number)
    output, _ = demo.communicate(timeout=60)
    assert demo.returncode == 128 + number, output
    # what was being started when the signal came ends with the demo, by the kernel's hand
    wait_for("nothing is left", lambda: mentioning(tmp_path) == [], 30)
    assert list(tmp_path.iterdir()) == []
