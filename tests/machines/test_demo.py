"""`scripts/run --real`, what newcomers see: it works, and leaves nothing behind however it ends."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Callable

import pytest

from cluster import leftover, network, registry
from e2e.control_plane import REPO
from e2e.engine import binary
from e2e.kube import wait_for
from e2e.processes import worker

from .conftest import BEDS

# One at a time: each has one or two beds of its own beside those of the session.
pytestmark = pytest.mark.xdist_group("more beds")


_places = itertools.count()


@pytest.fixture
def place():
    """Each test's own: what one leaves there, the logs of a demo that failed, is nothing to the next one."""
    folder = BEDS / f"demo-{worker()}-{next(_places)}"
    folder.mkdir(parents=True, exist_ok=True)
    yield folder


@pytest.fixture
def demo(place):
    env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
    demo = subprocess.Popen(["/usr/bin/python3", "-m", "machines.demo", "--binary", binary(), "--dir", place], env=env,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    yield demo
    if demo.poll() is None:  # the test failed
        demo.terminate()
    demo.communicate(timeout=180)
    with contextlib.suppress(OSError):
        place.rmdir()


def wait_while_it_runs(demo: subprocess.Popen, what: str, condition: Callable):
    """What a demo that has ended will never show need not be waited for: it says why it ended."""
    def seen():
        found = condition()
        assert found or demo.poll() is None, f"it ended with {demo.returncode}: {demo.communicate(timeout=180)[0]}"
        return found
    return wait_for(what, seen, 180)


def beds_of(place: Path) -> set:
    """The beds that were started below the folder."""
    return {entry.stem for entry in registry.FOLDER.glob("*.json") if str(place) in entry.read_text()}


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


def nothing_is_left(place: Path, beds: set) -> bool:
    return not mentioning(place) and not list(place.iterdir()) and not beds_of(place) and not any(
        network.namespaces(bed) or leftover.groups_of(bed) for bed in beds)


def test_the_demo_shows_a_failover_beside_kubernetes_alone_and_leaves_nothing(place, demo):
    beds = wait_while_it_runs(demo, "two beds are up", lambda: found if len(found := beds_of(place)) == 2 else None)
    output, _ = demo.communicate(timeout=600)
    assert demo.returncode == 0, output
    assert re.search(r"moonfence  deleted noobaa/noobaa-core-0\n", output), output
    table = output.split("Kubernetes alone\n")[1]
    rows = dict(re.findall(r"^  noobaa/(\S+) +(.*\S)$", table, re.M))
    assert len(rows) == 4 and all(row.endswith("still on node-1") for row in rows.values()), output
    assert re.fullmatch(r"\d+\.\d s, on node-[23] +still on node-1", rows["noobaa-core-0"]), output
    assert rows["noobaa-db-pg-0"].startswith("left alone"), output
    wait_for("nothing is left", lambda: nothing_is_left(place, beds), 30)


@pytest.mark.parametrize("number, side, program", [
    pytest.param(signal.SIGTERM, "with", "kube-apiserver", id="while-the-first-cluster-starts"),
    pytest.param(signal.SIGINT, "without", "kubelet", id="while-both-run")])
def test_an_interrupted_demo_leaves_nothing(place, demo, number, side, program):
    def runs(words: str) -> bool:
        return words.split()[0].endswith(f"/{program}") and f"/{side}/" in words
    wait_while_it_runs(demo, f"{program} runs {side} moonfence", lambda: any(map(runs, mentioning(place))))
    beds = beds_of(place)
    assert beds
    demo.send_signal(number)
    output, _ = demo.communicate(timeout=180)
    assert demo.returncode == 128 + number, output
    # what was being started when the signal came ends with the demo, by the kernel's hand
    wait_for("nothing is left", lambda: nothing_is_left(place, beds), 30)


def test_a_computer_on_which_it_cannot_run_is_told_so_in_one_line_before_anything_is_built():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as place:  # machines cannot be below /var
        scripts = Path(place, "scripts")
        scripts.mkdir()
        Path(place, "tests").symlink_to(REPO / "tests")
        shutil.copy(REPO / "scripts" / "run", scripts)
        (scripts / "setup").write_text("#!/bin/sh\n")
        (scripts / "setup").chmod(0o755)
        (scripts / "lib.sh").write_text((REPO / "scripts" / "lib.sh").read_text() + "build() { touch built; }\n")
        done = subprocess.run([scripts / "run", "--real"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 1 and not done.stdout
        refusal, other = done.stderr.splitlines()
        assert refusal.startswith(f"machines: {place}/build: is below /var") and "scripts/run without --real" in other
        assert not Path(place, "built").exists() and not Path(place, "build").exists()
