"""Several replicas: one acts, the others know what it knows and wait."""

import itertools
import os
import re
import signal
import threading
import time

import pytest

from .engine import RULES
from .faults import deletions, holds, metric
from .kube import wait_for
from .proxy_rules import Hold

TERM = {"leaseDuration": "8s", "leaseRenewDeadline": "5s", "leaseRetry": "1s"}  # the shortest that is accepted, and a bit
LEASE = "/leases/moonfence$"


@pytest.fixture
def lease(cluster, workloads):
    """What the Lease says now; {} when there is none."""
    def read():
        found = cluster.client.find("leases", "moonfence", workloads.namespace)
        return found["spec"] if found else {}
    return read


@pytest.fixture
def replicas(start_engine, lease):
    """(leader, standby)"""
    def make(**arguments):
        leader = start_engine(elect=True, config=TERM, witnessed=False, **arguments)
        wait_for("the first replica leads", lambda: lease().get("holderIdentity", "").startswith(leader.name + "_"))
        standby = start_engine(elect=True, config=TERM, witnessed=False, **arguments)
        return leader, standby
    return make


def intents(engine) -> int:
    return len([record for record in engine.records() if record["kind"] == "intent"])


def opened(engine) -> list:
    return [record["reason"] for record in engine.records() if record["kind"] == "incident_opened"]


def holds_lease(engine, lease) -> bool:
    return lease().get("holderIdentity", "").startswith(engine.name + "_")


def test_e_17_only_the_holder_of_the_lease_acts(victims_of, replicas, lease):
    """E-17."""
    victims = victims_of(3)
    leader, standby = replicas()
    assert re.fullmatch(leader.name + "_[0-9a-f]{20}", lease()["holderIdentity"])
    assert lease()["leaseDurationSeconds"] == 8
    victims.fail("notready")
    victims.wait_replaced()
    assert deletions(victims, leader) == {200: 3}
    assert intents(leader) == 3 and standby.records() == []
    assert metric(leader, "leader_election_master_status", name="moonfence") == 1
    assert metric(standby, "leader_election_master_status", name="moonfence") == 0


def test_the_standby_takes_over_from_a_leader_that_was_killed(victims_of, replicas, lease):
    """The node fails while nobody leads: the standby saw it fall, and acts when the term has run out."""
    victims = victims_of(2)
    leader, standby = replicas()
    leader.kill9()
    victims.fail("notready")
    victims.wait_replaced()
    assert holds_lease(standby, lease) and lease()["leaseTransitions"] == 1
    assert opened(standby)[0] == "took_over" and intents(standby) == 2


def test_a_leader_that_is_stopped_hands_over_at_once(cluster, workloads, victims_of, replicas, lease):
    victims = victims_of(2)
    leader, standby = replicas()
    since = cluster.client.get("leases", "moonfence", workloads.namespace)["metadata"]["resourceVersion"]
    leader.stop()
    wait_for("the standby leads", lambda: holds_lease(standby, lease), every=0.05)
    # it took a Lease that nobody held, and did not wait for the end of a term
    holders = []
    for event in cluster.client.watch("leases", workloads.namespace, version=since, seconds=30):
        holders.append(event["object"]["spec"].get("holderIdentity", "").partition("_")[0])
        if holders[-1] == standby.name:
            break
    assert [name for name, _ in itertools.groupby(holders) if name != leader.name] == ["", standby.name]
    victims.fail("notready")
    victims.wait_replaced()
    assert intents(standby) == 2


def test_who_gives_its_lease_back_leads_no_more(start_engine, proxy, lease):
    """Its metric said 1 until it had left, beside a standby's 1."""
    engine = start_engine(elect=True, config=TERM, server=proxy.server)
    wait_for("it leads", lambda: metric(engine, "leader_election_master_status", name="moonfence") == 1)
    answered = threading.Event()
    proxy.on("PUT", LEASE, Hold(answered))
    os.kill(engine.pid, signal.SIGTERM)
    wait_for("it gives its Lease back", lambda: [
        e for e in proxy.find("PUT", LEASE) if not e.json["spec"]["holderIdentity"]])
    leads = metric(engine, "leader_election_master_status", name="moonfence")
    answered.set()
    engine.wait_exit(0)
    assert leads == 0 and not lease()["holderIdentity"]


def test_a_leader_that_was_frozen_deletes_nothing_when_it_wakes(victims_of, replicas, lease):
    """E-18."""
    victims = victims_of(2)
    leader, standby = replicas()
    os.kill(leader.pid, signal.SIGSTOP)
    try:
        victims.fail("notready")
        victims.wait_replaced()
        assert holds_lease(standby, lease)
    finally:
        os.kill(leader.pid, signal.SIGCONT)
    wait_for("the old leader has noticed", lambda: metric(
        leader, "leader_election_master_status", name="moonfence") == 0, 30)
    assert intents(leader) == 0 and intents(standby) == 2
    assert deletions(victims, standby) == {200: 2}


def test_without_rights_to_the_lease_it_says_so_and_does_nothing(cluster, victims_of, start_engine, workloads):
    victims = victims_of(1)
    engine = start_engine(elect=True, config=TERM, ready=False)
    cluster.client.patch("roles", engine.account.name, {"rules": []}, workloads.namespace)
    # it may have led for a moment, by the rights it had
    wait_for("it says so", lambda: engine.get("/readyz?verbose")[0] != 200 and "lease" in engine.get("/readyz?verbose")[1], 30)
    wait_for("its term is over", lambda: metric(engine, "leader_election_master_status", name="moonfence") == 0, 30)
    victims.fail("notready")
    holds(8, lambda: intents(engine) == 0)
    assert engine.fenced() == [] and len(victims.alive()) == 1


def test_the_rights_of_the_documentation_are_enough(start_engine, lease):
    start_engine(elect=True, rules=RULES)
    wait_for("it leads with the default term", lambda: lease().get("leaseDurationSeconds") == 5)
