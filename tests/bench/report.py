"""Keeps what measurements found, and writes it into docs/performance.md and docs/images/performance.svg.

Each measurement's last result is kept in docs/performance.json, so that page and plot can be made again without
measuring (`scripts/bench report`). In the page a block stands between <!-- bench:NAME --> and <!-- /bench:NAME -->; everything
else of it is written by people.
"""

import json
import os
import platform
import re
import subprocess
import time

from e2e.control_plane import REPO

from .figures import Block
from .plot import draw

KEPT = REPO / "docs/performance.json"
PAGE = REPO / "docs/performance.md"
PLOT = REPO / "docs/images/performance.svg"


def read() -> dict:
    return json.loads(KEPT.read_text()) if KEPT.exists() else {}


def machine(kubernetes: str = "") -> str:
    model = re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())
    commit = subprocess.run(["git", "-C", str(REPO), "rev-parse", "--short=10", "HEAD"],
                            capture_output=True, text=True).stdout.strip()
    load = os.getloadavg()[0]
    return (f"{time.strftime('%Y-%m-%d')}, commit {commit or 'unknown'}, {os.cpu_count()} cores "
            f"({model.group(1) if model else platform.machine()})"
            + (f", Kubernetes {kubernetes}, stand-in kubelets, everything on that one machine" if kubernetes else "")
            + f"; load before it {load:.1f}")


def keep(name: str, block: Block, where: str):
    kept = read()
    kept[name] = {"where": where, **block.to_json()}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False, sort_keys=True) + "\n")


def block_text(kept: dict) -> str:
    return f"{Block.from_json(kept).markdown()}\n\nMeasured {kept['where']}."


def page_with(page: str, kept: dict) -> str:
    for name, found in kept.items():
        begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        if begin not in page or end not in page:
            raise RuntimeError(f"{PAGE.name} has no place for {name}: {begin} … {end}")
        head, rest = page.split(begin, 1)
        page = head + begin + "\n\n" + block_text(found) + "\n\n" + end + rest.split(end, 1)[1]
    return page


def write():
    kept = read()
    PAGE.write_text(page_with(PAGE.read_text(), kept))
    PLOT.write_text(draw(kept))
