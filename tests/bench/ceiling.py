"""Deleting every pod of a node against the API server's own ceiling.

The ceiling is what a bare parallel client reaches: curl with the same DELETE requests (grace 0, UID
preconditions, the engine's token), at several widths, over HTTP/1.1 and HTTP/2; the fastest counts. Both
start when the node is NotReady and tainted. Both are timed by the API server's audit log: from the first
request received to the last one answered. The two take turns in one run.
"""

import json
import subprocess
from statistics import median

from e2e.kube import wait_for
from e2e.workloads import taints

from .stage import Pair, Stage

WIDTHS = (16, 32, 64)
AGENT = "raw-ceiling"


def span(entries: list, count: int) -> float:
    if len(entries) != count:
        raise RuntimeError(f"{len(entries)} deletions in the audit log instead of {count}")
    return max(e.staged for e in entries) - min(e.received for e in entries)


def curl_config(stage: Stage, pods: list, protocol: str) -> str:
    """One transfer a pod."""
    parts = []
    for pod in pods:
        meta = pod["metadata"]
        body = json.dumps({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
                           "preconditions": {"uid": meta["uid"]}}).replace('"', '\\"')
        parts.append("\n".join([
            f'url = "{stage.control_plane.server}/api/v1/namespaces/{meta["namespace"]}/pods/{meta["name"]}"',
            "silent", protocol, 'request = "DELETE"', f'data = "{body}"', 'header = "Content-Type: application/json"',
            f'header = "Authorization: Bearer {stage.token}"', f'user-agent = "{AGENT}"',
            f'cacert = "{stage.control_plane.ca}"', 'output = "/dev/null"']))
    path = stage.folder / "curl.config"
    path.write_text("\nnext\n".join(parts) + "\n")
    path.chmod(0o600)
    return str(path)


def raw(stage: Stage, pair: Pair, width: int, protocol: str) -> float:
    pods = stage.client.list("pods", pair.namespace, labels="app=noobaa")
    config = curl_config(stage, pods, protocol)
    audit = stage.audit()
    stage.hollow.fail(pair.failing, "notready")
    wait_for("the taint", lambda: ("node.kubernetes.io/not-ready", "NoSchedule") in taints(
        stage.client.get("nodes", pair.failing)), 30, every=0.005)
    # What it reached is read from the audit log, whatever its exit code says.
    subprocess.run(["/usr/bin/curl", "--parallel", "--parallel-immediate", "--parallel-max", str(width),
                    "--config", config], check=False, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    took = span(audit.deletes(agent=AGENT, resource="pods"), len(pods))
    pair.swap()
    return took


def fenced(stage: Stage, pair: Pair) -> float:
    audit = stage.audit()
    with stage.engine(pair.namespace):
        stage.hollow.fail(pair.failing, "notready")
        pair.wait_all_on(pair.refuge)
        took = span(audit.deletes(agent="moonfence", resource="pods"), pair.pods)
    pair.swap()
    return took


def measure(stage: Stage, pods: int = 400, rounds: int = 3) -> dict:
    pair = Pair(stage, "ceiling", pods)
    print(f"\nDeleting {pods} pods of one node, seconds from the first request received to the last answered",
          flush=True)
    ways = [(width, protocol) for protocol in ("http1.1", "http2") for width in WIDTHS]
    first = {way: raw(stage, pair, *way) for way in ways}
    for (width, protocol), took in first.items():
        print(f"  bare client, {width:3} at once, {protocol:8} {took:6.3f}", flush=True)
    best = min(first, key=first.get)
    ours, bare = [], [first[best]]
    for _ in range(rounds):
        ours.append(fenced(stage, pair))
        bare.append(raw(stage, pair, *best))
        print(f"  moonfence {ours[-1]:6.3f}   bare client, {best[0]} at once, {best[1]} {bare[-1]:6.3f}", flush=True)
    ratio = median(ours) / median(bare)
    print(f"median: moonfence {median(ours):.3f} s, ceiling {median(bare):.3f} s, ratio {ratio:.2f} (may be 1.5)",
          flush=True)
    return {"ours": ours, "bare": bare, "ratio": ratio}
