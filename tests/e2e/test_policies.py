"""Policies that administrators keep in a ConfigMap: bound, edited, broken, mended and deleted while the engine runs."""

import threading
import time

import pytest

from .engine import POLICY_RULES, RULES
from .faults import PODS, deletions, holds, metric
from .kube import wait_for
from .policies import DELETES, SKIPS, PolicyMap, policy_text
from .proxy_rules import Hold, Stall

NOOBAA = policy_text("db", DELETES, select="app=noobaa")
CAREFUL = policy_text("db", SKIPS, select="app=noobaa")
BROKEN = "return policy { api = 1, name = 'db',\n"


@pytest.fixture
def policies(cluster, workloads):
    return PolicyMap(cluster.client, workloads.namespace)


@pytest.fixture
def start(start_engine):
    """An engine that reads its policies from the ConfigMap, with no ceiling of its own."""
    def make(**arguments):
        return start_engine(policy=None, mode=None, **arguments)
    return make


def pod_verdicts(engine, reason: str) -> int:
    return len([r for r in engine.records() if r["kind"] == "verdict" and r["reason"] == reason])


# --- bound, observed, enforced

def test_a_bound_policy_fences(policies, victims_of, start):
    victims = victims_of(2)
    policies.write(db=NOOBAA)
    engine = start()
    policies.wait_state("db", "Active")
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}
    assert metric(engine, "moonfence_policy_info", policy="db", state="Active", mode="enforce") == 1


def test_observe_then_enforce_while_the_node_is_down(policies, victims_of, start):
    """What an administrator does who does not dare yet: read what would be deleted, then let it."""
    victims = victims_of(2)
    policies.write(db=NOOBAA, mode="observe")
    engine = start()
    policies.wait_state("db", "Observe")
    victims.fail()
    wait_for("both would be deleted", lambda: metric(
        engine, "moonfence_guard_refusals_total", reason="mode_observes") >= 2)
    assert len(victims.alive()) == 2 and engine.fenced() == []
    policies.edit(moonfence_yaml=policies.bindings("db"))
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}


def test_an_edit_decides_differently_while_the_node_is_down(policies, victims_of, start):
    victims = victims_of(2)
    policies.write(db=CAREFUL)
    engine = start()
    victims.fail()
    wait_for("both are skipped", lambda: pod_verdicts(engine, "policy_skips") >= 2)
    assert engine.fenced() == []
    policies.edit(db_lua=NOOBAA)
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}


def test_an_edit_is_obeyed_by_what_waits(policies, victims_of, start, proxy):
    """220 pods are to be deleted, 160 at once, and no call is answered: off takes back what has not left."""
    victims = victims_of(220)
    policies.write(db=NOOBAA)
    engine = start(server=proxy.server)
    answered = threading.Event()
    proxy.on("DELETE", PODS, Hold(answered))
    victims.fail()
    proxy.wait(1, "DELETE", PODS)
    policies.edit(mode="off")
    wait_for("the mode is seen", lambda: {r["mode"] for r in policies.status().values()} == {"off"})
    answered.set()
    wait_for("what left has arrived", lambda: all(e.finished_ns for e in proxy.find("DELETE", PODS)), 20)
    left = len(proxy.find("DELETE", PODS))
    holds(3, lambda: len(proxy.find("DELETE", PODS)) == left)
    assert 0 < left < 220
    assert deletions(victims, engine) == {200: left} and len(victims.alive()) == 220 - left


def test_two_policies_one_forbids(policies, victims_of, start):
    victims = victims_of(2)
    guard = policy_text("hands-off", 'fence.forbid("a backup runs")')
    policies.write({"moonfence.yaml": policies.bindings("db", "hands-off"), "hands-off.lua": guard, "db.lua": NOOBAA})
    engine = start()
    victims.fail()
    wait_for("both are forbidden", lambda: pod_verdicts(engine, "policy_forbids") >= 2)
    assert len(victims.alive()) == 2 and engine.fenced() == []
    policies.edit(moonfence_yaml=policies.bindings("db"))
    victims.wait_replaced()


def test_a_policy_for_all_namespaces(policies, victims_of, start):
    victims = victims_of(2)
    policies.write({"moonfence.yaml": policies.bindings("db", namespaces=["*"]), "db.lua": NOOBAA})
    engine = start()
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}


# --- broken, mended

STALE = 'moonfence_policy_stale_seconds{policy="db"}'


