"""Sends a signal to an engine in the moment in which it records a step.

The next step is a few milliseconds away, so this is a process that does nothing else:
`python3 -m chaos.trigger ORDER`, where ORDER is JSON (see Trigger). It says "armed", and later on one line which engine
wrote the record, and how many records it had written beyond it before the signal reached it.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

from e2e.control_plane import REPO
from e2e.growing_file import next_line

WITHIN = 90  # seconds: a bound, not a wait
OFTEN = 0.0002

# name -> (kind of record, action)
STEPS = {"incident_opened": ("incident_opened", ""), "verdict": ("verdict", ""),
         "pod's intent": ("intent", "delete_pod"), "pod's outcome": ("outcome", "delete_pod"),
         "attachment's intent": ("intent", "delete_attachment"),
         "attachment's outcome": ("outcome", "delete_attachment"),
         "release's intent": ("intent", "release_volume"), "release's outcome": ("outcome", "release_volume"),
         "quarantine's intent": ("intent", "set_quarantine"), "quarantine's outcome": ("outcome", "set_quarantine")}
# Every pod has these in every incident. A volume that Kubernetes finds detached by itself is not released any more.
FOR_EACH_POD = {"verdict", "pod's intent", "pod's outcome", "attachment's intent", "attachment's outcome"}


@dataclass
class Sprung:
    engine: object
    beyond: int  # records of the node that it wrote between the step and the signal


class Trigger:
    """Armed when it is made. `number` is the signal's, 0 for none."""

    def __init__(self, engines: list, node: str, step: str, count: int = 1, number: int = 0):
        self.engines = engines
        kind, action = STEPS[step]
        order = {"node": node, "kind": kind, "action": action, "count": count, "signal": number, "engines": [
            {"file": str(e.record_file), "offset": next_line(e.record_file), "pid": e.pid} for e in engines]}
        env = dict(os.environ, PYTHONPATH=str(REPO / "tests"), PYTHONDONTWRITEBYTECODE="1")
        self.process = subprocess.Popen([sys.executable, "-m", __name__, json.dumps(order)], env=env, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        assert self.process.stdout.readline() == "armed\n"

    def wait(self) -> Sprung:
        """The signal was sent."""
        try:
            line, _ = self.process.communicate(timeout=WITHIN + 5)
        except BaseException:
            self.process.kill()
            self.process.wait()
            raise
        if not line:
            raise TimeoutError(f"the step was not recorded within {WITHIN} s")
        answer = json.loads(line)
        return Sprung(self.engines[answer["engine"]], answer["beyond"])


class Tail:
    """The records of a node in a file from an offset on."""

    def __init__(self, file: str, offset: int, node: str):
        self.path, self.offset, self.node = file, offset, node
        self._file = None
        self._rest = b""

    def fresh(self) -> list:
        if self._file is None:
            if not os.path.exists(self.path):
                return []
            self._file = open(self.path, "rb")
            self._file.seek(self.offset)
        *lines, self._rest = (self._rest + self._file.read()).split(b"\n")
        # an engine that was killed may have left half a line, which its successor ended
        records = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [record for record in records if record.get("node") == self.node]


def watch(order: dict):
    tails = [Tail(e["file"], e["offset"], order["node"]) for e in order["engines"]]
    print("armed", flush=True)
    left, end = order["count"], time.monotonic() + WITHIN
    while time.monotonic() < end:
        for index, tail in enumerate(tails):
            records = tail.fresh()
            for place, record in enumerate(records):
                left -= record["kind"] == order["kind"] and record.get("action", "") == order["action"]
                if left == 0:
                    if order["signal"]:
                        os.kill(order["engines"][index]["pid"], order["signal"])
                    time.sleep(0.02)
                    print(json.dumps({"engine": index, "beyond": len(records) - place - 1 + len(tail.fresh())}))
                    return
        time.sleep(OFTEN)


if __name__ == "__main__":
    watch(json.loads(sys.argv[1]))
