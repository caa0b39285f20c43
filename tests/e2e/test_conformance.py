"""scripts/conformance: no row loses its tests unseen. Needs no cluster."""

import subprocess

import pytest

from .control_plane import REPO

ROWS = "# a remark\n\nE-01 core It turns.\nE-02 more It turns too.\nLH-01 core Nothing.\nSO-25 more Polls.\n"
FILES = {
    "tests/conformance/rows.txt": ROWS,
    "policies/longhorn/policy_test.lua": 'case { name = "LH-01 SO-25 nothing", objects = x },\n'
                                         'case { name = "another than LH-01" },\n',
    "tests/scenarios/E-01-turns.txt": "name x\n",
    "tests/unit/fence/desk_test.cc": "// E-02 in passing\nTEST(Desk, turns) {  // row E-01\n}\n"
                                     "TEST_F(Desk, SO_25_polls) {\n}\n",
    "tests/e2e/test_turns.py": 'def test_it():\n    """E-01, after a while."""\n',
}


@pytest.fixture(name="run")
def fixture_run(tmp_path):
    """run(*ARGUMENTS, **{path: text or None to remove}): (exit code, all it said)"""
    (tmp_path / "docs").mkdir()

    def run(*arguments, files=None):
        for path, text in (files or {}).items():
            place = tmp_path / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        done = subprocess.run([REPO / "scripts/conformance", "--root", tmp_path, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout

    run.page = tmp_path / "docs/conformance.md"
    assert run(files=FILES) == (0, "conformance: 3 of 4 rows have a test\n")
    return run


def row(run, name):
    return next(line for line in run.page.read_text().splitlines() if line.startswith(f"| {name}")).split(" | ")[2]


def test_a_row_has_the_tests_that_carry_its_id(run):
    assert row(run, "E-01*") == ("[scenarios/E-01-turns.txt](../tests/scenarios/E-01-turns.txt), "
                                 "[unit/fence/desk_test.cc](../tests/unit/fence/desk_test.cc), "
                                 "[e2e/test_turns.py](../tests/e2e/test_turns.py) |")
    assert row(run, "LH-01*") == "[policies/longhorn](../policies/longhorn/policy_test.lua) |"
    assert "policies/longhorn" in row(run, "SO-25") and "desk_test.cc" in row(run, "SO-25")


def test_a_row_without_a_test_is_missing(run):
    assert row(run, "E-02") == "**missing** |"
    assert run("--check") == (0, "conformance: 3 of 4 rows have a test\n")


def test_a_page_that_is_stale_fails(run):
    code, said = run("--check", files={"tests/scenarios/E-02-turns.txt": "name x\n"})
    assert code == 1 and "docs/conformance.md is stale" in said
    assert run()[0] == 0 and run("--check")[0] == 0


def test_a_row_may_not_lose_its_tests_unless_that_is_said(run):
    lost = {"policies/longhorn/policy_test.lua": 'case { name = "renamed" },\n'}
    for arguments in (["--check"], []):
        code, said = run(*arguments, files=lost)
        assert code == 1 and "LH-01 had a test and has none" in said
    assert run("--lost", "LH-01")[0] == 0
    assert run("--check") == (0, "conformance: 2 of 4 rows have a test\n")


def test_an_id_that_is_no_row_fails(run):
    code, said = run(files={"tests/scenarios/LH-77-typo.txt": "name x\n"})
    assert code == 1 and "lacks LH-77, carried by tests/scenarios/LH-77-typo.txt" in said


@pytest.mark.parametrize("line", ["E-01 core Again.", "E-03 important It.", "X-01 core It.", "E-03 core"])
def test_a_bad_row_says_where(run, line):
    code, said = run(files={"tests/conformance/rows.txt": ROWS + line + "\n"})
    assert code == 1 and "tests/conformance/rows.txt:7:" in said


def test_the_repository_is_as_the_page_says():
    done = subprocess.run([REPO / "scripts/conformance", "--check"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    assert done.returncode == 0, done.stdout
