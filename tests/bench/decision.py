"""What deciding costs, without a cluster: runs build/bench/decision_bench (decision_bench.cc) and reads its counters."""

import json
import subprocess
from collections import defaultdict
from statistics import median

from e2e.control_plane import REPO

from .figures import Block, Table, growth, with_range

PROGRAM = REPO / "build/bench/decision_bench"
LIMIT = 100  # microseconds that no shipped policy may need


def run() -> list:
    done = subprocess.run([str(PROGRAM), "--benchmark_format=json"], capture_output=True, text=True, check=True, timeout=600)
    return json.loads(done.stdout)["benchmarks"]


def grouped(runs: list) -> dict:
    """{name: {counter: values of all runs}}; a name is "pod/longhorn/8"."""
    found = defaultdict(lambda: defaultdict(list))
    for benchmarks in runs:
        for each in benchmarks:
            name = each["name"].split("/iterations:")[0]
            if "error_message" in each:
                raise RuntimeError(f"{name}: {each['error_message']}")
            for counter in ("median_us", "deciding_us", "source_KB", "pod_KB"):
                if counter in each:
                    found[name][counter].append(each[counter])
    return found


def sized(found: dict, kind: str) -> list:
    """[(size, median of the medians)] of "kind/8"."""
    return sorted((int(name.rpartition("/")[2]), median(values["median_us"]))
                  for name, values in found.items() if name.rpartition("/")[0] == kind)


def measure(rounds: int = 3) -> Block:
    found = grouped([run() for _ in range(rounds)])
    names = sorted(name.partition("/")[2] for name in found if name.startswith("policy/"))
    rows = []
    for name in names:
        one = found[f"policy/{name}"]
        pods = sized(found, f"pod/{name}")
        rows.append([name, f"{one['source_KB'][0]:.2f}", with_range(one["median_us"], 1), f"{1e6 / median(one['median_us']):,.0f}",
                     f"{median(one['deciding_us']):.1f}", *[f"{took:.1f}" for _, took in pods],
                     growth(*zip(*pods)).split(" over")[0], f"{median(found[f'load/{name}']['median_us']):.0f}"])
    times = [size for size, _ in sized(found, f"pod/{names[0]}")]
    policies = Table(["policy", "text, KB", "one decision, µs", "a second", "deciding, µs",
                      *[f"pod × {n}, µs" for n in times], "growth with the pod", "loading an edit, µs"], rows)
    texts, reloads = sized(found, "text"), sized(found, "reload")
    others = Table(["", "small", "middle", "large", "growth"], [
        ["much text: " + ", ".join(str(s) for s, _ in texts) + " KB, µs", *[f"{t:.1f}" for _, t in texts], growth(*zip(*texts))],
        ["reload of " + ", ".join(str(s) for s, _ in reloads) + " edited policies, ms", *[f"{t / 1000:.2f}" for _, t in reloads],
         growth(*zip(*reloads))]])
    most = max(median(found[f"policy/{n}"]["median_us"]) for n in names)
    how = ("One decision: a fresh Lua state, what the policy's text was compiled to loaded and run, inputs over a pod of "
           f"{found[f'policy/{names[0]}']['pod_KB'][0]:.1f} KB with three volumes, the verdict, the state's end. CPU time "
           "of the thread, median of 20,000 (1,000 "
           f"for larger pods), over {rounds} runs. Deciding is all after the text was run. A pod × 8 has eight times the "
           "annotations, variables and volumes. "
           "A reload reads the ConfigMap, validates every edited policy in slices and puts the set in force; the 200 ms of "
           "waiting for "
           "further edits are not in it.")
    return Block(how, [policies, others], [f"The slowest shipped policy needs {most:.1f} µs (goal: {LIMIT})."],
                 {name: dict(values) for name, values in found.items()})
