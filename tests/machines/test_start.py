"""How a bed starts and ends: beside others, after a run that was killed, and on what it cannot use."""

import os
import shutil
import socket
import subprocess
import sys

import pytest

from cluster import inotify, leftover, needs, registry
from cluster.bed import Bed
from cluster.machine import Service
from cluster.needs import Unfit
from cluster.settings import FAST
from e2e.control_plane import REPO
from e2e.kube import wait_for
from e2e.processes import Processes, living, start_times, worker

from .conftest import BEDS

# One at a time: each has one or two beds of its own beside those of the session.
pytestmark = pytest.mark.xdist_group("more beds")

# what a test run does until it is killed: a pod writes to a volume
RUN = """
import sys, time
from cluster import volumes
from cluster.bed_with_volumes import BedWithVolumes
from cluster.settings import FAST
from e2e.kube import wait_for
from e2e.workloads import is_ready
bed = BedWithVolumes(sys.argv[1], settings=FAST).up(1)
bed.san.create("v", volumes.BOOKKEEPING)
bed.client.create("persistentvolumes", volumes.persistent_volume("v", volumes.BOOKKEEPING, "data-db-0"))
bed.client.create("statefulsets", volumes.writers("db", volumes.BOOKKEEPING))
wait_for("a pod writes", lambda: is_ready(bed.client.find("pods", "db-0", "default")), 180)
print(bed.name, flush=True)
time.sleep(3600)
"""


@pytest.fixture
def folder():
    """Of a second bed, beside the one of the session."""
    place = BEDS / f"second-{worker()}"
    yield place
    if (place / "bed.json").exists():
        Bed.attach(place).down()


def left(name: str, folder) -> list:
    return leftover.found(name, folder, Processes(folder))


def test_two_beds_live_side_by_side_and_the_end_of_one_leaves_the_other_alone(whole, folder):
    with Bed(folder, settings=FAST).up(1) as second:
        assert second.node(1).boot_id != whole.node(1).boot_id
        assert len(second.client.list("nodes")) == 1 and len(whole.client.list("nodes")) == 3
        second.node(1).power_off()
    assert left(second.name, folder) == []
    assert all(node.is_on() for node in whole.nodes)
    whole.wait_ready()


def test_the_next_start_takes_away_what_a_killed_run_left(folder):
    run = subprocess.Popen([sys.executable, "-B", "-c", RUN, folder], stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": str(REPO / "tests")})
    try:
        name = run.stdout.readline().strip()
        bed = Bed.attach(folder)
        old = start_times(bed.node(1).group.processes())
        # The worst of it: what is frozen does not die with the run, and keeps its volume mounted.
        bed.node(1).freeze()
    finally:
        run.kill()
        run.wait()
    # the storage's way to the volume, and the node's own device above it
    assert len(leftover.loops_of(folder)) == 2
    kinds = {" ".join(words.split()[:2]) for words in left(name, folder)}
    assert {"control group", "network namespace", "loop device"} <= kinds
    with Bed(folder, settings=FAST).up(0) as again:
        assert not living(old)
        assert not [words for words in left(name, folder) if "node-1" in words or "loop" in words]
        assert again.client.list("nodes") == []
    assert left(name, folder) == []


def test_a_start_elsewhere_takes_away_what_a_killed_run_and_its_checkout_left(folder):
    gone = BEDS / f"gone-{worker()}"
    run = subprocess.Popen([sys.executable, "-B", "-c", RUN, gone], stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": str(REPO / "tests")})
    try:
        name = run.stdout.readline().strip()
        old = start_times(Bed.attach(gone).node(1).group.processes())
        Bed.attach(gone).node(1).freeze()
    finally:
        run.kill()
        run.wait()
    shutil.rmtree(gone, ignore_errors=True)
    assert len(leftover.loops_of(gone)) == 2 and old
    with Bed(folder, settings=FAST).up(0):
        assert left(name, gone) == [] and not living(old)
    assert not list(registry.FOLDER.glob(f"{name}.json"))


def test_etcd_goes_back_to_its_snapshot(folder):
    with Bed(folder, settings=FAST).up(0) as bed:
        kept = bed.control_plane.snapshot()
        bed.client.create("configmaps", {"metadata": {"name": "later"}}, "default")
        bed.control_plane.restore(kept)
        assert bed.client.find("configmaps", "later", "default") is None
        assert bed.client.find("serviceaccounts", "default", "default")


def test_a_node_can_have_a_service_of_a_tests_own(folder):
    def extra(_):
        return [Service("beside", ("sleep", "1000000"))]
    with Bed(folder, settings=FAST, extra_services=extra).up(1) as bed:
        for machine in (bed.control_plane, bed.node(1)):
            wait_for("it runs", lambda machine=machine: machine.service("beside")["pid"], 60)


# --- what cannot be used

def test_a_bed_that_is_in_use_is_refused(whole):
    with pytest.raises(Unfit, match=f"is in use by the process {os.getpid()}; a bed belongs to one run at a time"):
        Bed(whole.folder).up(1)
    assert all(node.is_on() for node in whole.nodes)


def test_a_name_that_is_in_use_is_refused(whole, folder):
    with pytest.raises(Unfit, match=f"the bed's name: '{whole.name}'; .* of another bed"):
        Bed(folder, whole.name).up(1)
    assert all(node.is_on() for node in whole.nodes)


def test_a_folder_without_all_programs_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MOONFENCE_PROGRAMS", str(tmp_path))
    with pytest.raises(Unfit, match=f"MOONFENCE_PROGRAMS: {tmp_path} has no kube-apiserver, kube-controller-manager"):
        Bed(tmp_path / "bed").up(1)


def test_a_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "theirs").write_text("")
    with pytest.raises(Unfit, match="is not empty and has no bed.json"):
        Bed(tmp_path).up(1)
    assert (tmp_path / "theirs").exists()


def test_a_port_that_is_taken_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unfit, match=f"127.0.0.1:{port}: is taken"):
            Bed(tmp_path / "bed", port=port).up(1)


@pytest.mark.parametrize("wrong, says", [
    ({"name": "Bed_1"}, "the bed's name: 'Bed_1'"),
    ({"nodes": 300}, "the number of nodes: 300"),
    ({"folder": "/var/bed"}, "/var/bed: is below /var"),
])
def test_what_cannot_be_is_refused_in_one_line(tmp_path, wrong, says):
    with pytest.raises(Unfit) as refused:
        Bed(wrong.get("folder", tmp_path), wrong.get("name", "")).up(wrong.get("nodes", 1))
    (line,) = refused.value.lines
    assert line.startswith(says)


def test_what_the_computer_lacks_is_told_all_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(needs.groups, "hierarchies", list)
    monkeypatch.setattr(needs, "LOOP_CONTROL", tmp_path / "none")
    monkeypatch.setattr(needs, "BUSYBOX", tmp_path / "none")
    monkeypatch.setattr(inotify, "make_room", lambda: None)
    monkeypatch.setattr(inotify, "LIMIT", few := tmp_path / "few")
    few.write_text("8\n")
    with pytest.raises(Unfit) as refused:
        Bed(tmp_path / "bed").up(1)
    assert [line.split(":")[0] for line in refused.value.lines] == [
        "user", "/proc/self/mountinfo", str(tmp_path / "none"), str(tmp_path / "none"), str(few)]
