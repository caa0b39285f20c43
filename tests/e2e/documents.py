"""Documents whose commands are run. In a Markdown file,

    <!-- file: NAME -->     the block that follows is that file
    <!-- run -->            the block that follows is a session: lines "$ COMMAND", each with what it prints

all in one empty folder, from top to bottom. `python3 -m e2e.documents FILE` (PYTHONPATH=tests) writes down what the
commands print.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .engine import binary

BLOCK = re.compile(r"<!-- (file: (?P<name>\S+)|run) -->\n```\w+\n(?P<text>.*?)```\n", re.S)
VARYING = [(re.compile(r" +\d+ us"), " N us"), (re.compile(r" +\d+ instr"), " N instr"),
           (re.compile(r"\d+ instructions, \d+ us, \d+ bytes"), "N instructions")]


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
    """Follows a document in a folder of its own."""

    def __init__(self, folder: Path):
        self.folder = folder
        tools = folder / ".tools"
        tools.mkdir()
        (tools / "moonfence").symlink_to(binary())
        self.env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}

    def write(self, name: str, text: str):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def run(self, command: str) -> str:
        done = subprocess.run(command, shell=True, cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"


def follow(document: str, folder: Path) -> list:
    """[(command, what the document says, what it printed)]"""
    session, seen = Session(folder), []
    for block in BLOCK.finditer(document):
        if block["name"]:
            session.write(block["name"], block["text"])
        else:
            seen += [(command, said, session.run(command)) for command, said in commands(block["text"])]
    return seen


def rewritten(document: str, folder: Path) -> str:
    session = Session(folder)

    def fresh(block):
        if block["name"]:
            session.write(block["name"], block["text"])
            return block[0]
        text = "".join(f"$ {command}\n{session.run(command)}" for command, _ in commands(block["text"]))
        return block[0].replace(block["text"], text)
    return BLOCK.sub(fresh, document)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        file.write_text(rewritten(file.read_text(), Path(place)))
