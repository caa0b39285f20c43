"""From the API server's answer to an edit of the ConfigMap to the engine deciding by it.

"Deciding by it" is read off /metrics, where the digest of the policy in force stands; the engine is asked every
two milliseconds, so a sample is up to that much too long. Every edit follows a pause: the waiting for further edits
(debounce) is part of the figure.
"""

import re
import time
import urllib.request

from e2e.policies import SKIPS, PolicyMap, policy_text

from .figures import Block, Table, spread
from .stage import Stage

DIGEST = re.compile(r'moonfence_policy_info\{[^}]*digest="([0-9a-f]+)"')


def digest(engine) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{engine.metrics_port}/metrics", timeout=5) as answer:
        found = DIGEST.search(answer.read().decode())
    return found.group(1) if found else ""


def wait_other(engine, before: str, seconds: float = 10) -> float:
    """When another policy than `before` was in force."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if digest(engine) != before:
            return time.monotonic()
        time.sleep(0.002)
    raise TimeoutError(f"the edit was not in force within {seconds} s")


def measure(stage: Stage, samples: int = 50) -> Block:
    policies = PolicyMap(stage.client, "moonfence")
    text = policy_text("db", SKIPS)
    policies.write(db=text)
    taken = []
    with stage.engine("", policies="moonfence") as engine:
        wait_other(engine, "")
        for number in range(samples):
            time.sleep(1)
            before = digest(engine)
            policies.edit(db_lua=f"{text}-- edit {number}\n")
            edited = time.monotonic()
            taken.append(wait_other(engine, before) - edited)
    how = ("From the API server's answer to an edit of the ConfigMap until `/metrics` shows that the engine decides by it: "
           f"{len(taken)} edits, one a "
           "second, asked every 2 ms. The 200 ms in which further edits are waited for are part of it.")
    table = Table(["milliseconds", "p50", "p90", "p99", "max"], [["edit → in force", *[f"{1000 * v:.0f}" for v in spread(taken)]]])
    return Block(how, [table], [], {"taken": taken})
