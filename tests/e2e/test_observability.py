"""What operators see of a running engine: metrics, records, logs, events and the word for each, of one incident alike."""

import json
import subprocess

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .engine import RULES, STORAGE_RULES, binary
from .exposition import parse
from .growing_file import whole_lines
from .kube import wait_for
from .policies import DELETES, PolicyMap, policy_text
from .record_schema import faults_of
from .test_alerts import promtool_reads, wanted_labels, wanted_metrics

# Counters by which a record of each kind is counted, and the label that has its reason.
COUNTED = {"incident_opened": ("moonfence_incidents_opened_total", "reason"),
           "incident_closed": ("moonfence_incidents_closed_total", "reason"),
           "incident_held": ("moonfence_incidents_held_total", "reason"),
           "verdict": ("moonfence_verdicts_total", "reason"),
           "refusal": ("moonfence_guard_refusals_total", "reason"),
           "intent": ("moonfence_intents_total", "reason"),
           "outcome": ("moonfence_actions_total", "result"),
           "replacement": ("moonfence_replacements_total", "reason")}


BOTH = 'fence.delete_pod_and_attachments("a test says so")'


@pytest.fixture
def settled(cluster, workloads, victims_of, start_engine):
    """An engine after one incident: two pods deleted by `new`; `old` in its shadow would have taken their volumes too."""
    policies = PolicyMap(cluster.client, workloads.namespace)
    bindings = policies.bindings("new") + f"""- policy: old
  source: old.lua
  namespaces: ["{workloads.namespace}"]
  mode: observe
  holdDown: 0s
"""
    policies.write(data={"moonfence.yaml": bindings, "new.lua": policy_text("new", DELETES),
                         "old.lua": policy_text("old", BOTH, more='needs = { "volumes" },'),
                         "spare.lua": policy_text("spare", DELETES)})  # which no binding names
    victims = victims_of(2)
    engine = start_engine(policy=None, mode=None, rules=[*RULES, *STORAGE_RULES], flags=("--log-format", "json"))
    policies.wait_state("old", "Observe")
    victims.fail()
    victims.wait_replaced()
    wait_for("the incident is closed", lambda: any(r["kind"] == "incident_closed" for r in engine.records()), 60)
    return engine, victims.node, policies


def samples_of(engine) -> dict:
    return parse(engine.metrics())


def total(samples: dict, metric: str, **labels) -> float:
    return sum(value for (name, found), value in samples.items()
               if name == metric and labels.items() <= dict(found).items())


def test_one_incident_is_told_alike_by_records_metrics_log_events_and_terminal(cluster, settled):
    engine, node, _ = settled
    records = engine.records()
    samples = samples_of(engine)
    (incident,) = {record["incident"] for record in records}
    assert {record["kind"] for record in records} >= set(COUNTED) - {"incident_held"}
    assert [record["sequence"] for record in records] == list(range(1, len(records) + 1))
    for record in records:
        metric, label = COUNTED[record["kind"]]
        same = [r for r in records if (r["kind"], r["reason"]) == (record["kind"], record["reason"])]
        assert total(samples, metric, **{label: record["reason"]}) == len(same), record
        told = subprocess.run([binary(), "reason", record["reason"]], capture_output=True, text=True)
        assert told.returncode == 0 and told.stdout.startswith(record["reason"] + "\n")

    # one event a line, and every line about the node carries the incident
    lines = [json.loads(line) for line in whole_lines(engine.log_file)]
    assert all(list(line)[:3] == ["time", "level", "event"] for line in lines)
    about = [line for line in lines if line.get("node") == node or node in line.get("pod", "")]
    assert about and {line.get("incident") for line in about} == {incident}
    told = [(line["event"], line["reason"]) for line in about if "reason" in line]
    assert told == [(record["kind"], record["reason"]) for record in records]

    def events():
        found = [e for space in (engine.namespace, "default") for e in cluster.client.list("events", space)
                 if f"incident {incident})" in e["message"]]
        reasons = {e["reason"] for e in found}
        return found if {"FencingStarted", "PodForceDeleted", "FencingSettled"} <= reasons else None
    kinds = {(e["reason"], e["involvedObject"]["kind"]) for e in wait_for("the events", events)}
    assert {("FencingStarted", "Node"), ("PodForceDeleted", "Pod"), ("FencingSettled", "Node")} <= kinds


