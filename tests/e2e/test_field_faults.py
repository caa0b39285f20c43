"""What the field does to a fencing engine (docs/field-faults.md), on a real control plane: servers that refuse, whose
answers are not true, and that are slow. The webhooks and the quota are real; the rest is done by the proxy.
"""

import json
import time

import pytest

from .engine import NOOBAA
from .faults import PODS, deletions, holds, metric, wait_closed
from .kube import ApiError, path_of, wait_for
from .policies import DELETES, PolicyMap, policy_text
from .proxy_rules import DelayAnswer, Stall, status_answer
from .test_incidents import NO_WATCH, QUICK
from .test_leadership import holds_lease
from .webhook import Webhook

LIES = [(404, "NotFound"), (409, "Conflict")]
RECORD = "moonfence.io/incident"


@pytest.fixture
def user(workloads) -> str:
    """The engine's, as the API server calls it."""
    return f"system:serviceaccount:{workloads.namespace}:moonfence"


@pytest.fixture
def webhook(cluster, workloads, user):
    """Asked about the deletions of the engine. To be enforced when there are pods."""
    with Webhook(cluster, workloads.namespace, user, "DELETE", "pods") as made:
        yield made


@pytest.fixture
def records(cluster, workloads):
    """The records of incidents as they stand in the cluster."""
    def read() -> list:
        maps = cluster.client.list("configmaps", workloads.namespace, labels=RECORD)
        return [json.loads(each["data"]["record.json"]) for each in maps]
    return read


def a_pod(victims) -> str:
    """The path of one of them."""
    pod, *_ = victims.workloads.pods("noobaa")
    return path_of("pods", pod["metadata"]["name"], victims.workloads.namespace)


def incidents(engine) -> list:
    """Those that are open, by its status page."""
    return json.loads(engine.get("/status.json", engine.status_port)[1])["incidents"]["underWay"]


def is_open(engine, victims, records) -> bool:
    """By metric and record its incident goes on, and all pods are there."""
    return (metric(engine, "moonfence_incidents_open") == 1 and len(victims.alive()) == len(victims.uids)
            and not any("closed" in record for record in records()))


def check_goes(engine, victims, records):
    """In the end every pod is deleted, once, in the one incident, whose record says so."""
    victims.wait_replaced()
    wait_closed(engine, "settled")
    assert deletions(victims, engine)[200] == len(victims.uids)
    assert engine.incidents(victims.node) == 1
    (record,) = wait_for("the record is closed", lambda: [each for each in records() if "closed" in each])
    assert [step["outcome"] for step in record["steps"]] == ["done"] * len(victims.uids)


# --- 1: an incident ends though the node is still down and the pod still there

def test_a_server_that_asks_for_a_pause_gets_it_and_the_incident_stays_open(victims_of, start_engine, proxy, records):
    """One try, and the window was over within 2 ms."""
    victims = victims_of(2)
    engine = start_engine(server=proxy.server, config=QUICK)
    refused = proxy.on("DELETE", PODS, status_answer(429, "TooManyRequests", headers={"Retry-After": "30"}))
    victims.fail()
    proxy.wait(2, "DELETE", PODS)
    wait_for("it is open", lambda: is_open(engine, victims, records))
    # each pod was tried once; without the server's word it would be tried every second
    holds(8, lambda: len(refused.hits) == 2 and is_open(engine, victims, records))
    refused.remove()
    check_goes(engine, victims, records)


def test_what_a_webhook_refuses_for_ninety_seconds_is_told_and_goes_when_it_lets_go(
        cluster, victims_of, start_engine, workloads, webhook, records):
    """Five tries, and then nothing for an hour."""
    victims = victims_of(2)
    policies = PolicyMap(cluster.client, workloads.namespace)
    policies.write(noobaa=NOOBAA.read_text())
    # it is over before the webhook lets go: pauses grow by then, and not to a minute yet
    engine = start_engine(policy=None, mode=None, witnessed=False, config={"retryWindow": "75s"})
    policies.wait_state("noobaa", "Active")
    webhook.refusal = {"code": 403, "message": "not while we back up"}
    webhook.enforce("DELETE", a_pod(victims))
    victims.fail()
    wait_for("it refuses", lambda: webhook.asked)
    since = time.monotonic()

    def told() -> bool:
        (replica,) = policies.status().values()
        open_ones = replica["situation"]["incidents"]
        events = [e for e in cluster.client.list("events", "default") if e["involvedObject"].get("name") == victims.node]
        return (metric(engine, "moonfence_incidents_failing") == 1 and "FencingHeld" in {e["reason"] for e in events}
                and [each["state"] for each in open_ones] == ["fails"] and "not while we back up" in open_ones[0]["text"])
    wait_for("it is told by metric, event and status", told)
    time.sleep(max(0.0, since + 90 - time.monotonic()))
    assert is_open(engine, victims, records) and webhook.asked > 2 * 5

    webhook.refusal = None
    check_goes(engine, victims, records)
    wait_for("it is told no more", lambda: metric(engine, "moonfence_incidents_failing") == 0 and [
        replica["situation"]["openIncidents"] for replica in policies.status().values()] == [0])


