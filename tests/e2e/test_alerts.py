"""The alerts and the dashboard of deploy/monitoring: they fire when they should, ask for metrics that the engine has, and
are explained. Evaluated by promtool, in Prometheus' own time."""

import json
import re
import subprocess

import pytest
import yaml

from .control_plane import REPO
from .installation import objects

MONITORING = REPO / "deploy" / "monitoring"
GROUPS = objects(MONITORING / "alerts.yaml")[0]["spec"]["groups"]
RULES = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}
JOB = 'job="moonfence", namespace="moonfence"'
UP = f'up{{{JOB}, pod="%s"}}'
LEADER = f'leader_election_master_status{{{JOB}, name="moonfence", pod="%s"}}'
ACTIONS = f'moonfence_actions_total{{{JOB}, action="delete_pod", result="%s"}}'
QUARANTINED = f'moonfence_nodes_quarantined{{{JOB}, state="%s"}}'
REFUSED = f'moonfence_guard_refusals_total{{{JOB}, action="%s", reason="%s"}}'
OFF = f'moonfence_fencing_off{{{JOB}, reason="%s"}}'
REQUESTS = f'rest_client_requests_total{{{JOB}, method="DELETE", code="%s"}}'

# alert: (series under which it fires after 15 minutes, series under which it does not), each {series: values a minute}
MACHINES = f'moonfence_detection_nodes{{{JOB}, pod="a", kernel="%s"}}'
WITNESSES = f'moonfence_detection_witnesses{{{JOB}, pod="a", state="%s"}}'
FENCERS = f'moonfence_fencer_nodes{{{JOB}, pod="a", state="%s"}}'
LIMIT_OFF = f'moonfence_brake_limit_off{{{JOB}, limit="%s"}}'
LOST = f'moonfence_delivery_lost_total{{{JOB}, to="webhook", reason="%s"}}'
WAITING = f'moonfence_delivery_waiting{{{JOB}, pod="a", to="webhook"}}'
LATE = {"MoonfenceLimitOff": "25h"}  # others are looked at after 15 minutes
CASES = {
    "MoonfenceDown": ({UP % "a": "1x3 0x20"}, {UP % "a": "0x20", UP % "b": "1x20"}),
    "MoonfenceNoLeader": ({LEADER % "a": "1x3 0x20", LEADER % "b": "0x20"}, {LEADER % "a": "1x20", LEADER % "b": "0x20"}),
    "MoonfenceSeveralLeaders": ({LEADER % "a": "1x20", LEADER % "b": "1x20"},
                                # a hand-over between two scrapes
                                {LEADER % "a": "1x15 0x5", LEADER % "b": "0x14 1x6"}),
    "MoonfenceWatchBroken": ({f'moonfence_watch_connected{{{JOB}, resource="nodes"}}': "1x5 0x20"},
                             {f'moonfence_watch_connected{{{JOB}, resource="nodes"}}': "1x14 0 1x5"}),
    "MoonfencePolicyRejected": ({f'moonfence_policy_info{{{JOB}, policy="p", state="Stale"}}': "1x20"},
                                {f'moonfence_policy_info{{{JOB}, policy="p", state="Active"}}': "1x20"}),
    "MoonfenceNothingFenced": (
        {OFF % "mode_off": "0x3 1x20", OFF % "nothing_bound": "0x20"},
        {OFF % "mode_off": "1x5 0x1 1x4 0x20", OFF % "nothing_bound": "0x20", OFF % "no_config_map": "0x14 1x6"}),
    "MoonfencePolicyUnbound": ({f'moonfence_policy_unbound{{{JOB}, policy="p"}}': "1x20"},
                               {f'moonfence_policy_unbound{{{JOB}, policy="p"}}': "_x8 1x12"}),
    "MoonfenceHealthSourceUnreadable": ({f'moonfence_health_source_unreadable{{{JOB}, policy="p"}}': "0x3 1x20"},
                                        {f'moonfence_health_source_unreadable{{{JOB}, policy="p"}}': "0x3 1x4 0x2 1x3 0x20"}),
    "MoonfenceMachinesNotObservable": (
        {MACHINES % "not_observable": "0x3 2x30", MACHINES % "answers": "10x33"},
        {MACHINES % "not_observable": "1x33", MACHINES % "answers": "10x33"}),
    "MoonfenceReplicaNotAsked": (
        {WITNESSES % "failing": "0x3 1x30", WITNESSES % "asked": "1x33"},
        # one that was on a dead node, and the one in its place
        {WITNESSES % "failing": "0x3 1x30", WITNESSES % "asked": "1x3 2x30"}),
    "MoonfenceFencerBroken": ({FENCERS % "broken": "0x3 2x20", FENCERS % "works": "28x23"},
                              # mended within its time; and nodes that need none
                              {FENCERS % "broken": "0x3 1x4 0x20", FENCERS % "none": "3x20"}),
    "MoonfenceBraked": ({f"moonfence_brake_engaged{{{JOB}}}": "0x5 1x20"}, {f"moonfence_brake_engaged{{{JOB}}}": "0x20"}),
    "MoonfenceLimitOff": ({LIMIT_OFF % "maxDown": "1x1500", LIMIT_OFF % "maxAtOnce": "0x1500"}, {LIMIT_OFF % "maxDown": "1x1400 0x100"}),
    "MoonfenceDoubtsItself": ({f'moonfence_self_doubt{{{JOB}, pod="a"}}': "0x5 1x20"},
                              {f'moonfence_self_doubt{{{JOB}, pod="a"}}': "0x14 1x6"}),
    "MoonfenceServerTooSlow": ({f'moonfence_api_server_too_slow{{{JOB}, pod="a"}}': "0x5 1x20"},
                               {f'moonfence_api_server_too_slow{{{JOB}, pod="a"}}': "0x14 1x6"}),
    "MoonfenceQuarantineKept": ({QUARANTINED % "kept": "0x3 2x20", QUARANTINED % "fenced": "2x20"},
                                {QUARANTINED % "kept": "0x6 1x20", QUARANTINED % "fenced": "1x20"}),
    "MoonfenceIncidentLasts": ({f"moonfence_incidents_open{{{JOB}}}": "0x2 1x20"},
                               {f"moonfence_incidents_open{{{JOB}}}": "0x8 1x20"}),
    "MoonfenceDeletionFailed": ({ACTIONS % "done": "0+1x20", ACTIONS % "outcome_lost": "_x10 1x10"},
                                {ACTIONS % "done": "0+1x20", ACTIONS % "replaced": "_x10 1x10",
                                 # what becomes of a volume, and what is read and tried again at once
                                 ACTIONS % "detached": "_x10 1x10", ACTIONS % "release_acknowledged": "_x10 1x10",
                                 ACTIONS % "release_overtaken": "_x10 1x10", ACTIONS % "node_changed": "_x10 1x10"}),
    "MoonfenceLeaderFlaps": ({LEADER % "a": "1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0", LEADER % "b": "0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1"}, {LEADER % "a": "1x7 0x17", LEADER % "b": "0x7 1x17"}),
    "MoonfenceApiServerSilent": ({f"moonfence_api_server_missed_heartbeats{{{JOB}}}": "0x5 2+12x20"},
                                 {f"moonfence_api_server_missed_heartbeats{{{JOB}}}": "0x5 1 0x5 1 0x9"}),
    "MoonfenceStorageHolds": ({REFUSED % ("delete_pod", "mode_observes"): "0+1x20", REFUSED % ("delete_pod", "attacher_silent"): "_x10 1x10"},
                              {REFUSED % ("delete_pod", "mode_observes"): "0+1x20", REFUSED % ("delete_pod", "attacher_silent"): "1x20"}),
    "MoonfenceForbidden": ({REQUESTS % "200": "0+1x20", REQUESTS % "403": "_x10 1x10"}, {REQUESTS % "404": "0+1x20", REQUESTS % "403": "3x20"}),
    "MoonfenceAuditUnwritable": ({f"moonfence_audit_write_failures_total{{{JOB}}}": "0x10 2x10"},
                                 {f"moonfence_audit_write_failures_total{{{JOB}}}": "2x20"}),
    "MoonfenceDeliveryFails": ({WAITING: "0x2 1x20"}, {WAITING: "0x2 3x8 0x20"}),
    "MoonfenceMessagesLost": ({LOST % "full": "0x10 2x10", LOST % "too_old": "0x20"},
                              {LOST % "full": "2x20", LOST % "stepped_down": "0x10 2x10"}),
}


