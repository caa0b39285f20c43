"""Resident memory with many nodes."""

import time
from pathlib import Path

from e2e.kube import wait_for
from e2e.workloads import node_ready

from .stage import Stage


def status_kb(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {field} of process {pid}")


def measure(stage: Stage, nodes: int = 500, seconds: int = 30) -> dict:
    names = [f"many-{i}" for i in range(nodes)]
    stage.hollow.add(names, images=50)
    wait_for(f"{nodes} nodes are Ready", lambda: sum(
        node_ready(n) == "True" for n in stage.client.list("nodes")) >= nodes, 120, every=1)
    with stage.engine("default", "observe") as engine:
        time.sleep(seconds)
        figures = {field: status_kb(engine.pid, field) for field in ("VmRSS", "VmHWM", "RssAnon", "RssFile")}
    stage.hollow.remove(names)
    print(f"\nResident memory with {nodes} nodes of 50 images each, {seconds} s after the start")
    for field, kb in figures.items():
        print(f"  {field:8} {kb / 1024:6.1f} MiB")
    print(f"  resident {figures['VmRSS'] * 1024 / 1e6:.1f} MB (may be 25)", flush=True)
    return figures
