"""Documents whose commands are run. In a Markdown file,

    <!-- file: NAME -->     the block that follows is that file
    <!-- run -->            the block that follows is a session: lines "$ COMMAND", each with what it prints
    <!-- run: STAGE -->     the same on a cluster at that stage (document_cluster.py); ID stands for its incident's

all in one empty folder, from top to bottom. `python3 -m e2e.documents FILE` (PYTHONPATH=tests) writes down what the
commands print.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .document_cluster import document_cluster
from .engine import binary

BLOCK = re.compile(r"<!-- (file: (?P<name>\S+)|run(: (?P<stage>\w+))?) -->\n```\w+\n(?P<text>.*?)```\n", re.S)
VARYING = [(re.compile(r" +\d+ us"), " N us"), (re.compile(r" +\d+ instr"), " N instr"),
           (re.compile(r"\d+ instructions, \d+ us, \d+ bytes"), "N instructions"),
           (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "UID"),
           (re.compile(r"\b[0-9a-f]{10}\b"), "ID"), (re.compile(r"_[0-9a-f]{20}\b"), "_TERM"),
           (re.compile(r"(sha256:)[0-9a-f]{12}"), r"\1DIGEST"), (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "TIME"),
           (re.compile(r"version \d+ read"), "version N read"), (re.compile(r"(renewed|after|\+) ?(\d+(h|ms|m|s))+"), r"\1 N"),
           (re.compile(r" {2,}"), "  ")]


def commands(session: str) -> list:
    """[(command, what the document says it prints)]"""
    found = re.split(r"^\$ (.*)\n", session, flags=re.M)
    assert found[0] == "", f"a session begins with a command: {found[0]!r}"
    return list(zip(found[1::2], found[2::2]))


def steady(text: str) -> str:
    """Without the figures that differ from run to run."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


class Session:
    """Follows a document in a folder of its own, and on a cluster where it asks for one."""

    def __init__(self, folder: Path, cluster=None):
        self.folder, self.cluster = folder, cluster
        tools = folder / ".tools"
        tools.mkdir()
        (tools / "moonfence").symlink_to(binary())
        self.env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def write(self, name: str, text: str):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def session(self, block) -> list:
        """[(command, what the document says, what it printed)]"""
        if block["stage"]:
            self.cluster.reach(block["stage"])
            self.env["KUBECONFIG"] = str(self.cluster.kubeconfig)
        return [(command, said, self.run(self.spelt_out(command))) for command, said in commands(block["text"])]

    def spelt_out(self, command: str) -> str:
        for word, meant in (self.cluster.words if self.cluster else {}).items():
            command = re.sub(rf"\b{word}\b", meant, command)
        return command

    def run(self, command: str) -> str:
        done = subprocess.run(command, shell=True, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"


@contextlib.contextmanager
def session_for(document: str, folder: Path):
    if "<!-- run: " in document:
        with document_cluster() as cluster:
            yield Session(folder, cluster)
    else:
        yield Session(folder)


def follow(document: str, folder: Path) -> list:
    """[(command, what the document says, what it printed)]"""
    seen = []
    with session_for(document, folder) as session:
        for block in BLOCK.finditer(document):
            if block["name"]:
                session.write(block["name"], block["text"])
            else:
                seen += session.session(block)
    return seen


def rewritten(document: str, folder: Path) -> str:
    with session_for(document, folder) as session:
        def fresh(block):
            if block["name"]:
                session.write(block["name"], block["text"])
                return block[0]
            text = "".join(f"$ {command}\n{printed}" for command, _, printed in session.session(block))
            return block[0].replace(block["text"], text)
        return BLOCK.sub(fresh, document)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        file.write_text(rewritten(file.read_text(), Path(place)))
