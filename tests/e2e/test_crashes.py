"""The engine, the API server or the network ends at the worst moment; nothing is lost, nobody else is hit."""

import os
import signal
import threading
import time

import pytest

from .faults import LOOKS, PODS, Doorbell, deletions, holds, metric, wait_closed
from .kube import wait_for
from .proxy_rules import (Answer, BlackHole, Call, CommitThenReset, CutBody, DelayAnswer, Duplicate, Forward, Hold,
                          status_answer)

POD_LIST = r"/pods$"
QUICK = {"retryInterval": "1s"}


# --- the engine ends

@pytest.mark.parametrize("fate", ["lost", "late"])
def test_a_restart_finishes_what_sigkill_interrupted(victims_of, start_engine, proxy, fate):
    """Four of twelve deletions had been done; the others never arrive, or arrive after the restart."""
    victims = victims_of(12)
    engine = start_engine(server=proxy.server)
    arrive = threading.Event()
    proxy.on("DELETE", PODS, BlackHole() if fate == "lost" else Hold(arrive))
    proxy.on("DELETE", PODS, Forward(), times=4)
    victims.fail()
    sent = proxy.wait(12, "DELETE", PODS)
    wait_for("four pods are deleted", lambda: deletions(victims, engine)[200] == 4, 10, 0.02)
    engine.kill9()
    assert len(victims.alive()) == 8
    proxy.clear()
    engine.start()
    replacements = victims.wait_replaced()
    arrive.set()
    wait_for("the last exchange is over", lambda: all(e.finished_ns for e in sent), 10)
    assert deletions(victims, engine) == ({200: 12} if fate == "lost" else {200: 12, 404: 8})
    victims.wait_survive(replacements)


def test_sigterm_waits_for_what_has_left_and_begins_nothing(victims_of, start_engine, proxy):
    victims = victims_of(220)  # 160 calls at once
    engine = start_engine(server=proxy.server)
    answered = threading.Event()
    proxy.on("DELETE", PODS, Hold(answered))
    victims.fail()
    proxy.wait(1, "DELETE", PODS)
    os.kill(engine.pid, signal.SIGTERM)
    wait_closed(engine, "stopping")
    assert engine.alive()
    answered.set()
    engine.wait_exit(0)
    wait_for("what left has arrived", lambda: all(e.finished_ns for e in proxy.find("DELETE", PODS)), 60)
    sent = len(proxy.find("DELETE", PODS))
    assert 0 < sent < 220
    assert deletions(victims, engine) == {200: sent}
    assert len(victims.alive()) == 220 - sent


def test_a_second_sigterm_ends_it_at_once_with_1(victims_of, start_engine, proxy):
    victims = victims_of(2)
    engine = start_engine(server=proxy.server)
    proxy.on("DELETE", PODS, BlackHole())
    victims.fail()
    proxy.wait(2, "DELETE", PODS)
    os.kill(engine.pid, signal.SIGTERM)
    wait_closed(engine, "stopping")
    assert engine.alive()
    os.kill(engine.pid, signal.SIGTERM)
    engine.wait_exit(1)  # it would be 0 after the 6 s that it waits for what has left
    assert len(victims.alive()) == 2


def test_two_engines_at_once_do_no_harm(victims_of, start_engine, proxy):
    """Each deletes every pod; the precondition lets one of them."""
    victims = victims_of(6, stateful=True)
    both_have_listed = threading.Event()
    proxy.on("DELETE", PODS, Hold(both_have_listed))
    engines = [start_engine(server=proxy.server), start_engine(server=proxy.server)]
    victims.fail()
    proxy.wait(12, "DELETE", PODS)
    both_have_listed.set()
    replacements = victims.wait_replaced()
    for engine in engines:
        wait_closed(engine, "settled")
    found = deletions(victims, engines[0], raced=True)  # they are the same user: this is both
    assert found[200] >= 6 and set(found) <= {200, 404, 409} and sum(found.values()) == 12
    victims.wait_survive(replacements)


# --- the API server ends

