"""What the documents show is what the commands print."""

import pytest

from .control_plane import REPO
from .documents import Session, commands, follow, steady


@pytest.mark.parametrize("name", ["simulation", "writing-policies", "operations", "observing"])
def test_a_document_shows_what_is_printed(name, tmp_path):
    seen = follow((REPO / "docs" / f"{name}.md").read_text(), tmp_path)
    assert len(seen) >= {"operations": 4, "observing": 1}.get(name, 5), "its sessions were not found"
    for command, said, printed in seen:
        assert steady(said) == steady(printed), command


def test_the_readme_shows_what_scripts_run_shows(tmp_path):
    shown = (REPO / "README.md").read_text().split("$ ./scripts/run\nrun: building moonfence\n")[1].split("```")[0]
    assert Session(tmp_path).run("moonfence simulate") == shown


def test_a_session_is_read_command_by_command():
    assert commands("$ a\n1\n2\n$ b\n") == [("a", "1\n2\n"), ("b", "")]
    with pytest.raises(AssertionError):
        commands("1\n$ a\n")
