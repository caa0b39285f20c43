"""scripts/conformance: no row loses its tests unseen. Needs no cluster."""

import os
import shutil
import subprocess

import pytest

from .control_plane import REPO
from .engine import binary

ROWS = "# a remark\n\nE-01 core It turns.\nE-02 more It turns too.\nLH-01 core Nothing.\nSO-25 more Polls.\n"
FILES = {
    "tests/conformance/rows.txt": ROWS,
    "policies/longhorn/policy_test.lua": 'case { name = "LH-01 SO-25 nothing", objects = x },\n'
                                         'case { name = "another than LH-01" },\n',
    "tests/scenarios/E-01-turns.txt": "name x\n",
    "tests/unit/fence/incident/desk_test.cc": "// E-02 in passing\nTEST(Desk, turns) {  // row E-01\n}\n"
                                     "TEST_F(Desk, SO_25_polls) {\n}\n",
    "tests/e2e/test_turns.py": 'def test_e_01_it():\n    """E-02, after a while."""\ndef test_lh_01_it():\n    pass\n',
    "tests/conformance/mutations.txt": "# a remark\nE-01 engine turned\nLH-01 longhorn: else return => elseif return\n",
    "tests/mutations/turned.patch": "It turns no more.\n",
    "policies/longhorn/policy.lua": "if a then return b else return c end\n",
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
    assert run(files=FILES) == (0, "conformance: 4 of 4 rows have a test\n")
    return run


def row(run, name):
    """What stands in its columns: simulated, real, mutation."""
    line = next(line for line in run.page.read_text().splitlines() if line.startswith(f"| {name}"))
    return [cell.strip() for cell in line.split("|")[3:6]]


def test_a_row_has_the_tests_that_carry_its_id_and_its_mutation(run):
    assert row(run, "E-01*") == [
        "[E-01-turns](../tests/scenarios/E-01-turns.txt), [incident/desk](../tests/unit/fence/incident/desk_test.cc)",
        "[test_turns](../tests/e2e/test_turns.py)", "[turned](../tests/mutations/turned.patch)"]
    assert row(run, "LH-01*") == ["[policies/longhorn](../policies/longhorn/policy_test.lua)",
                                  "[test_turns](../tests/e2e/test_turns.py)", "`else return` → `elseif return`"]
    assert row(run, "E-02")[1] == "[test_turns](../tests/e2e/test_turns.py)"
    assert "policies/longhorn" in row(run, "SO-25")[0] and "desk_test.cc" in row(run, "SO-25")[0]
    assert run("--check") == (0, "conformance: 4 of 4 rows have a test\n")


def test_a_row_without_a_test_is_missing(run):
    run(files={"tests/conformance/rows.txt": ROWS + "E-03 more It may turn.\n"})
    assert row(run, "E-03") == ["**missing**", "", ""]
    assert run("--check") == (0, "conformance: 4 of 5 rows have a test\n")


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


@pytest.mark.parametrize("lost, lacks", [
    ({"policies/longhorn/policy_test.lua": 'case { name = "renamed" },\n'}, "LH-01 simulated"),
    ({"tests/e2e/test_turns.py": 'def test_it():\n    """E-01, LH-01."""\n'}, "E-01 real, LH-01 real"),
    ({"tests/conformance/mutations.txt": "E-01 engine turned\n"}, "LH-01 mutation")])
def test_a_core_row_lacks_nothing_unless_that_is_explained(run, lost, lacks):
    assert run("--lost", "LH-01", "--lost", "E-02", files=lost)[0] == 0
    code, said = run("--check")
    assert code == 1 and said == f"conformance: core rows that lack something: {lacks}\n"
    gaps = "".join(f"{each} it is not wanted\n" for each in lacks.split(", "))
    if "mutation" in lacks or "simulated" in lacks:
        run(files={"tests/conformance/gaps.txt": gaps})
        assert run("--check")[0] == 0 and "none: it is not wanted" in run.page.read_text()


def test_a_gap_that_is_none_fails(run):
    code, said = run(files={"tests/conformance/gaps.txt": "LH-01 real it is not wanted\n"})
    assert code == 1 and "LH-01 has what it is said to lack (real)" in said


@pytest.mark.parametrize("line, why", [
    ("E-01 engine other", "there is no tests/mutations/other.patch"), ("E-77 engine turned", "there is no row E-77"),
    ("LH-01 longhorn: return => error", "'return' is 2 times in the policy longhorn, not once"),
    ("LH-01 elsewhere: a => b", "'a' is 0 times in the policy elsewhere"), ("LH-01 longhorn", "expected `ROW POLICY")])
def test_a_mutation_that_cannot_be_made_fails(run, line, why):
    code, said = run("--check", files={"tests/conformance/mutations.txt": f"{line}\n"})
    assert code == 1 and f"tests/conformance/mutations.txt:1: {why}" in said


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


def test_every_mutation_of_a_policy_is_noticed_by_the_tests_of_its_row():
    done = subprocess.run([REPO / "scripts/conformance", "--mutations"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, env={**os.environ, "MOONFENCE_BINARY": str(binary())})
    assert done.returncode == 0 and done.stdout.endswith(" passed, 0 failed\n"), done.stdout


def test_a_mutation_that_nobody_notices_survives(tmp_path):
    """The tool can fail: what changes only a reason is noticed by no case of this row."""
    for part in ("policies/noobaa", "tests/conformance", "tests/mutations"):
        shutil.copytree(REPO / part, tmp_path / part)
    place = tmp_path / "tests/conformance/mutations.txt"
    place.write_text("NB-02 noobaa: NooBaa pod on a node that is not Ready => gone\n")
    done = subprocess.run([REPO / "scripts/conformance", "--root", tmp_path, "--mutations"], stdout=subprocess.PIPE,
                          text=True, check=False, env={**os.environ, "MOONFENCE_BINARY": str(binary())})
    assert done.returncode == 1 and "SURVIVED NB-02 noobaa" in done.stdout
