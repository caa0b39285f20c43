"""Which room may include which, checked against the compiler's real search path.

The include directories come from the compile commands of the build, so what is tested is what the build does. A room
that sees what it must not would let an upward include slip in.
"""
import json
import pathlib
import re
import shlex
import subprocess
import sys

# layer -> what it may see beside itself (docs/architecture.md)
MAY_SEE = {
    "base": set(),
    "port": {"base"},
    "loop": {"base"},
    "audit": {"base", "port"},
    "kube": {"base", "port", "loop"},
    "cluster": {"base", "port", "loop", "kube"},
    "policy": {"base", "port", "loop", "kube"},
    "fence": {"base", "port", "loop", "kube", "cluster", "policy", "audit"},
    "os": {"base", "port", "loop"},
    "sim": {"base", "port", "loop"},
    "app": {"base", "port", "loop", "kube", "cluster", "policy", "audit", "fence", "os", "sim"},
}
# Rooms of the daemon, which must not see those of the commands.
DAEMON = ("app/settings", "app/status", "app/delivery", "app/telling", "app/webhook", "app/traces", "app/policies", "app/machines", "app/engine", "app/web", "app/serving", "app/daemon")
COMMANDS = ("app/rehearsal", "app/terminal", "app/cluster_commands", "app/policy_commands", "app/simulate", "app/cli",
            "policy/kit", "os/tools", "sim/")
MOST_FILES = 25
ENGINE = pathlib.Path("engine")
PAGE = pathlib.Path("docs/architecture.md")


def rooms():
    """Folder below engine/ -> one of its headers."""
    found = {}
    for folder in sorted(path for path in ENGINE.rglob("*") if path.is_dir()):
        headers = sorted(folder.glob("*.h"))
        if headers:
            found[str(folder.relative_to(ENGINE))] = headers[0].name
    return found


def include_flags(commands, room):
    """The -I and -isystem flags with which the room's sources are compiled; None: it has no source."""
    for command in commands:
        if str(pathlib.Path(command["file"]).parent).endswith(f"/engine/{room}"):
            words = shlex.split(command["command"])
            flags = [word for word in words if word.startswith("-I")]
            for i, word in enumerate(words):
                if word == "-isystem":
                    flags += [word, words[i + 1]]
            return flags
    return None


def seen_with(flags, headers):
    """The rooms whose headers that search path finds."""
    lines = [f'#if __has_include("{room}/{header}")\nsees {room}\n#endif' for room, header in headers.items()]
    run = subprocess.run(["g++", "-std=c++20", "-E", "-P", *flags, "-x", "c++", "-"], input="\n".join(lines),
                         capture_output=True, text=True, check=True)
    return {line.removeprefix("sees ").replace(" ", "") for line in run.stdout.splitlines() if line.startswith("sees ")}


def faults_of(sees):
    """sees: room -> rooms."""
    for room, others in sees.items():
        layer = room.split("/")[0]
        if room not in others:
            yield f"{room} does not see itself: nothing was checked"
        for other in sorted(others - {room}):
            theirs = other.split("/")[0]
            if theirs != layer and theirs not in MAY_SEE[layer]:
                yield f"{room} sees {other}, and {layer} must not see {theirs}"
            if room in sees.get(other, ()):
                yield f"{room} and {other} see each other"
            if room in DAEMON and other.startswith(COMMANDS):
                yield f"{room} sees {other}: it is the daemon's, and that is the commands'"
    for layer, named in MAY_SEE.items():
        of_layer = [others for room, others in sees.items() if room.split("/")[0] == layer]
        for other in sorted(named):
            if of_layer and not any(seen.split("/")[0] == other for others in of_layer for seen in others):
                yield f"nothing in {layer} sees {other}: it is allowed for nothing"


def faults_of_page(headers):
    """The page names every room, and nothing that is not there."""
    text = PAGE.read_text()
    told = set(re.findall(r"^\| `([a-z_/]+)` \|", text, re.MULTILINE))
    for room in sorted(told ^ set(headers)):
        yield f"{PAGE}: {room} is {'no room' if room in told else 'missing in the table of rooms'}"
    for path in re.findall(r"`(engine/[\w./]+)`", text):
        if not pathlib.Path(path).exists():
            yield f"{PAGE}: {path} does not exist"


def main(build):
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    headers = rooms()
    sees = {}
    for room in headers:
        flags = include_flags(commands, room)
        if flags is not None:
            sees[room] = seen_with(flags, headers)
    wrong = sorted(set(faults_of(sees))) + list(faults_of_page(headers))
    for room in headers:
        files = sum(1 for file in (ENGINE / room).iterdir() if file.is_file())
        if files > MOST_FILES:
            wrong.append(f"{room} has {files} files; no room has more than {MOST_FILES}")
    for line in wrong:
        print(f"check-layers: {line}", file=sys.stderr)
    print(f"check-layers: {len(headers)} rooms, {len(sees)} of them with sources, {len(wrong)} faults")
    return 1 if wrong or not sees else 0


sys.exit(main(sys.argv[1]))
