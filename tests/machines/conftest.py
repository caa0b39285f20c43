"""One bed of three nodes for all tests; a namespace, workloads and an engine of its own for each."""

import itertools
import os
import re
import signal
import threading

import pytest

from cluster.bed_with_volumes import BedWithVolumes
from cluster.settings import ALL, FAST
from e2e.control_plane import REPO
from e2e.engine import Engines
from e2e.explain import explained
from e2e.installation import Installation, lease_watch
from e2e.processes import worker
from e2e.workloads import Workloads

from .disks import Disks
from .stage import Stage

BEDS = REPO / "build" / "machines"


def pytest_configure(config):
    # SIGTERM as Ctrl-C: fixtures are torn down and every machine is switched off
    # (execnet runs a worker in another thread when its main thread is late; that has no signals)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Whatever a test failed by, it tells how its pods and nodes were; they are gone when one comes to look."""
    report = (yield).get_result()
    workloads = getattr(item, "funcargs", {}).get("workloads")
    if report.failed and report.when == "call" and workloads and not explained(report.longreprtext):
        report.sections.append(("the test's part of the cluster", workloads.explain()))


@pytest.fixture(scope="session")
def bed():
    settings = ALL[os.environ.get("MOONFENCE_MACHINE_SETTINGS", FAST.name)]
    with BedWithVolumes(BEDS / f"tests-{worker()}", settings=settings).up(3) as running:
        Installation(running).apply(lease_watch())
        yield running


_numbers = itertools.count(1)


@pytest.fixture
def test_id(request) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:30].strip("-")
    return f"t{next(_numbers)}-{name}"


@pytest.fixture
def whole(bed):
    """Whatever the test did to them, afterwards every machine is well again, for the next test."""
    yield bed
    bed.make_well()


@pytest.fixture
def disks(whole, test_id):
    """To be named before `workloads`: what is made first goes last, and pods go before their volumes."""
    made = Disks(whole, test_id)
    yield made
    made.remove()


@pytest.fixture
def workloads(whole, test_id):
    made = Workloads(whole.client, test_id, {}, whole.control_plane)
    made.create_namespace()
    yield made
    made.remove_all(namespace=True)


@pytest.fixture
def start_engine(whole, workloads, tmp_path):
    engines = Engines(whole, tmp_path, workloads.namespace)
    yield engines
    engines.end()


@pytest.fixture
def stage(whole, disks, workloads, start_engine) -> Stage:
    """The workloads run, one pod of each on node-1."""
    made = Stage(whole, workloads, whole.node(1), start_engine, disks)
    made.fill()
    yield made
    if made.chronicle:
        made.chronicle.end()
