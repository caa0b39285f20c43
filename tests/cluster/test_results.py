"""The table of durations, from results made by hand."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from . import results

TESTS = Path(__file__).resolve().parents[1]


def result(failure="power-off", settings="fast", **more) -> dict:
    return {"failure": failure, "settings": settings, "kubernetes": "v1.37.2", "volumes": ["fenced"], "not_ready": 8.0,
            "first_deletion": 8.5, "running_elsewhere": {"plain": 9.0, "web": 9.5, "fenced": 11.0, "once": 18.0},
            "two_writers": {"fenced": None}, **more}


def rows(told: str) -> list:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in told.splitlines()
            if line.startswith("|") and "---" not in line]


def test_a_failure_is_a_row_with_the_median_and_the_worst():
    head, only = rows(results.table([result(), result(not_ready=9.0), result(not_ready=8.2)]))
    assert head == list(results.HEAD)
    assert only == ["power-off", "3", "8.2 (9.0)", "8.5 (8.5)", "9.5 (9.5)", "11.0 (11.0)", "18.0 (18.0)", results.NONE]


def test_what_did_not_happen_each_time_says_how_often_it_did():
    cut = [result("cut", two_writers={"fenced": None, "risked": seconds}) for seconds in (20.0, None, 24.0)]
    never = result("reboot", not_ready=None, first_deletion=None, running_elsewhere={})
    _, first, second = rows(results.table([*cut, never]))
    assert first[-1] == "22.0 (24.0), 2 of 3"
    assert second == ["reboot", "1", *[results.NONE] * 6]


def test_other_settings_and_other_versions_have_tables_of_their_own():
    told = results.table([result(), result(settings="stock"), result(kubernetes="v1.34.4"), result("cut")])
    assert [line for line in told.splitlines() if line.endswith(":")] == [
        "Kubernetes v1.34.4, settings `fast`:", "Kubernetes v1.37.2, settings `fast`:",
        "Kubernetes v1.37.2, settings `stock`:"]
    assert [row[0] for row in rows(told)].count("failure") == 3


def test_results_of_another_kind_are_left_out():
    assert results.durations([result(), {"failure": "handed back", "lifted": 40.0}]) == [result()]


def test_results_of_two_runs_at_once_are_all_kept(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    monkeypatch.setenv(results.FILE, str(file))
    keep = "from cluster import results\nfor number in range(50): results.keep({'number': number})"
    runs = [subprocess.Popen([sys.executable, "-B", "-c", keep], cwd=TESTS) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    assert sorted(each["number"] for each in json.loads(file.read_text())) == sorted([*range(50), *range(50)])


@pytest.mark.parametrize("text, says", [
    (None, "no such file"), ("{", "is not a list of results"), ("[1]", "is not a list of results")])
def test_a_file_that_is_none_is_told_in_one_line(tmp_path, text, says):
    file = tmp_path / "results.json"
    if text is not None:
        file.write_text(text)
    done = subprocess.run([sys.executable, "-B", "-m", "cluster.cli", "results", file], cwd=TESTS, capture_output=True,
                          text=True)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith(f"machines: error: {file}: {says}")
