"""scripts/check-safety: no hazard is forgotten, and every test named for one exists. Needs no cluster."""

import subprocess

import pytest

from .control_plane import REPO

TESTS = "`IncidentsTest.looks`, `test_it`, `scenarios/E-01-turns`, `hostile/01_loop`"
FILES = {
    "tests/conformance/rows.txt": "E-01 core It turns.\n",
    "tests/unit/fence/incident/incidents_test.cc": "TEST_F(IncidentsTest, looks) {\n}\n",
    "tests/e2e/test_turns.py": "def test_it():\n    pass\n",
    "tests/machines/test_power.py": "def test_power():\n    pass\n",
    "tests/scenarios/E-01-turns.txt": "name x\n",
    "tests/hostile/01_loop.lua": "while true do end\n",
    "tests/mutations/blind.patch": "It does not look.\n\nCaught by: OtherTest.looks, IncidentsTest.looks\n",
    "tests/mutations/deaf.patch": "It does not listen.\n\nCaught by: IncidentsTest.listens\n",
    "tests/mutations/mute.patch": "It does not speak.\n",
}


def page(handled=range(4, 51), limits=(2,), tests=TESTS, mutation="`blind`", why="Row E-01 says so."):
    return "\n".join([
        "# Safety", "### Handled",
        *(f"| H{number} | It falls. | It is caught. | {tests} | {mutation} |" for number in handled),
        "### Not applicable", "| H1 | It falls. | It cannot. |",
        "### Limits", *(f"| H{number} | It falls. | {why} |" for number in limits),
        "### Open", "| H3 | It falls. | A net. | A better one. |", ""])


@pytest.fixture(name="check")
def fixture_check(tmp_path):
    """check(the text of the page) -> (exit code, all it said)"""
    for path, text in FILES.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    (tmp_path / "docs").mkdir()

    def check(text, field=""):
        (tmp_path / "docs/safety.md").write_text(text)
        (tmp_path / "docs/field-faults.md").write_text(field)
        done = subprocess.run([REPO / "scripts/check-safety", "--root", tmp_path], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout
    return check


def test_a_complete_page_passes(check):
    assert check(page()) == (0, "safety: 47 handled, 1 not applicable, 1 limits, 1 open\n")


@pytest.mark.parametrize("handled, said", [
    (range(5, 51), "H4 is there 0 times"),
    ([4, *range(4, 51)], "H4 is there 2 times"),
    (range(4, 52), "H51 is no hazard"),
])
def test_every_hazard_is_there_once(check, handled, said):
    assert check(page(handled)) == (1, f"docs/safety.md: {said}\n")


@pytest.mark.parametrize("name", ["IncidentsTest.sleeps", "test_that", "scenarios/E-02-turns", "hostile/02_loop"])
def test_a_test_that_does_not_exist_fails(check, name):
    assert check(page(tests=f"`IncidentsTest.looks`, `{name}`")) == (1, f"docs/safety.md: no test is called {name}\n")


def test_a_test_is_looked_for_outside_the_tables_and_in_prose_too(check):
    assert check(page(why="`IncidentsTest.sleeps`")) == (1, "docs/safety.md: no test is called IncidentsTest.sleeps\n")


@pytest.mark.parametrize("tests", ["the tests", "IncidentsTest.looks", "`IncidentsTest.looks`, `looks`"])
def test_a_handled_hazard_names_its_tests(check, tests):
    code, said = check(page(tests=tests))
    assert code == 1 and "docs/safety.md: H4 is handled and does not name its tests" in said


@pytest.mark.parametrize("mutation, code", [("none", 1), ("`blind`, `blind`", 0), ("`dumb`", 1), ("`blind`, `dumb`", 1)])
def test_a_handled_hazard_names_a_mutation_that_exists(check, mutation, code):
    done, said = check(page(mutation=mutation))
    assert done == code and ("H4: no mutation is called " in said) == bool(code)


@pytest.mark.parametrize("mutation", ["deaf", "mute"])
def test_one_of_the_tests_of_a_hazard_catches_its_mutation(check, mutation):
    code, said = check(page(mutation=f"`{mutation}`"))
    assert code == 1 and f"H4: none of its tests catches `{mutation}`, by what the mutation says" in said


@pytest.mark.parametrize("words, said", [
    ("`IncidentsTest.looks`, `….sleeps`", "test is called IncidentsTest.sleeps"), ("`DreamTest`", "suite is called DreamTest"),
    ("`test_that_is_not_there`", "test is called test_that_is_not_there")])
def test_what_the_field_faults_name_is_there(check, words, said):
    assert check(page(), "| 1. | `fence/incident/incidents` | `IncidentsTest.looks`, `IncidentsTest`, `test_it`, `test_power` |")[0] == 0
    assert check(page(), f"| 1. | `fence/incident/incidents` | {words} |") == (1, f"docs/field-faults.md: no {said}\n")


def test_a_row_that_does_not_exist_fails(check):
    assert check(page(why="Row E-02 says so.")) == (
        1, "docs/safety.md: no row of tests/conformance/rows.txt is called E-02\n")


@pytest.mark.parametrize("count, code", [(12, 0), (13, 1)])
def test_there_are_twelve_limits_at_most(check, count, code):
    limits = [2, *range(4, 3 + count)]
    done, said = check(page(range(3 + count, 51), limits))
    assert done == code and ("13 limits are more than 12" in said) == bool(code)


def test_a_limit_has_its_reason_and_a_row_stands_in_a_known_table(check):
    assert "H2: 3 columns are expected under 'Limits'" in check(page(why=""))[1]
    assert "H3: no columns are expected under 'Elsewhere'" in check(page().replace("### Open", "### Elsewhere"))[1]


def test_the_repository_passes():
    done = subprocess.run([REPO / "scripts/check-safety"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout
