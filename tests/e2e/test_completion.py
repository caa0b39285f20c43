"""Completions in the shells themselves: what bash, zsh and fish offer, from the files as a package installs them."""

import os
import pty
import re
import select
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from .engine import binary

SHELLS = ("bash", "zsh", "fish")
FORMS = ["json", "table", "wide", "yaml"]
# What compadd is given ends up in a file; the shell is used as a person does, through a terminal.
ZSH_ASKS = """
zmodload zsh/zpty
zpty -b shell zsh -f -i
zpty -w shell "cd $2; fpath=($2/fpath \\$fpath); autoload -Uz compinit; compinit -u -D"
zpty -w shell 'compadd() { local -a hits; [[ ${@[(I)-[AOD]]} = 0 ]] && { builtin compadd -O hits "$@"; print -rl -- $hits >>$OUT; }; builtin compadd "$@"; }'
zpty -w shell 'probe() { zle complete-word; print -r -- END >>$OUT; }; zle -N probe; bindkey "^I" probe; print -r -- READY >>$OUT'
until grep -q READY $OUT; do zpty -rt shell ignored; sleep 0.02; done
: >$OUT
zpty -n -w shell "$1"$'\\t'
until grep -q END $OUT; do zpty -rt shell ignored; sleep 0.02; done
"""


def script(shell: str) -> str:
    return subprocess.run([binary(), "completion", shell], capture_output=True, text=True, check=True, timeout=30).stdout


def run(*words: str, **more) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


class Shell:
    """Where files are: below `folder`, which has plain.lua, 'two words.lua' and the folder rules."""

    def __init__(self, name: str, folder: Path):
        self.name, self.folder = name, folder
        (folder / "rules").mkdir()
        for file in ("plain.lua", "two words.lua", "rules/inner.lua"):
            (folder / file).write_text("")
        (folder / "bin").mkdir()
        for program in ("moonfence", "kubectl-moonfence"):  # fish completes only what there is
            (folder / "bin" / program).symlink_to(binary())
        self.env = {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "home/.config"),
                    "OUT": str(folder / "out"), "TERM": "dumb"}
        place = {"bash": "moonfence.bash", "zsh": "fpath/_moonfence", "fish": "home/.config/fish/completions/moonfence.fish"}[name]
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(script(name))
        (folder / "out").write_text("")

    def offers(self, line: str) -> list:
        return sorted(set(getattr(self, self.name)(line)))

    def bash(self, line: str) -> list:
        words = [part for word in (shlex.split(line) + ([""] if line.endswith(" ") else []))
                 for part in (re.split("(=)", word) if "=" in word else [word])]
        words = words[:-1] if words[-2:] == ["=", ""] else words
        asked = (f"COMP_WORDS=({' '.join(map(shlex.quote, words))}); COMP_CWORD={len(words) - 1}; "
                 f"_moonfence; [ ${{#COMPREPLY[@]}} = 0 ] || printf '%s\\n' \"${{COMPREPLY[@]}}\"")
        return run("bash", "-c", f". ./moonfence.bash; {asked}", cwd=self.folder, env=self.env).splitlines()

    def zsh(self, line: str) -> list:
        run("zsh", "-f", "-c", ZSH_ASKS, "zsh", line, str(self.folder), env=self.env, cwd=self.folder)
        return [hit for hit in (self.folder / "out").read_text().splitlines() if hit not in ("END", "")]

    def fish(self, line: str) -> list:
        asked = f"complete -C 'moonfence ' >/dev/null; complete -C {shlex.quote(line)}"
        told = run("fish", "-c", asked, env=self.env, cwd=self.folder)
        return [hit.split("\t")[0] for hit in told.splitlines()]


@pytest.fixture(params=SHELLS)
def shell(request, tmp_path) -> Shell:
    return Shell(request.param, tmp_path)


def test_it_is_a_script_of_its_shell(shell, tmp_path):
    (tmp_path / "script").write_text(script(shell.name))
    run(shell.name, "-n", str(tmp_path / "script"), env=shell.env)


def values(hits: list) -> list:
    """Of --output=json what follows the sign: fish offers the whole word."""
    return sorted(hit.split("=")[-1] for hit in hits)


def test_commands_options_and_their_words(shell):
    assert shell.offers("moonfence pl") == ["plan"]
    assert shell.offers("kubectl-moonfence stat") == ["status"]
    assert shell.offers("moonfence policy re") == ["replay"]
    assert shell.offers("moonfence plan n1 --assu") == ["--assume-down"]
    assert shell.offers("moonfence plan n1 -o ") == FORMS
    assert shell.offers("moonfence plan n1 -o j") == ["json"]
    assert values(shell.offers("moonfence plan n1 --output=")) == FORMS
    assert values(shell.offers("moonfence plan n1 --output=j")) == ["json"]
    assert shell.offers("moonfence run --mode ") == ["enforce", "observe", "off"]
    assert shell.offers("moonfence run --log-level w") == ["warning"]
    assert shell.offers("moonfence run --leader-elect ") == ["false", "true"]