def test_a_broken_edit_changes_nothing_and_is_told(policies, victims_of, start):
    victims = victims_of(2)
    policies.write(db=NOOBAA)
    engine = start()
    good = policies.wait_state("db", "Active")
    written = policies.edit(db_lua=BROKEN)
    told = policies.wait_state("db", "Stale")
    assert STALE in engine.metrics()  # by the time the status says so, not with the next tick
    assert policies.wait_observed(written)
    assert told["digest"] == good["digest"]
    assert told["error"]["line"] == 2 and "unexpected symbol" in told["error"]["message"]
    assert metric(engine, "moonfence_policy_reload_total", result="rejected") == 1
    wait_for("an event tells", lambda: policies.events("PolicyRejected"))
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}
    policies.edit(db_lua=NOOBAA + "-- mended\n")
    assert policies.wait_state("db", "Active")["digest"] != good["digest"]
    assert STALE not in engine.metrics()


def test_one_of_three_is_broken_and_mended(policies, start):
    texts = {name: policy_text(name, SKIPS) for name in ("one", "two", "three")}
    policies.write(**{**texts, "two": BROKEN})
    engine = start()
    policies.wait_state("two", "Rejected")
    assert {policies.told(name)["state"] for name in ("one", "three")} == {"Active"}
    policies.edit(two_lua=texts["two"])
    policies.wait_state("two", "Active")
    assert metric(engine, "moonfence_policy_info", state="Active") == 3


def test_bindings_that_do_not_parse_leave_all_as_it_was(policies, victims_of, start):
    victims = victims_of(1)
    policies.write(db=NOOBAA)
    engine = start()
    policies.wait_state("db", "Active")
    written = policies.edit(moonfence_yaml="api: 1\nbindigns: []\n")
    status = policies.wait_observed(written)
    (fault,) = status["faults"]
    assert "moonfence.yaml:2" in fault and "did you mean 'bindings'?" in fault
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 1}


def test_the_mode_key_works_whatever_else_is_broken(policies, victims_of, start):
    victims = victims_of(1)
    policies.write(db=NOOBAA)
    engine = start()
    policies.wait_state("db", "Active")
    written = policies.edit(moonfence_yaml=": : :", db_lua=BROKEN, mode="off")
    assert policies.wait_observed(written)["mode"] == "off"
    victims.fail()
    holds(12, lambda: len(victims.alive()) == 1)
    assert engine.fenced() == [] and engine.passes(victims.node) == 0


def test_unknown_keys_are_reported_with_the_nearest(policies, start):
    policies.write({"db.luaa": NOOBAA}, db=NOOBAA)
    start()
    policies.wait_state("db", "Active")
    (status,) = policies.status().values()
    assert any("db.luaa" in key and "db.lua" in key for key in status["unknownKeys"])


def test_a_policy_whose_own_tests_fail_is_not_taken(policies, start):
    wrong = 'return tests { case { name = "deletes", pod = {}, expect = { verdict = "skip" } } }\n'
    policies.write(db=CAREFUL)
    start()
    good = policies.wait_state("db", "Active")
    policies.write({"db_test.lua": wrong}, db=NOOBAA)
    told = policies.wait_state("db", "Stale")
    assert told["digest"] == good["digest"] and told["error"]["stage"] == "self-test"


# --- deleted, missing

@pytest.mark.parametrize("removed", ["deleted", "never there"])
def test_without_a_config_map_nothing_is_done(policies, victims_of, start, removed):
    victims = victims_of(1)
    if removed == "deleted":
        policies.write(db=NOOBAA)
    engine = start()
    if removed == "deleted":
        policies.wait_state("db", "Active")
        policies.remove()
    wait_for("off is told", lambda: {r["mode"] for r in policies.status().values()} == {"off"})
    victims.fail()
    holds(12, lambda: len(victims.alive()) == 1)
    assert engine.fenced() == []
    policies.write(db=NOOBAA)  # and it comes back
    victims.wait_replaced()


def test_an_engine_without_rights_on_the_config_map_is_not_ready(policies, start, cluster, workloads):
    policies.write(db=NOOBAA)
    engine = start(ready=False)
    cluster.client.patch("roles", "moonfence", {"rules": []}, workloads.namespace)
    engine.kill9()
    engine.start(ready=False)
    wait_for("it says why", lambda: "policies" in engine.get("/readyz?verbose")[1])
    holds(2, lambda: engine.get("/readyz")[0] == 500 and engine.get("/healthz") == (200, "ok"))
    cluster.client.patch("roles", "moonfence", {"rules": list(POLICY_RULES)}, workloads.namespace)
    engine.wait_ready()
    policies.wait_state("db", "Active")


# --- restarts, replicas, outages

