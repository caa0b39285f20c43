"""What the documents show is what the commands print, and what they and the sources refer to is there."""

import re
import subprocess

import pytest

from .control_plane import REPO
from .documents import Session, commands, follow, steady


@pytest.mark.parametrize("name", ["simulation", "writing-policies", "runbook"])
def test_a_document_shows_what_is_printed(name, tmp_path):
    seen = follow((REPO / "docs" / f"{name}.md").read_text(), tmp_path)
    assert len(seen) >= 5, "its sessions were not found"
    for command, said, printed in seen:
        assert steady(said) == steady(printed), command


def test_the_readme_shows_what_scripts_run_shows(tmp_path):
    shown = (REPO / "README.md").read_text().split("$ ./scripts/run\nrun: building moonfence\n")[1].split("```")[0]
    assert Session(tmp_path).run("moonfence simulate") == shown


def test_the_readme_shows_the_end_of_the_story_with_detection(tmp_path):
    shown = (REPO / "README.md").read_text().split("$ ./scripts/run detection\n[...]\n")[1].split("```")[0]
    said = Session(tmp_path).run("moonfence simulate detection")
    assert said.endswith("\n" + shown)


def test_a_session_is_read_command_by_command():
    assert commands("$ a\n1\n2\n$ b\n") == [("a", "1\n2\n"), ("b", "")]
    with pytest.raises(AssertionError):
        commands("1\n$ a\n")


# --- links

def tracked(*patterns) -> list:
    said = subprocess.run(["git", "ls-files", *patterns], cwd=REPO, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [REPO / name for name in said.splitlines() if (REPO / name).is_file()]


def anchors(page: str) -> set:
    """Those that GitHub makes of the headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page, flags=re.M | re.S), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\]\(.*?\)", "", heading).lower()).replace(" ", "-")
        found.add(next(each for number in range(99) if (each := f"{name}-{number}" if number else name) not in found))
    return found


def leads_nowhere(page, target: str) -> bool:
    name, _, anchor = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    return not file.exists() or bool(anchor) and anchor not in anchors(file.read_text())


def test_every_link_of_the_documents_leads_somewhere():
    pages = tracked("*.md")
    assert len(pages) > 30
    links = [(page, target) for page in pages for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text())
             if not re.match(r"[a-z]+:", target)]
    assert len(links) > 300
    assert [f"{page.relative_to(REPO)}: {target}" for page, target in links if leads_nowhere(page, target)] == []


def test_every_document_that_a_source_names_is_there():
    """In comments, messages and the alerts: docs/NAME.md, docs/NAME.md#anchor, docs/decisions/0001."""
    sources = tracked("engine/*", "tests/*", "scripts/*", "deploy/*", "policies/*", ":!tests/e2e/test_documents.py")
    named = {(str(path.relative_to(REPO)), name) for path in sources
             for name in re.findall(rb"\bdocs/[\w/-]+(?:\.(?:md|json)|(?<=\d{4})\b)(?:#[\w-]+)?", path.read_bytes())}
    assert len(named) > 50
    gone = [f"{file}: {name.decode()}" for file, name in named
            if not list((REPO / "docs/decisions").glob(f"{name.decode().rpartition('/')[2]}*.md"))
            and leads_nowhere(REPO / "README.md", name.decode())]
    assert gone == []
