"""Which layer may include which, checked against the compiler's real search path.

The include directories come from the compile commands of the build, so what is tested is what the
build does. A missing "must not" would let an upward include slip in; a missing "must" would mean that
the test looks at nothing.
"""
import json
import pathlib
import shlex
import subprocess
import sys

# layer -> what it may see beside itself (docs/architecture.md)
MAY_SEE = {
    "base": set(),
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
LAYERS = ["base", "port", "loop", "audit", "kube", "cluster", "policy", "fence", "os", "sim", "app"]


def include_flags(commands, layer):
    """The -I and -isystem flags with which the layer's sources are compiled."""
    for command in commands:
        if f"/engine/{layer}/" in command["file"]:
            words = shlex.split(command["command"])
            flags = []
            for i, word in enumerate(words):
                if word.startswith("-I"):
                    flags.append(word)
                elif word == "-isystem":
                    flags += [word, words[i + 1]]
            return flags
    sys.exit(f"check-layers: no source of layer {layer} in the compile commands")


def main(build):
    commands = json.loads((pathlib.Path(build) / "compile_commands.json").read_text())
    wrong = []
    checked = 0
    for layer, seen in MAY_SEE.items():
        flags = include_flags(commands, layer)
        for other in LAYERS:
            header = sorted(pathlib.Path("engine", other).glob("*.h"))[0].name
            source = f'#if !__has_include("{other}/{header}")\n#error hidden\n#endif\n'
            run = subprocess.run(
                ["g++", "-std=c++20", "-fsyntax-only", *flags, "-x", "c++", "-"],
                input=source.encode(), stderr=subprocess.DEVNULL, check=False)
            visible = run.returncode == 0
            checked += 1
            if visible != (other in seen or other == layer):
                wrong.append(f"{layer} {'sees' if visible else 'does not see'} {other}")
    for line in wrong:
        print(f"check-layers: {line}", file=sys.stderr)
    print(f"check-layers: {checked} pairs, {len(wrong)} wrong")
    return 1 if wrong or checked == 0 else 0


sys.exit(main(sys.argv[1]))