def test_what_a_shadow_would_have_done_otherwise_is_counted_and_listed(settled):
    engine, _, _ = settled
    differs = [r for r in engine.records() if r["reason"] == "shadow_differs"]
    assert len(differs) == 2 and {r["policy"] for r in differs} == {"old"}
    assert {(r["action"], r["instead_of"]) for r in differs} == {("delete_pod_and_attachments", "delete_pod")}
    assert total(samples_of(engine), "moonfence_shadow_differences_total", policy="old",
                 observed="delete_pod_and_attachments", enforced="delete_pod") == 2


def test_every_change_of_the_policies_is_an_event_of_their_config_map(settled):
    _, _, policies = settled
    activated = wait_for("both activations", lambda: len(policies.events("PolicyActivated")) >= 2 and
                         policies.events("PolicyActivated"))
    assert {e["message"].split()[1] for e in activated} == {"new", "old"}
    policies.edit(mode="observe")
    (bound, ceiling) = wait_for("the change of mode", lambda: len(policies.events("ModeChanged")) == 2 and sorted(
        e["message"] for e in policies.events("ModeChanged")))
    assert bound.startswith("policy new for namespaces ") and bound.endswith(" is observe, was enforce"), bound
    assert ceiling == "the ceiling of all policies is observe, was enforce (set by key mode)"
    policies.edit(moonfence_yaml="api: 1\nbindings: 5\n")
    wait_for("the fault", lambda: policies.events("ConfigurationRejected"))


def test_the_metrics_keep_the_conventions_and_have_what_alerts_and_dashboard_ask_for(settled):
    engine, node, _ = settled
    text = engine.metrics()
    assert promtool_reads(text) == ""
    families = {family.name: family for family in text_string_to_metric_families(text)}
    names = {name for name, _ in parse(text)}
    assert {sample.name for family in families.values() for sample in family.samples} == names
    assert all(family.documentation and family.type in ("counter", "gauge", "histogram") for family in families.values())
    def everywhere(name: str) -> bool:
        return not name.startswith("moonfence_delivery_")  # where there is a receiver: test_webhook.py
    wanted = {name for name in wanted_metrics() if everywhere(name)}
    assert len(wanted) > 20 and not {n for n in wanted if n not in names and n + "_bucket" not in names}
    had: dict = {}
    for name, labels in parse(text):
        had.setdefault(name.removesuffix("_bucket"), set()).update(key for key, _ in labels)
    asked = {name: keys for name, keys in wanted_labels().items() if everywhere(name)}
    assert len([keys for keys in asked.values() if keys]) > 10
    assert not {name: keys - had[name] for name, keys in asked.items() if not keys <= had[name]}
    # bounded labels: nothing that grows with nodes, pods or incidents
    incident = engine.records()[0]["incident"]
    values = {value for (_, labels) in parse(text) for _, value in labels}
    assert not [value for value in values if node in value or incident in value or "web-" in value]
    stages = {stage: total(parse(text), "moonfence_failover_stage_seconds_count", stage=stage)
              for stage in ("detect", "confirm", "decide", "delete", "detached")}
    assert stages == {"detect": 1, "confirm": 1, "decide": 2, "delete": 2, "detached": 0}
    assert total(parse(text), "process_resident_memory_bytes") > 1e6


def test_health_answers_as_kubernetes_asks(settled):
    engine, _, _ = settled
    for path in ("/healthz", "/livez", "/readyz"):
        assert engine.get(path) == (200, "ok")
        status, text = engine.get(path + "?verbose")
        assert status == 200 and all(line.startswith("[+]") for line in text.splitlines()[:-1])
    checks = {line[3:].split()[0] for line in engine.get("/readyz?verbose")[1].splitlines()[:-1]}
    assert checks == {"nodes-synced", "nodes-watch", "policies", "incident-records", "store"}
    assert set(json.loads(engine.get("/version")[1])) == {"version", "commit"}
    assert engine.get("/metrics")[0] == 404 and engine.get("/healthz", engine.metrics_port)[0] == 404


def test_the_schema_refuses_what_is_no_record(settled):
    engine, _, _ = settled
    intent = next(r for r in engine.records() if r["kind"] == "intent")
    assert faults_of(intent) == []
    for wrong in ({**intent, "reason": "bad_luck"}, {**intent, "more": 1}, {**intent, "schema": 2},
                  {**intent, "time": "yesterday"}, {**intent, "instead_of": "skip"},
                  {k: v for k, v in intent.items() if k != "pod_uid"}, {k: v for k, v in intent.items() if k != "incident"}):
        assert faults_of(wrong), wrong