def promtool(*words) -> str:
    done = subprocess.run(["promtool", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout


def promtool_reads(exposition: str) -> str:
    """What promtool has to say against what an engine exposes."""
    done = subprocess.run(["promtool", "check", "metrics"], input=exposition, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.stdout if done.returncode or done.stdout else ""


def test_of(alert: str, series: dict, fires: bool) -> dict:
    expression = f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})'
    return {"interval": "1m", "input_series": [{"series": name, "values": values} for name, values in series.items()],
            "promql_expr_test": [{"expr": expression, "eval_time": LATE.get(alert, "15m"),
                                  "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}]}


test_of.__test__ = False


@pytest.mark.parametrize("alert", sorted({*RULES, *CASES}))
def test_an_alert_fires_when_it_should_and_not_otherwise(alert, tmp_path):
    bad, good = CASES[alert]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": GROUPS}))
    assert promtool("check", "rules", tmp_path / "rules.yaml") == "" and alert in RULES
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [
        test_of(alert, bad, True), test_of(alert, good, False)]}))
    assert promtool("test", "rules", tmp_path / "tests.yaml") == ""


def test_a_replica_that_has_never_said_where_it_can_be_asked_is_told(tmp_path):
    alert, other = "MoonfenceReplicaNotAsked", WITNESSES.replace('pod="a"', 'pod="b"')
    silent = {WITNESSES % "failing": "0x20", WITNESSES % "asked": "0x20"}
    both = {**silent, other % "failing": "0x20", other % "asked": "1x20"}
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": GROUPS}))
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [
        test_of(alert, both, True), test_of(alert, silent, False)]}))
    assert promtool("test", "rules", tmp_path / "tests.yaml") == "", "one replica alone has nobody to ask"


