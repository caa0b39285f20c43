"""Do engine.py and witness.py notice what they are there to notice?"""

import pytest

from .engine import Engines
from .kube import wait_for
from .witness import Witness
from .workloads import taints


@pytest.fixture
def fake(cluster, workloads, tmp_path, monkeypatch):
    """fake(script) -> (engines, engine): a shell script in the place of the engine."""
    def start(script: str) -> tuple:
        program = tmp_path / "fake"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setenv("MOONFENCE_BINARY", str(program))
        engines = Engines(cluster, tmp_path, workloads.namespace)
        made.append(engines)
        return engines, engines(ready=False)
    made: list = []
    yield start
    for engines in made:
        assert not any(engine.alive() for engine in engines.made)


def test_an_engine_that_ends_by_itself_fails_the_test(fake):
    engines, engine = fake("exit 3")
    wait_for("it ends", lambda: not engine.alive())
    with pytest.raises(AssertionError, match="ended by itself with 3"):
        engines.end()


def test_an_engine_that_leaves_with_another_code_fails_the_test(fake):
    engines, engine = fake("trap 'kill $!; exit 1' TERM; sleep 60 & echo armed; wait")
    wait_for("it runs", lambda: "armed" in engine.log())
    with pytest.raises(AssertionError, match="left with 1, not 0"):
        engines.end()


@pytest.mark.parametrize("report", [
    "==7==ERROR: AddressSanitizer: heap-use-after-free", "a.cc:1:2: runtime error: signed integer overflow",
    "==7==ERROR: LeakSanitizer: detected memory leaks", "WARNING: ThreadSanitizer: data race (pid=7)"])
def test_a_report_of_a_sanitizer_fails_the_test(fake, report):
    engines, engine = fake(f"trap 'kill $!; exit 0' TERM; sleep 60 & echo '{report}'; wait")
    wait_for("it speaks", lambda: report in engine.log())
    with pytest.raises(AssertionError, match="a sanitizer spoke"):
        engines.end()


@pytest.mark.parametrize("bare", ["grace period 0", "precondition"])
def test_a_deletion_without_grace_period_or_precondition_is_noticed(cluster, make_nodes, workloads, start_engine, bare):
    (node,) = make_nodes(1)
    engine = start_engine()
    pod = workloads.pod("pod", node)
    account = cluster.control_plane.token_client(engine.account.token())
    options = {"grace": 0} if bare == "precondition" else {"uid": pod["metadata"]["uid"]}
    account.delete("pods", "pod", workloads.namespace, **options)
    with pytest.raises(AssertionError, match=f"without {bare}"):
        engine.check()
    start_engine.made.remove(engine)  # or it would be checked once more
    engine.end()


def test_a_deletion_on_a_ready_or_untainted_node_is_noticed(cluster, make_nodes, workloads):
    (node,) = make_nodes(1)
    witness = Witness(cluster.client, workloads.namespace)

    def deleted(name: str) -> str:
        uid = workloads.pod(name, node)["metadata"]["uid"]
        cluster.client.delete("pods", name, workloads.namespace, grace=0, uid=uid)
        return uid
    ready = deleted("ready")
    cluster.hollow.fail(node, "missing-alive")
    untainted = deleted("untainted")
    cluster.client.patch("nodes", node, {"spec": {"unschedulable": True}})
    wait_for("the node is tainted", lambda: taints(cluster.client.get("nodes", node)))
    tainted = deleted("tainted")
    cluster.client.patch("nodes", node, {"spec": {"unschedulable": False}})
    witness.check([tainted])
    with pytest.raises(AssertionError, match="was Ready"):
        witness.check([ready])
    with pytest.raises(AssertionError, match="had only the taints"):
        witness.check([untainted])
