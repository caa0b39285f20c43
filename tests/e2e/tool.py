"""moonfence as an operator types it, and its tables beside the golden files of tests/e2e/golden, in which names, UIDs and
times that differ from run to run are replaced. MOONFENCE_WRITE_GOLDEN=1 writes them."""

import json
import os
import re
import subprocess
from pathlib import Path

from .engine import binary

GOLDEN = Path(__file__).parent / "golden"
UNBRAKED = "api: 1\nbrake: {maxDown: off, maxPerWindow: off}\n"


class Tool:
    """moonfence as an operator types it, as a user of its own."""

    def __init__(self, cluster, workloads, folder: Path):
        self.user = f"operator-{workloads.namespace}"
        self.kubeconfig = cluster.control_plane.write_kubeconfig(self.user, self.user, "system:masters")
        self.space, self.folder = workloads.namespace, folder
        self.audit, self.client = cluster.audit(), cluster.client

    def __call__(self, *words: str, code: int = 0, program: Path = None) -> str:
        done = self.run(*words, program=program)
        assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, *words: str, program: Path = None) -> subprocess.CompletedProcess:
        return subprocess.run([str(program or binary()), *words, "--kubeconfig", str(self.kubeconfig)],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                              env={k: v for k, v in os.environ.items() if k != "KUBECONFIG"})

    def engine(self, *words: str, **more) -> str:
        return self(*words, "--engine-namespace", self.space, **more)

    def document(self, *words: str, **more) -> dict:
        return json.loads(self.engine(*words, "-o", "json", **more))

    def writes(self) -> list:
        return self.audit.writes(by=self.user)


def steady(text: str, names: dict) -> str:
    """Without what differs from run to run; columns stay columns."""
    for name, word in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(name, word)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID", text)
    text = re.sub(r"moonfence-incident-[0-9a-f]{10}", "moonfence-incident-ID", text)
    text = re.sub(r"(sha256:)[0-9a-f]{12}", r"\1DIGEST", text)
    text = re.sub(r"\bengine-\d+_[0-9a-f]{20}", "REPLICA", text)
    text = re.sub(r"renewed \d+s ago", "renewed Ns ago", text)
    text = re.sub(r"\+(\d+(h|ms|m|s))+", "+N", text)
    text = re.sub(r"after (\d+(h|ms|m|s))+", "after N", text)
    text = re.sub(r"version \d+ read", "version N read", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME", text)
    return re.sub(r" {2,}", "  ", text)


def same_as_golden(text: str, file: str, names: dict):
    text = steady(text, names)
    if os.environ.get("MOONFENCE_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        (GOLDEN / file).write_text(text)
    assert text == (GOLDEN / file).read_text()


def names_of(victims, workloads) -> dict:
    pods = {pod["metadata"]["name"]: f"pod-{i}" for i, pod in enumerate(
        sorted(workloads.pods(), key=lambda pod: pod["metadata"]["name"]))}
    return {victims.node: "NODE", workloads.namespace: "SPACE", **pods}


def names_of_nodes(nodes: list) -> dict:
    return {name: f"NODE-{number}" for number, name in enumerate(nodes, 1)}