def asked_for(text: str) -> set:
    return set(re.findall(r"\b((?:moonfence|leader_election|rest_client|process)_\w+?)(?:_bucket)?(?=[{\[ )])", text))


def shown() -> list:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def wanted_metrics() -> set:
    """What alerts and dashboard ask for; compared with a live scrape in test_observability.py."""
    return asked_for("\n".join([*shown(), *(rule["expr"] for rule in RULES.values())]))


SCRAPED = {"job", "namespace", "pod", "instance", "le"}  # what Prometheus adds, and its histograms


def wanted_labels() -> dict:
    """By metric the labels by which alerts and dashboard pick or sum it; compared with a live scrape, too."""
    wanted: dict = {}
    for expression in [*shown(), *(rule["expr"] for rule in RULES.values())]:
        summed = {key for keys in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression) for key in re.findall(r"\w+", keys)}
        for name in asked_for(expression):
            picked = {key for keys in re.findall(rf"\b{name}(?:_bucket)?{{([^}}]*)}}", expression) for key in re.findall(r"(\w+)[!=]", keys)}
            wanted.setdefault(name, set()).update((picked | summed) - SCRAPED)
    return wanted


def test_prometheus_reads_what_the_dashboard_asks(tmp_path):
    rules = [{"record": f"panel:{number}", "expr": each.replace("$__rate_interval", "5m")} for number, each in enumerate(shown())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert promtool("check", "rules", tmp_path / "rules.yaml") == ""


def metrics() -> list:
    return re.findall(r'(?:gauge|counter|histogram)\(\s*"(\w+)"', (REPO / "engine" / "app" / "telling" / "metrics.h").read_text())


def test_what_is_asked_for_are_metrics_of_the_engine():
    had = set(metrics())
    wanted = wanted_metrics()
    assert len(shown()) > 12 and len(wanted) > 12 and wanted <= had, wanted - had


def table(page: str, heading: str) -> list:
    """The first column of the table below a heading of docs/reference.md."""
    below = page.split(f"\n## {heading}\n")[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"^\| `(\w+)` \|", below, re.M)


def test_every_metric_and_every_event_is_documented():
    page = (REPO / "docs" / "reference.md").read_text()
    sources = {path.name: path.read_text() for path in (REPO / "engine" / "app").rglob("*.cc")}
    assert sorted(table(page, "Metrics")) == sorted(metrics())
    told = re.findall(r'"((?:Fencing|Fencer|Proof|Node|SilentTaint|SwitchOff|Isolation|Pod|Would|Volume|Detach|Forced|Storage|Quarantine|Policy|Mode|Configuration|OutOf|Replacement|Health|Namespace)[A-Z]\w+)"',
                      sources["announcer.cc"] + sources["policy_feed.cc"] + sources["rehearsal_news.cc"])
    reload = re.findall(r'"(Polic\w+)"', (REPO / "engine" / "policy" / "bundle" / "reload_report.cc").read_text())
    assert sorted(table(page, "Events")) == sorted({*told, *reload})


def test_panels_do_not_overlap_and_have_names_of_their_own():
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    places = [(x, y) for p in panels for grid in [p["gridPos"]]
              for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])]
    assert len(places) == len(set(places)) and max(x for x, _ in places) < 24
    assert len({p["id"] for p in panels}) == len({p["title"] for p in panels}) == len(panels)


def test_each_alert_is_explained():
    page = (REPO / "docs" / "runbook.md").read_text().split("\n## Alerts\n")[1]
    assert re.findall(r"^### (\w+)$", page, re.M) == list(RULES)
    for alert, rule in RULES.items():
        wait = {"2m": "after 2 min", "1m": "after 1 min", "5m": "after 5 min", "10m": "after 10 min", "1d": "after 1 day",
                None: "at once"}[rule.get("for")]
        section = page.split(f"\n### {alert}\n")[1].split("\n### ")[0]
        assert re.match(rf"\n\*Fires {wait}\.\* \S.*\n\*\*Do:\*\* \S", section, re.S), section
        assert rule["labels"]["severity"] in ("critical", "warning") and rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"] == f"docs/runbook.md#{alert.lower()}"