def test_a_restart_during_a_bad_edit_keeps_what_was_good(policies, victims_of, start, cluster, workloads):
    victims = victims_of(1)
    policies.write(db=NOOBAA)
    engine = start()
    good = policies.wait_state("db", "Active")
    wait_for("it is kept", lambda: cluster.client.find("configmaps", "moonfence-lastgood", workloads.namespace))
    policies.edit(db_lua=BROKEN)
    policies.wait_state("db", "Stale")
    engine.kill9()
    engine.start()
    written = policies.edit(db_lua=BROKEN + "-- again\n")
    policies.wait_observed(written)
    assert policies.told("db")["state"] == "Stale" and policies.told("db")["digest"] == good["digest"]
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 1}


def test_two_replicas_tell_their_own_status(policies, start):
    policies.write(db=CAREFUL)
    engines = [start(), start()]
    wait_for("both tell", lambda: set(policies.status()) == {e.name for e in engines})
    assert len({r["activeSet"] for r in policies.status().values()}) == 1


def test_an_edit_made_while_the_api_server_is_away_from_us_is_seen_after(policies, start, proxy):
    policies.write(db=CAREFUL)
    start(server=proxy.server)
    policies.wait_state("db", "Active")
    proxy.black_hole()
    written = policies.edit(db_lua=CAREFUL + "-- changed\n")
    time.sleep(1)
    proxy.flow_again()
    proxy.cut_all()
    policies.wait_observed(written, 30)


def test_an_expired_watch_loses_no_edit(policies, start, proxy):
    policies.write(db=CAREFUL)
    start(server=proxy.server)
    policies.wait_state("db", "Active")
    wait_for("the watch is open", lambda: proxy.open_watches("/configmaps") == 1)
    proxy.close_watches(path="/configmaps")
    policies.wait_observed(policies.edit(db_lua=CAREFUL + "-- changed\n"), 30)


def test_fifty_edits_in_a_second_end_at_the_last(policies, start):
    policies.write(db=CAREFUL)
    engine = start()
    policies.wait_state("db", "Active")
    before = metric(engine, "moonfence_policy_reload_total")
    began = time.monotonic()
    for number in range(50):
        written = policies.edit(db_lua=f"{CAREFUL}-- edit {number}\n")
    took = time.monotonic() - began
    policies.wait_observed(written)
    # none sooner than 200 ms after another; on a slow machine the fifty take longer
    assert metric(engine, "moonfence_policy_reload_total") - before <= max(10, 2 + took / 0.2)


def test_a_change_of_labels_reloads_nothing(policies, start, cluster, workloads):
    policies.write(db=CAREFUL)
    engine = start()
    policies.wait_state("db", "Active")
    before = metric(engine, "moonfence_policy_reload_total")
    for number in range(3):
        cluster.client.patch("configmaps", "moonfence-policies", {"metadata": {"labels": {"beat": str(number)}}},
                             workloads.namespace)
    policies.wait_observed(policies.edit(db_lua=CAREFUL + "-- changed\n"))
    assert metric(engine, "moonfence_policy_reload_total") == before + 1


def test_rights_are_no_more_than_told(policies, start):
    """RULES and POLICY_RULES are the tables of docs/reference.md; the engine asked for nothing beyond them."""
    policies.write(db=CAREFUL)
    engine = start()
    policies.wait_state("db", "Active")
    assert engine.requests(status=403) == []
    assert {e.resource for e in engine.requests()} <= {name for rule in (*RULES, *POLICY_RULES)
                                                       for name in rule["resources"]}


# --- a watch that says nothing

def test_off_is_heard_though_the_watch_of_the_policies_stands_still(policies, victims_of, start, proxy):
    """A load balancer had lost the connection: the stream was open, nothing was in doubt, readyz was 200, and the pod of
    the next node that failed was deleted."""
    victims = victims_of(2)
    policies.write(db=NOOBAA)
    stalled = proxy.on("GET", "/configmaps$", Stall(0), query="watch=1")
    engine = start(server=proxy.server)
    policies.wait_state("db", "Active")
    wait_for("the watch stands still", lambda: stalled.hits)
    policies.edit(mode="off")
    victims.fail()
    wait_for("off is told", lambda: {r["mode"] for r in policies.status().values()} == {"off"})
    holds(3, lambda: len(victims.alive()) == 2)
    assert engine.fenced() == []


def test_a_node_that_fails_while_the_watch_of_the_nodes_stands_still_is_fenced(policies, victims_of, start, proxy):
    victims = victims_of(2)
    policies.write(db=NOOBAA)
    stalled = proxy.on("GET", "/nodes$", Stall(0), query="watch=1")
    engine = start(server=proxy.server)
    policies.wait_state("db", "Active")
    wait_for("the watch stands still", lambda: stalled.hits)
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}
    # the metric follows within a second
    wait_for("it was listed anew", lambda: metric(engine, "moonfence_watch_relists_total", resource="nodes") >= 1)