@pytest.mark.parametrize("line", ["pl", "policy re", "plan n1 --assu", "plan n1 -o ", "run --mode ", "reason lease_al"])
def test_kubectl_is_told_what_bash_offers(tmp_path, line):
    """kubectl 1.26 and later ask a program of this name, in the form of cobra's completions."""
    bash, program = Shell("bash", tmp_path), tmp_path / "kubectl_complete-moonfence"
    program.symlink_to(binary())
    *hits, directive = run(str(program), *shlex.split(line), *([""] if line.endswith(" ") else [])).splitlines()
    assert sorted(hit.split("\t")[0] for hit in hits) == bash.offers(f"moonfence {line}") != []
    assert directive == ":4"


def test_words_that_the_program_knows(shell):
    assert shell.offers("moonfence completion ")[-3:] == ["bash", "fish", "zsh"]
    assert shell.offers("moonfence reason lease_a") == ["lease_alive"]
    known = {line.split()[0] for line in run(binary(), "reason").splitlines() if re.match("[a-z_]+ ", line)}
    assert known and known <= set(shell.offers("moonfence reason "))
    assert "noobaa" in shell.offers("moonfence policy doc noo")
    assert "node-loss" in shell.offers("moonfence simulate node-l")


def test_a_commands_own_words_and_no_others(shell):
    group = set(shell.offers("moonfence policy "))
    assert {"capture", "check", "doc", "eval", "list", "meta", "new", "replay", "test"} <= group and "plan" not in group
    assert not {word for word in group if word[0] != "-"} & set(shell.offers("moonfence policy eval "))
    # a value of an option, or a node, of a command's name changes nothing
    assert shell.offers("moonfence plan status --context run -o ") == FORMS


def test_files_only_where_files_belong(shell):
    assert {"plain.lua", "two words.lua"} <= {hit.replace("\\", "") for hit in shell.offers("moonfence plan n1 --policy ")}
    assert [hit.rstrip("/") for hit in shell.offers("moonfence policy capture n1 -o ru")] == ["rules"]
    assert "plain.lua" not in shell.offers("moonfence policy capture n1 -o ")
    assert "plain.lua" in shell.offers("moonfence policy check p")
    assert shell.offers("moonfence plan n1 --context ") == []
    assert shell.offers("moonfence plan p") == [] and shell.offers("moonfence p") == ["plan", "policy"]


def typed(command: list, env: dict, folder: Path, setup: str, line: str) -> str:
    """What a shell in a terminal prints for a line with tabs in it; the line says END at last."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, env)
    seen = b""

    def until(mark: bytes):
        nonlocal seen
        end = time.monotonic() + 20
        while mark not in seen:
            assert time.monotonic() < end, seen
            if select.select([terminal], [], [], 0.1)[0]:
                seen += os.read(terminal, 4096)
    try:
        os.write(terminal, f"{setup}; echo REA''DY\n".encode())
        until(b"READY")
        os.write(terminal, line.encode() + b"; echo EN''D\n")
        until(b"END\r\n")
        return seen.decode()
    finally:
        os.close(terminal)
        os.waitpid(child, 0)


def test_a_line_that_is_typed_in_bash(tmp_path):
    bash = Shell("bash", tmp_path)
    setup = ". ./moonfence.bash; moonfence() { printf '<%s>' \"$@\"; }"
    line = "moonfence pl\tn1 --assu\t--output=j\t --policy two\t --config ru\tin\t"
    seen = typed(["bash", "--norc", "--noprofile", "-i"], bash.env, tmp_path, setup, line)
    assert "<plan><n1><--assume-down><--output=json><--policy><two words.lua><--config><rules/inner.lua>" in seen, seen


def test_a_line_that_is_typed_in_zsh(tmp_path):
    zsh = Shell("zsh", tmp_path)
    setup = ("fpath=(./fpath $fpath); autoload -Uz compinit; compinit -u -D; moonfence() { printf '<%s>' \"$@\"; }")
    line = "moonfence pl\tn1 --assu\t--output=j\t --policy two\t --config ru\tin\t"
    seen = typed(["zsh", "-f", "-i"], zsh.env, tmp_path, setup, line)
    assert "<plan><n1><--assume-down><--output=json><--policy><two words.lua><--config><rules/inner.lua>" in seen, seen
