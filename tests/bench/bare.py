"""The bare client (bare_client.cc): a list of calls as fast as the API server takes them."""

import json
import subprocess
from pathlib import Path

from e2e.control_plane import REPO
from e2e.kube import path_of

PROGRAM = REPO / "build/bench/bare_client"


def deletion(resource: str, item: dict, **options) -> tuple:
    """The call that the engine sends for this object: method, path, body."""
    meta = item["metadata"]
    body = {"apiVersion": "v1", "kind": "DeleteOptions", **options, "preconditions": {"uid": meta["uid"]}}
    return "DELETE", path_of(resource, meta["name"], meta.get("namespace", "")), json.dumps(body)


def pod_deletions(pods: list) -> list:
    return [deletion("pods", pod, gracePeriodSeconds=0) for pod in pods]


class BareClient:
    """Connected when it is made, if `warm`; go() sends the calls and returns when all are answered."""

    def __init__(self, stage, agent: str, calls: list, width: int, protocol: str = "1.1",
                 warm: bool = True, token: str = ""):
        folder = Path(stage.folder)
        written, secret = folder / f"{agent}.calls", folder / f"{agent}.token"
        written.write_text("".join("\t".join(call) + "\n" for call in calls))
        secret.touch(0o600)
        secret.write_text(token or stage.token)
        command = [PROGRAM, stage.control_plane.server, stage.control_plane.ca, secret, agent, width, protocol, written,
                   "warm" if warm else "cold"]
        self._process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, text=True)
        if self._process.stdout.readline().strip() != "ready":
            self.close()
            raise RuntimeError("the bare client could not connect")

    def go(self) -> tuple:
        """How many calls succeeded and how many did not."""
        try:
            answer, _ = self._process.communicate("go\n", timeout=600)
        finally:
            self.close()
        done, failed = map(int, answer.split())
        return done, failed

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            pipe.close()
