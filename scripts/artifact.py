"""What scripts/image, scripts/package and scripts/release have in common: which version of what is made, and the program
as it is shipped."""
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def say(text):
    print(f"{pathlib.Path(sys.argv[0]).name}: {text}", file=sys.stderr, flush=True)


def fail(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def output(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def check_tools(**packages):
    """Each tool with the Debian package that has it."""
    missing = sorted(package for tool, package in packages.items() if not shutil.which(tool.replace("_", "-")))
    if missing:
        fail(f"missing: apt-get install {' '.join(missing)}")


def version():
    return re.search(r"^project\(moonfence VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]


@functools.cache
def commit():
    """Of one run: a commit that is made meanwhile is not half in it."""
    return output("git", "-C", ROOT, "rev-parse", "HEAD").strip()


def epoch():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "-C", ROOT, "log", "-1", "--format=%ct", commit()))


def stamp(seconds):
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def architecture():
    return output("dpkg", "--print-architecture").strip()


def tracked(folder):
    """The files under a folder that are in the repository, by name."""
    return output("git", "-C", ROOT, "ls-files", folder).splitlines()


def build_program(root=None):
    """Of this checkout, or of the one at `root`."""
    root = root or ROOT
    say("building the program")
    flag = f"-DMOONFENCE_COMMIT={commit()[:12]}"
    subprocess.run(["cmake", "--preset", "release", flag], cwd=root, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release", "--parallel", str(os.cpu_count()), "--target", "moonfence"],
                   cwd=root, check=True, stdout=subprocess.DEVNULL)
    return root / "build" / "release" / "moonfence"


def programs(binary):
    """Ours, wherever that one lies: the commands, and the daemon that `moonfence run` becomes."""
    return [binary.with_name(name) for name in ("moonfence", "moonfenced")]


def stripped(binary, target):
    """Without symbols, debug information and the build id, which would tell of the folder it was built in."""
    subprocess.run(["strip", "--remove-section=.note.gnu.build-id", "-o", target, binary], check=True)
    return target