def test_what_a_quota_forbids_to_record_is_not_deleted_until_it_is_lifted(
        cluster, victims_of, start_engine, workloads, records):
    """Five tries, and then nothing for an hour; readyz was 200 before."""
    victims = victims_of(2)
    engine = start_engine(config=QUICK)
    few = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "0"}}}
    cluster.client.create("resourcequotas", few, workloads.namespace)

    def forbidden() -> bool:
        try:
            cluster.client.request("POST", path_of("configmaps", "", workloads.namespace), {"metadata": {"name": "one"}},
                                   {"dryRun": "All"})
        except ApiError as error:
            return error.status == 403
        return False
    wait_for("the quota is in force", forbidden)
    victims.fail()
    wait_for("its record is refused", lambda: [
        e for e in engine.requests(verb="create", resource="configmaps", status=403)])
    wait_for("its pods are held", lambda: {r["pod_uid"] for r in engine.records() if r["kind"] == "refusal"
                                           and r["reason"] == "not_recorded"} == victims.uids)
    wait_for("it is told", lambda: is_open(engine, victims, records) and [
        each.get("state") for each in incidents(engine)] == ["fails"])
    holds(5, lambda: is_open(engine, victims, records) and not engine.deletes(resource="pods"))
    cluster.client.delete("resourcequotas", "few", workloads.namespace)
    check_goes(engine, victims, records)


# --- 2: an answer is believed beyond what it says

@pytest.mark.parametrize("code, reason", LIES)
def test_a_proxy_that_says_gone_or_replaced_is_not_believed(victims_of, start_engine, proxy, records, code, reason):
    victims = victims_of(2)
    engine = start_engine(server=proxy.server, config=QUICK)
    lie = proxy.on("DELETE", PODS, status_answer(code, reason))
    victims.fail()
    proxy.wait(4, "DELETE", PODS)  # each pod twice
    check_unbelieved(engine, victims, records)
    lie.remove()
    check_goes(engine, victims, records)


@pytest.mark.parametrize("code, reason", LIES)
def test_a_webhook_that_says_gone_or_replaced_is_not_believed(victims_of, start_engine, webhook, records, code, reason):
    """Its code and its reason are handed through by the API server."""
    victims = victims_of(2)
    engine = start_engine(config=QUICK)
    webhook.refusal = {"code": code, "reason": reason, "message": "scripted"}
    webhook.enforce("DELETE", a_pod(victims))
    victims.fail()
    wait_for("each pod was tried twice", lambda: len(engine.deletes(resource="pods", status=code)) >= 4)
    check_unbelieved(engine, victims, records)
    webhook.refusal = None
    check_goes(engine, victims, records)


def check_unbelieved(engine, victims, records):
    wait_for("it is open", lambda: is_open(engine, victims, records))
    assert not {r["reason"] for r in engine.records() if r["kind"] == "outcome"} & {"already_gone", "replaced"}
    (record,) = records()
    assert not {step.get("outcome") for step in record["steps"]} & {"already_gone", "replaced", "done"}


def test_a_lone_404_is_no_proof_that_a_node_is_gone(cluster, victims_of, start_engine, proxy, tmp_path):
    """Watch and read say that it was deleted, by the word of one who stands in between; the list of its name has it."""
    victims = victims_of(2)
    policy = tmp_path / "gone.lua"
    policy.write_text(policy_text("gone", DELETES).replace("live_kubelet = true", "deleted = true, live_kubelet = true"))
    engine = start_engine(policy=policy, server=proxy.server, config=QUICK)
    wait_for("the node watch is open", lambda: proxy.open_watches("/nodes$") == 1)
    lie = proxy.on("GET", f"/nodes/{victims.node}$", status_answer(404, "NotFound"))
    node = cluster.client.get("nodes", victims.node)
    node["metadata"]["resourceVersion"] = cluster.client.request("GET", path_of("nodes"))["metadata"]["resourceVersion"]
    assert proxy.send_to_watches({"type": "DELETED", "object": node}, "/nodes$") == 1
    wait_for("it was read twice", lambda: len(lie.hits) > 1)
    holds(3, lambda: len(victims.alive()) == 2)
    assert not [r for r in engine.records() if r["kind"] == "intent"] and engine.fenced() == []

    lie.remove()
    victims.fail()  # now it is down, and there
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}