@pytest.mark.parametrize("hard", [False, True], ids=["stopped", "killed"])
def test_an_api_server_that_restarts_under_the_watch_hides_no_failure(victims_of, start_engine, api_server, cluster,
                                                                      hard):
    """Stopped: the node fails right after. Killed: it fails while nobody can be told."""
    victims = victims_of(3)
    if not hard:
        # The scheduler's watches may come back after ours: it put a replacement on the failed node, which went too.
        cluster.client.patch("nodes", victims.node, {"spec": {"unschedulable": True}})
    engine = start_engine(witnessed=False)
    api_server.stop(hard)
    if hard:
        victims.fail("silent")
    holds(2, lambda: engine.get("/healthz") == (200, "ok"))
    api_server.start()
    if not hard:
        victims.fail("notready")
    replacements = victims.wait_replaced()
    engine.wait_ready()
    assert deletions(victims, engine) == {200: 3}
    victims.wait_survive(replacements)
    # The restarted server no longer knows the version: one list at most beside the first and that of the heartbeat's
    # doubt. Which version the server has is asked for after each loss of the connection (limit=1), and is no list.
    uris = [f"{entry.uri}&" for entry in engine.requests(verb="list", resource="nodes")]
    assert len([uri for uri in uris if "limit=500&" in uri]) <= 3, uris
    assert len([uri for uri in uris if "limit=1&" in uri]) <= 3, uris
    assert len(engine.requests()) < 90


def test_after_an_outage_it_goes_on_where_it_was(victims_of, start_engine, proxy):
    """Eleven seconds without a server: no hot loop, no more lists than doubts, and the node that failed is fenced."""
    victims = victims_of(3)
    engine = start_engine(server=proxy.server)
    wait_for("the watch is open", lambda: proxy.open_watches("/nodes"))
    lists = len(proxy.find("GET", "/nodes$", "limit="))
    proxy.stop_accepting(cut=True)
    with Doorbell(proxy.port) as door:
        victims.fail()
        holds(11, engine.alive)
        # At the soonest: the watch at once and after 0.8, 2.4 and 5.6 s, the versions of Leases now and after 10 s,
        # the heartbeat now and after 5 and 10 s, five side by side while it was well and then three.
        assert 3 <= door.within(11) <= 4 + 2 + 5 + 3 + 3
    assert len(victims.alive()) == 3
    proxy.accept_again()
    victims.wait_replaced()
    engine.wait_ready()
    assert deletions(victims, engine) == {200: 3}
    # it doubted itself, once or twice, and has listed the nodes once more each time before it acted
    assert 1 <= lists < len(proxy.find("GET", "/nodes$", "limit=")) <= lists + 2


def test_a_frozen_api_server_is_noticed_by_the_heartbeat(victims_of, start_engine, api_server):
    victims = victims_of(3)
    engine = start_engine(witnessed=False)
    wait_for("the watch is open", lambda: metric(engine, "moonfence_watch_connected") == 1)
    victims.fail("silent")
    api_server.freeze()
    # by itself the watch would take 130 s to find out
    wait_for("the watch is given up", lambda: metric(engine, "moonfence_watch_connected") == 0, 16)
    assert engine.get("/healthz")[0] == 200
    api_server.thaw()
    replacements = victims.wait_replaced()
    engine.wait_ready()
    assert deletions(victims, engine) == {200: 3}
    victims.wait_survive(replacements)


# --- the network lies

@pytest.mark.parametrize("how", ["end", "reset", "whole"])
def test_nothing_is_deleted_by_a_truncated_list(victims_of, start_engine, proxy, how):
    victims = victims_of(4)
    engine = start_engine(server=proxy.server, config=QUICK)
    cut = proxy.on("GET", POD_LIST, CutBody(6000, how), query="fieldSelector", times=1)
    victims.fail()
    victims.wait_replaced()
    first_delete = min(e.received_ns for e in proxy.find("DELETE", PODS))
    # What comes after it is no reason for it. On a busy machine another look can begin before it.
    lists = [e for e in proxy.find("GET", POD_LIST, "fieldSelector") if e.received_ns < first_delete]
    assert lists[:1] == cut.hits and any(e.action == "forward" for e in lists[1:])
    assert deletions(victims, engine) == {200: 4}


