"""`moonfence simulate`: the binary's built-in scenarios, their facts, and how a run ends."""

import json
import shutil
import signal
import subprocess
import time

import pytest

from .control_plane import REPO
from .engine import binary

SCENARIOS = sorted(file.stem for file in (REPO / "engine" / "sim" / "scenarios" / "builtin").glob("*.txt"))


def simulate(*words, **more):
    return subprocess.run([binary(), "simulate", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=120, **more)


def summary(*words) -> dict:
    done = simulate("--json", *words)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert "scenario" in lines[0] and all("at" in line for line in lines[1:-1])
    return lines[-1]["summary"]


def pods(facts: dict) -> dict:
    """{pod of the lost node: facts}"""
    return {pod["pod"]: pod for pod in facts["nodes"][0]["pods"]}


def test_the_built_in_scenarios_are_listed():
    listed = [line.split()[0] for line in simulate("--list").stdout.splitlines()]
    assert listed == SCENARIOS and len(listed) >= 4


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_built_in_scenario_goes_as_expected_and_the_same_way_twice(name):
    first, second = summary(name), summary(name)
    assert first["violations"] == [] and first["failures"] == []
    assert first["incidentsOpened"] >= 1
    assert first["auditHash"] == second["auditHash"]


def test_the_loss_of_a_node():
    facts = summary("node-loss")
    node = facts["nodes"][0]
    assert (node["node"], node["how"], node["ready"]) == ("n1", "power-off", "Unknown")
    assert 30 < node["noticed"] < 60
    fates = pods(facts)
    moved = {name: pod for name, pod in fates.items() if "db-pg" not in name}
    assert len(moved) == 3 and facts["deletions"] == 3
    for pod in moved.values():
        assert pod["reason"] == "policy_deletes_pod"
        assert pod["moonfence"]["running"] - node["noticed"] < 5
        assert pod["moonfence"]["node"] in ("n2", "n3")
    assert fates["noobaa/noobaa-core-0"]["stock"]["running"] is None, "Kubernetes alone never moves it"
    endpoints = [pod for name, pod in moved.items() if "endpoint" in name]
    assert all(300 < pod["stock"]["running"] < 420 for pod in endpoints), "after five minutes"
    database = fates["noobaa/noobaa-db-pg-0"]
    assert database["reason"] == "policy_skips" and database["moonfence"]["deleted"] is None


def test_a_node_that_comes_back_in_the_middle():
    facts = summary("node-returns")
    fates = pods(facts)
    assert fates["noobaa/noobaa-core-0"]["moonfence"]["running"]
    assert fates["noobaa/noobaa-core-1"]["moonfence"]["stays"]
    assert facts["deletions"] == 1


def test_a_reload_in_the_middle():
    facts = summary("reload")
    for pod in pods(facts).values():
        assert 55 < pod["moonfence"]["deleted"] < 60, "only once the mode is enforce, at 60 s"


def test_a_policy_error():
    fates = pods(summary("policy-error"))
    assert fates["shop/orders-1"]["reason"] == "policy_failed" and fates["shop/orders-1"]["moonfence"]["deleted"] is None
    assert all(pod["moonfence"]["running"] for name, pod in fates.items() if name != "shop/orders-1")


def test_another_setting_of_the_policy():
    facts = summary("node-loss", "--set", "noobaa.db=pod")
    assert pods(facts)["noobaa/noobaa-db-pg-0"]["moonfence"]["deleted"]


def test_policies_of_a_folder(tmp_path):
    (tmp_path / "moonfence.yaml").write_text(
        "api: 1\nbindings:\n- {policy: nothing, source: nothing.lua, namespaces: [noobaa], mode: enforce}\n")
    (tmp_path / "nothing.lua").write_text(
        'return policy { api = 1, name = "nothing", version = "1.0.0", summary = "Leaves everything alone",\n'
        '  pod = function() return fence.skip("it is a rehearsal") end }\n')
    facts = summary("node-loss", "--policies", str(tmp_path))
    assert facts["deletions"] == 0
    assert all(pod["text"] == "it is a rehearsal" for pod in pods(facts).values())


def test_text_is_plain_unless_it_is_for_a_terminal():
    done = simulate("node-loss")
    assert done.returncode == 0 and "\x1b" not in done.stdout
    assert "stock Kubernetes" in done.stdout and "moonfence deleted 3 pods in 1 incident." in done.stdout


@pytest.mark.parametrize("words, code, said", [
    (["node-los"], 3, "did you mean 'node-loss'?"),
    (["--set", "x"], 2, "is no KEY=VALUE"),
    (["--policies", "/nowhere"], 3, "is no folder"),
])
def test_what_is_wrong_is_said(words, code, said):
    done = simulate(*words)
    assert done.returncode == code and said in done.stderr and done.stdout == ""


def test_an_expectation_that_is_not_met_fails(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("name nothing happens\nworld nodes n1\nexpect incident n1 opened\nlength 5s\n")
    done = simulate(str(file))
    assert done.returncode == 1
    assert f"{file}:3: expect incident n1 opened: it happened 0 times" in done.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_can_be_interrupted(number):
    running = subprocess.Popen([binary(), "simulate", "--speed", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
    assert running.stdout.readline()  # it takes signals before it says anything
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130 and err == ""
    assert "interrupted; what follows is how far it came" in out


def test_a_pace_is_kept():
    begin = time.monotonic()
    assert simulate("node-loss", "--speed", "30").returncode == 0
    # the claim is a duration; a busy machine makes it longer, never shorter
    assert time.monotonic() - begin > 1.8


@pytest.fixture
def run_script(tmp_path):
    """scripts/run as it is, with a build that takes no time."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(REPO / "scripts" / "run", scripts)
    (scripts / "setup").write_text("#!/bin/sh\n")
    (scripts / "setup").chmod(0o755)
    (scripts / "lib.sh").write_text(
        (REPO / "scripts" / "lib.sh").read_text() +
        f"build() {{ mkdir -p build/release && ln -sf {binary()} build/release/moonfence; }}\n")

    def run(*words):
        return subprocess.run([scripts / "run", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
    return run


def test_scripts_run_shows_a_failover_without_a_cluster(run_script):
    done = run_script()
    assert done.returncode == 0, done.stderr
    assert "noobaa/noobaa-core-0 is Running on n" in done.stdout and "stock Kubernetes" in done.stdout


def test_scripts_run_hands_its_words_on(run_script):
    assert "policy-error" in run_script("--list").stdout
    assert run_script("--real", "more").returncode == 2
