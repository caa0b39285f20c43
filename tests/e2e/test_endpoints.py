"""What operators and probes see: /healthz, /readyz, /version, /metrics."""

import json
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from .engine import binary
from .exposition import NotExposition, parse
from .faults import deletions, holds, metric, wait_closed
from .kube import wait_for
from .proxy_rules import Call


def ask(engine, method: str, path: str, port=None) -> tuple:
    """(status, headers, text)"""
    request = urllib.request.Request(f"http://127.0.0.1:{port or engine.health_port}{path}", method=method,
                                     data=b"x" if method in ("POST", "PUT", "PATCH") else None)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


# --- health

def test_it_is_alive_without_an_api_server_and_ready_with_one(start_engine, proxy):
    proxy.stop_accepting()
    engine = start_engine(ready=False, server=proxy.server)
    wait_for("it answers", lambda: engine.get("/healthz")[0] == 200, 10, 0.02)
    code, text = engine.get("/readyz")
    assert code == 500 and "[-]nodes-synced failed" in text
    code, text = engine.get("/readyz?verbose")
    assert code == 500 and "[-]nodes-synced failed" in text
    proxy.accept_again()
    engine.wait_ready()
    assert engine.get("/readyz") == (200, "ok")
    code, text = engine.get("/readyz?verbose")
    assert code == 200 and "[+]nodes-synced ok" in text and "[+]nodes-watch ok" in text

    proxy.stop_accepting(cut=True)
    wait_for("the lost watch shows", lambda: "[-]nodes-watch failed" in engine.get("/readyz?verbose")[1], 10, 0.05)
    holds(5, lambda: engine.get("/healthz") == (200, "ok") and engine.get("/readyz")[0] == 500)
    proxy.accept_again()
    engine.wait_ready()


def test_version_is_json(start_engine):
    engine = start_engine(mode="off")
    code, headers, text = ask(engine, "GET", "/version")
    assert code == 200 and headers["Content-Type"] == "application/json"
    told = json.loads(text)
    assert set(told) == {"version", "commit"} and all(isinstance(v, str) and v for v in told.values())
    assert told["version"] in subprocess.run([binary(), "version"], stdout=subprocess.PIPE, text=True).stdout


def test_unknown_paths_are_404_and_only_get_is_served(start_engine):
    engine = start_engine(mode="off")
    for port, path in ((engine.health_port, "/healthz"), (engine.metrics_port, "/metrics")):
        for wrong in ("/", "/nope", path + "/", "//" + path, "/../etc/passwd", "/%2e%2e/etc/passwd"):
            assert ask(engine, "GET", wrong, port)[0] == 404
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert ask(engine, method, path, port)[0] == 405
        code, _, text = ask(engine, "HEAD", path, port)
        assert code == 200 and text == ""
    assert ask(engine, "GET", "/metrics")[0] == 404
    assert engine.alive()


# --- metrics

@pytest.mark.parametrize("text", ["a 1\n", "# TYPE a counter\na 1\n", "# HELP a x\n# TYPE a counter\na -1\n",
                                  "# HELP a x\n# TYPE a gauge\na 1\na 2\n", "# HELP a x\n# TYPE a gauge\na 1",
                                  "# HELP a x\n# TYPE a gauge\na{b=\"c} 1\n", "# HELP a x\n# TYPE a gauge\na one\n",
                                  "# HELP a x\n# TYPE a histogram\na_bucket{le=\"1\"} 1\na_sum 1\na_count 1\n"])
def test_the_reader_of_metrics_is_strict(text):
    with pytest.raises(NotExposition):
        parse(text)


def test_metrics_tell_what_the_api_server_saw(start_engine, victims_of):
    """Four pods and a database pod, which the policy skips."""
    victims = victims_of(4)
    engine = start_engine()
    workloads = victims.workloads
    workloads.stateful_set("noobaa-db-pg", labels={"app": "noobaa"}, toleration_seconds=300,
                           pod_spec={"nodeSelector": {"kubernetes.io/hostname": victims.node}})
    workloads.wait_running("noobaa-db-pg-0")
    victims.fail()
    victims.wait_replaced()
    wait_closed(engine, "settled")
    code, headers, text = ask(engine, "GET", "/metrics", engine.metrics_port)
    assert code == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    parse(text)
    if shutil.which("promtool"):
        checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr

    found = deletions(victims, engine)
    assert found == {200: 4}
    assert metric(engine, "moonfence_actions_total") == sum(found.values())
    assert metric(engine, "moonfence_actions_total", result="done", policy="noobaa") == found[200]
    assert metric(engine, "moonfence_action_seconds_count") == sum(found.values())
    assert metric(engine, "moonfence_verdicts_total", reason="policy_deletes_pod") == found[200]
    assert metric(engine, "moonfence_verdicts_total", reason="policy_skips") == 1
    assert metric(engine, "moonfence_verdicts_total") == 5
    assert metric(engine, "moonfence_incidents_opened_total") == 1
    assert metric(engine, "moonfence_incidents_closed_total") == 1
    wait_for("the gauge of the incidents", lambda: metric(engine, "moonfence_incidents_open") == 0, 5)
    wait_for("the gauge of the nodes", lambda: metric(engine, "moonfence_nodes", state="not_ready") == 1, 5)
    by_code = metric(engine, "rest_client_requests_total", method="DELETE", code="200")
    assert by_code == found[200]


def test_metrics_count_what_did_not_work(start_engine, victims_of, proxy, cluster):
    """A pod that somebody else was faster with counts as such."""
    victims = victims_of(1)
    engine = start_engine(server=proxy.server)

    def be_faster(exchange):
        cluster.client.delete("pods", exchange.path.rsplit("/", 1)[1], victims.workloads.namespace, grace=0)
    proxy.on("DELETE", "/pods/", Call(be_faster), times=1)
    victims.fail()
    wait_closed(engine, "settled")
    assert deletions(victims, engine) == {404: 1}
    assert metric(engine, "moonfence_actions_total") == 1
    assert metric(engine, "moonfence_actions_total", result="already_gone") == 1