@pytest.mark.parametrize("lost", [1, 2], ids=["once", "twice"])
def test_a_deletion_whose_answer_is_lost_is_not_done_to_the_replacement(victims_of, start_engine, proxy, lost):
    """The connection repeats the request by itself, unless it was a fresh one, which is not repeated: then the outcome
    stays unknown, and is looked up by another pass."""
    victims = victims_of(2, stateful=True)
    engine = start_engine(server=proxy.server, config=QUICK)
    proxy.on("DELETE", PODS, CommitThenReset(), times=2 * lost)
    victims.fail()
    replacements = victims.wait_replaced()
    wait_closed(engine, "settled")
    found = deletions(victims, engine)
    repeated = found[404] + found[409]
    assert found[200] == 2 and sum(found.values()) == 2 + repeated
    passes = engine.passes(victims.node) - LOOKS  # it is closed, so all of them are over
    assert 2 <= repeated <= 2 * lost or passes == 2
    assert 1 <= passes <= 2
    victims.wait_survive(replacements)


def test_a_pod_that_was_replaced_before_the_deletion_arrives_is_left_alone(victims_of, start_engine, proxy, cluster):
    victims = victims_of(1, stateful=True)
    engine = start_engine(server=proxy.server, config=QUICK)

    def replace(exchange):
        name, uid = exchange.path.rsplit("/", 1)[1], exchange.json["preconditions"]["uid"]
        cluster.client.delete("pods", name, victims.workloads.namespace, grace=0, uid=uid)
        # that it is there is enough; the engine gives its call up after 5 s
        wait_for("the replacement", lambda: {uid} != {p["metadata"]["uid"] for p in victims.workloads.pods("noobaa")} != set(),
                 every=0.02)
    proxy.on("DELETE", PODS, Call(replace))
    victims.fail()
    replacements = victims.wait_replaced()
    wait_closed(engine, "settled")
    assert deletions(victims, engine) == {409: 1}
    victims.wait_survive(replacements)


def test_a_deletion_that_the_network_repeats_is_harmless(victims_of, start_engine, proxy):
    victims = victims_of(3, stateful=True)
    engine = start_engine(server=proxy.server)
    twice = proxy.on("DELETE", PODS, Duplicate())
    victims.fail()
    replacements = victims.wait_replaced()
    wait_closed(engine, "settled")
    assert [e.upstream_statuses[0] for e in twice.hits] == [200] * 3
    assert {e.upstream_statuses[1] for e in twice.hits} <= {404, 409}
    assert deletions(victims, engine)[200] == 3
    victims.wait_survive(replacements)


@pytest.mark.parametrize("trouble,times", [(status_answer(500, "InternalError"), 2), (BlackHole(), 1),
                                           (DelayAnswer(1.3), 1)], ids=["500", "silence", "slow"])
def test_nothing_is_deleted_until_the_node_was_read_live(victims_of, start_engine, proxy, trouble, times):
    victims = victims_of(2)
    engine = start_engine(server=proxy.server, config=QUICK)
    troubled = proxy.on("GET", f"/nodes/{victims.node}$", trouble, times=times)
    victims.fail()
    victims.wait_replaced()
    assert len(troubled.hits) == times
    (good, *_) = [e for e in proxy.find("GET", f"/nodes/{victims.node}$") if e.action == "forward"]
    assert min(e.received_ns for e in proxy.find("DELETE", PODS)) > good.first_byte_ns
    assert deletions(victims, engine) == {200: 2}


def test_a_node_that_is_ready_by_the_live_read_is_left_alone(victims_of, start_engine, proxy, cluster):
    """The watch said NotReady; what a live read says counts."""
    victims = victims_of(2)
    engine = start_engine(server=proxy.server, config=QUICK)

    def flatter(exchange):
        node = cluster.client.request("GET", exchange.path)
        node["spec"].pop("taints", None)
        for condition in node["status"]["conditions"]:
            if condition["type"] == "Ready":
                condition["status"] = "True"
        return Answer(200, node)
    proxy.on("GET", f"/nodes/{victims.node}$", Call(flatter))
    victims.fail()
    victims.workloads.wait_node(victims.node, "False")
    wait_closed(engine, "node_ready")
    holds(2, lambda: not engine.deletes())
    assert len(victims.alive()) == 2
