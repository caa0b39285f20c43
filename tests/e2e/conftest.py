"""One cluster for all tests; namespaces, nodes and workloads of its own for each test."""

import itertools
import re
import signal
import threading
import warnings

import pytest

from .cluster import running_cluster
from .engine import Engines
from .explain import explain, explained, wait_explained
from .faults import ApiServer, Victims
from .fencers import Fencers
from .installation import Installation, lease_watch
from .proxy import Proxy
from .record_schema import check_records
from .secrecy import check_untold
from .tool import UNBRAKED, Tool
from .workloads import Workloads, node_ready, taints

GRACE = 8


def pytest_configure(config):
    # SIGTERM as Ctrl-C: fixtures are torn down and every process is ended
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
def cluster():
    """A control plane and the hollow process, without nodes."""
    with running_cluster("e2e", GRACE) as running:
        Installation(running).apply(lease_watch())
        yield running


@pytest.fixture(autouse=True)
def tell_crashes(request):
    """Says which component of the cluster crashed and was started again meanwhile."""
    yield
    if "cluster" in request.fixturenames:
        crashed = request.getfixturevalue("cluster").control_plane.crashed
        while crashed:
            name, last_words = crashed.pop(0)
            warnings.warn(f"{name} crashed during {request.node.name}: {last_words}")


_numbers = itertools.count(1)


@pytest.fixture
def test_id(request) -> str:
    """Short, unique and good for names of objects."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower().removeprefix("test_"))[:24].strip("-")
    return f"t{next(_numbers)}-{name}"


@pytest.fixture
def make_nodes(cluster, test_id):
    """make_nodes(3) -> names of new Ready nodes which only this test's workloads use."""
    made, labels = [], {"moonfence.io/test": test_id}

    def make(count: int = 3, images: int = 0) -> list:
        fresh = [f"{test_id}-n{len(made) + i + 1}" for i in range(count)]
        made.extend(fresh)
        cluster.hollow.add(fresh, labels=labels, images=images)

        def all_ready():
            nodes = [cluster.client.get("nodes", name) for name in fresh]
            return all(node_ready(n) == "True" and not taints(n) for n in nodes)
        wait_explained(f"the nodes {fresh} are Ready", all_ready, 30,
                       lambda: explain(cluster.client, "default", labels, cluster.control_plane))
        return fresh
    yield make
    cluster.hollow.remove(made)


@pytest.fixture
def nodes(make_nodes) -> list:
    """Three Ready nodes of this test."""
    return make_nodes(3)


@pytest.fixture
def workloads(cluster, make_nodes, test_id):
    """Workloads in a namespace of their own, pinned to this test's nodes."""
    made = Workloads(cluster.client, test_id, {"moonfence.io/test": test_id}, cluster.control_plane)
    made.create_namespace()
    yield made
    made.remove_all()


@pytest.fixture
def proxy(cluster):
    """A scripted proxy in front of the API server. Tests of engines use tokens; a client without one is
    let through as admin."""
    with Proxy(cluster.control_plane, with_client_certificate=True) as started:
        yield started


@pytest.fixture
def start_engine(cluster, workloads, tmp_path):
    """start_engine(**arguments) -> a running Engine; see engine.py."""
    engines = Engines(cluster, tmp_path, workloads.namespace)
    yield engines
    try:
        engines.end()
    finally:
        check_untold(engines.made)
        check_records(engines.made)


@pytest.fixture
def victims_of(cluster, make_nodes, workloads):
    """victims_of(3) -> Victims: a Deployment (`stateful`: a StatefulSet) whose 3 pods are all on one node."""
    def make(count: int, stateful: bool = False) -> Victims:
        (node,) = make_nodes(1)
        make_it = workloads.stateful_set if stateful else workloads.deployment
        make_it("web", count, labels={"app": "noobaa"}, toleration_seconds=300)
        pods = workloads.wait_all_running("noobaa", count)
        return Victims(cluster, workloads, node, make_nodes(2), {pod["metadata"]["uid"] for pod in pods})
    return make


@pytest.fixture
def api_server(cluster, start_engine):
    """The API server, to stop, kill or freeze; it is well again before anything else is cleaned up."""
    server = ApiServer(cluster)
    yield server
    server.mend()


@pytest.fixture
def tool(cluster, workloads, tmp_path) -> Tool:
    return Tool(cluster, workloads, tmp_path)


@pytest.fixture
def fencers(cluster, workloads, tmp_path):
    made = Fencers(cluster, workloads.namespace, tmp_path)
    yield made
    made.stop()


@pytest.fixture
def unbraked(cluster, workloads):
    """The engine's own configuration, as the manifests hand it to the engine."""
    cluster.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": UNBRAKED}},
                          workloads.namespace)