# --- 3: a picture stands still and nobody notices (the watches themselves: test_policies.py)

def test_nothing_is_deleted_by_policies_that_nobody_can_prove(victims_of, start_engine, proxy, cluster, workloads):
    """Their watch says nothing, and they cannot be read."""
    victims = victims_of(2)
    policies = PolicyMap(cluster.client, workloads.namespace)
    policies.write(noobaa=NOOBAA.read_text())
    stalled = proxy.on("GET", "/configmaps$", Stall(0), query="watch=1")
    engine = start_engine(policy=None, mode=None, server=proxy.server, config=QUICK)
    policies.wait_state("noobaa", "Active")
    wait_for("the watch stands still", lambda: stalled.hits)
    unread = [proxy.on("GET", path, status_answer(500, "InternalError"), query=NO_WATCH if path.endswith("s$") else None)
              for path in ("/configmaps$", "/configmaps/moonfence-policies$")]
    victims.fail()
    wait_for("they were asked for", lambda: any(rule.hits for rule in unread))
    wait_for("it is not ready", lambda: engine.get("/readyz")[0] != 200)
    assert len(victims.alive()) == 2 and engine.fenced() == []
    for rule in unread:
        rule.remove()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}


# --- 6: slow but alive

def test_with_reads_of_a_second_and_a_half_a_node_is_fenced(victims_of, start_engine, proxy, records):
    """A reading had to be younger than a second when its deed left, so nothing ever was."""
    victims = victims_of(2)
    engine = start_engine(server=proxy.server)
    slow = proxy.on("GET", ".", DelayAnswer(1.5), query=NO_WATCH)
    victims.fail()
    check_goes(engine, victims, records)
    assert slow.hits


@pytest.mark.parametrize("pause, times", [(6, 1000), (30, 3)], ids=["6-always", "30-three-times"])
def test_a_webhook_that_takes_its_time_over_deletions_is_waited_for(
        victims_of, start_engine, webhook, records, pause, times):
    victims = victims_of(1)
    engine = start_engine(config=QUICK, elect=True, witnessed=False)
    webhook.slow(pause, times)
    webhook.enforce("DELETE", a_pod(victims))
    victims.fail()
    check_goes(engine, victims, records)
    assert metric(engine, "leader_election_master_status", name="moonfence") == 1


def test_leadership_is_not_lost_to_renewals_that_are_slow_and_succeed(
        cluster, workloads, victims_of, start_engine, user, records):
    """A renewal had five seconds, and after ten without one another replica led."""
    def lease() -> dict:
        found = cluster.client.find("leases", "moonfence", workloads.namespace)
        return found["spec"] if found else {}
    victims = victims_of(2)
    leader = start_engine(elect=True, witnessed=False)
    wait_for("the first replica leads", lambda: holds_lease(leader, lease))
    standby = start_engine(elect=True, witnessed=False)
    before = lease()
    with Webhook(cluster, workloads.namespace, user, "UPDATE", "leases", "coordination.k8s.io") as webhook:
        webhook.enforce("PATCH", path_of("leases", "moonfence", workloads.namespace), {})
        webhook.slow(8)
        wait_for("it is asked again and again", lambda: webhook.asked >= 3)
        victims.fail()
        victims.wait_replaced()
        after = lease()
        assert after["renewTime"] > before["renewTime"]
        webhook.release()
    check_goes(leader, victims, records)
    assert standby.records() == []
    for told in (after, lease()):
        assert (told["holderIdentity"], told["leaseTransitions"]) == (before["holderIdentity"], before["leaseTransitions"])


# --- 12: nodes that nobody may touch

@pytest.mark.parametrize("kind", ["nodes", "namespaces", "pods"])
def test_whoever_holds_the_node_the_namespace_or_the_pod_is_heeded(cluster, victims_of, start_engine, workloads, kind):
    victims = victims_of(1, stateful=True)
    name = {"nodes": victims.node, "namespaces": workloads.namespace, "pods": "web-0"}[kind]

    def hold(why):
        cluster.client.patch(kind, name, {"metadata": {"annotations": {"moonfence.io/hold": why}}}, workloads.namespace)
    hold("we look for what was written")
    engine = start_engine(config=QUICK)
    victims.fail()
    wait_for("it is told", lambda: [(each.get("state"), each.get("reason")) for each in incidents(engine)] == [("held", "on_hold")])
    assert "we look for what was written" in incidents(engine)[0]["text"]
    assert len(victims.alive()) == 1 and engine.fenced() == []
    hold(None)
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 1} and engine.incidents(victims.node) == 1
