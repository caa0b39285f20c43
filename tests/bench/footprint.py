"""What the engine costs while nothing happens: until it is synced, memory, memory when it lists again, CPU.

The nodes are as big as real ones (crowd.py) and send heartbeats at the real rate. "Synced" is when the engine's /readyz
says so; beside it curl downloads the same list in the same pages, in turns. The list is made again because the watch
ends with 410, which a proxy sends; that engine talks to the API server through the proxy.
"""

import re
import subprocess
import time
from pathlib import Path
from statistics import median

from e2e.kube import wait_for
from e2e.proxy import Proxy

from .crowd import Crowd
from .figures import Block, Table, growth, with_range
from .stage import Stage

PAGE = 500
LISTED = r"^(?!.*watch=)"  # the query of a list
GRACE = 3600  # nobody marks a node of which the heartbeat is late: it is the load that counts here
LEASE, STATUS = 10, 300  # seconds between two of a kubelet of which nothing changes
CALM, LOOK = 10, 5  # writes a second that a cluster makes in which nothing happens; seconds over which they are counted
LIMITS = {"VmRSS": 30, "relist": 40, "cpu": 1.0, "ratio": 1.3}


def status_kb(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise RuntimeError(f"no {name} of process {pid}")


def megabytes(pid: int, name: str) -> float:
    return status_kb(pid, name) * 1024 / 1e6


def cpu_seconds(pid: int) -> float:
    """Of all its threads, by the scheduler's nanoseconds: ticks of 10 ms would be too coarse."""
    return sum(int(Path(task, "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9


def revision(stage: Stage) -> int:
    """Each write of anything makes it one more (etcd)."""
    answer = stage.client.request("GET", "/api/v1/namespaces", query={"limit": 1})
    return int(answer["metadata"]["resourceVersion"])


def wait_calm(stage: Stage) -> float:
    """Until the controllers are through with what was made: each of their writes to a node is news to the engine.
    Returns after how many seconds."""
    def calm() -> bool:
        before = revision(stage)
        time.sleep(LOOK)
        return revision(stage) - before <= CALM * LOOK

    began = time.monotonic()
    wait_for("the controllers are through with what was made", calm, 900, every=0)
    return time.monotonic() - began


def curl(stage: Stage, url: str, out: Path) -> float:
    began = time.monotonic()
    subprocess.run(["/usr/bin/curl", "--silent", "--fail", "--noproxy", "*", "--cacert", str(stage.control_plane.ca),
                    "--user-agent", "bench", "--header",  # for curl by its own name the server indents what it says
                    f"@{stage.folder / 'curl.header'}", "--output", str(out), url], check=True, timeout=120)
    return time.monotonic() - began


def download(stage: Stage) -> tuple:
    """Seconds and bytes of the list of nodes in the engine's pages, without what finding the next page costs."""
    header, out = stage.folder / "curl.header", stage.folder / "curl.out"
    header.touch(0o600)
    header.write_text(f"Authorization: Bearer {stage.token}\n")
    took = size = 0
    more = ""
    while True:
        took += curl(stage, f"{stage.control_plane.server}/api/v1/nodes?limit={PAGE}{more}", out)
        size += out.stat().st_size
        with open(out, "rb") as page:
            found = re.search(rb'"continue": *"([^"]+)"', page.read(1000))  # the list's metadata come first
        if not found:
            out.unlink()
            return took, size
        more = "&continue=" + found.group(1).decode()


def relist_peak(stage: Stage, proxied: Path, proxy: Proxy, settle: float) -> tuple:
    """Megabytes at most while the list is made again, and after it."""
    with stage.engine("default", "observe", kubeconfig=proxied) as engine:
        time.sleep(settle)
        Path(f"/proc/{engine.pid}/clear_refs").write_text("5")  # the peak is counted anew from here
        lists = len(proxy.find("GET", "/nodes$", LISTED))
        if not proxy.close_watches(path="/nodes$"):
            raise RuntimeError("there was no watch of the nodes to end")
        proxy.wait(lists + 1, "GET", "/nodes$", LISTED, seconds=60)
        wait_for("the nodes are watched again", lambda: proxy.open_watches("/nodes$"), 180)
        peak = megabytes(engine.pid, "VmHWM")
        time.sleep(settle)
        return peak, megabytes(engine.pid, "VmRSS")


def steady(stage: Stage, settle: float, seconds: float) -> dict:
    with stage.engine("default", "observe") as engine:
        time.sleep(settle)
        before, began = cpu_seconds(engine.pid), time.monotonic()
        time.sleep(seconds)
        share = 100 * (cpu_seconds(engine.pid) - before) / (time.monotonic() - began)
        return {"cpu": share, **{name: megabytes(engine.pid, name) for name in ("VmRSS", "VmHWM", "RssAnon", "RssFile")}}


def one(stage: Stage, crowd: Crowd, rounds: int, settle: float, seconds: float) -> dict:
    synced, downloaded, size = [], [], 0
    for _ in range(rounds):
        with stage.engine("default", "observe") as engine:
            synced.append(engine.ready_in)
        took, size = download(stage)
        downloaded.append(took)
    found = {"nodes": crowd.nodes, "pods": crowd.pods, "synced": synced, "curl": downloaded, "list_mb": size / 1e6,
             **steady(stage, settle, seconds)}
    with Proxy(stage.control_plane) as proxy:
        proxied = stage.control_plane.token_kubeconfig("proxied", stage.token, "moonfence", server=proxy.server)
        found["relist"], found["after_relist"] = relist_peak(stage, proxied, proxy, settle)
    print(f"  {crowd.nodes} nodes, {crowd.pods} pods: synced in {with_range(synced)} s, curl {with_range(downloaded)} s, "
          f"{found['VmRSS']:.1f} MB, relist {found['relist']:.1f} MB, CPU {found['cpu']:.2f} %", flush=True)
    return found


def measure(stage: Stage, nodes: tuple = (500, 2000, 5000), pods: tuple = (30000,), rounds: int = 3, settle: float = 15,
            seconds: float = 60, lease: float = LEASE, status: float = STATUS) -> Block:
    """`stage` is one of its own, with GRACE."""
    print("\nFootprint", flush=True)
    crowd, found, rates = Crowd(stage), [], {}
    stage.client.create("namespaces", {"metadata": {"name": "crowd"}})
    wait_for("its service account", lambda: stage.client.find("serviceaccounts", "default", "crowd"), 30)
    for count in nodes:
        rates["nodes"] = crowd.add_nodes(count)
        found.append(with_heartbeats(stage, crowd, lease, status, rounds, settle, seconds))
    for count in pods:
        rates["pods"] = crowd.add_pods(count, "crowd")
        found.append(with_heartbeats(stage, crowd, lease, status, rounds, settle, seconds))
    return block(found, rates, settle, seconds, lease, status)


def with_heartbeats(stage: Stage, crowd: Crowd, lease: float, status: float, *more) -> dict:
    print(f"  {crowd.nodes} nodes, {crowd.pods} pods: calm after {wait_calm(stage):.0f} s", flush=True)
    crowd.start_heartbeats(lease, status)
    try:
        found = one(stage, crowd, *more)
        return {**found, "heartbeats": crowd.heartbeats()}
    finally:
        crowd.end_heartbeats()


def block(found: list, rates: dict, settle: float, seconds: float, lease: float, status: float) -> Block:
    rows = [[f"{f['nodes']:,}", f"{f['pods']:,}", f"{f['list_mb']:.1f}", with_range(f["synced"]), with_range(f["curl"]),
             f"{median(f['synced']) / median(f['curl']):.2f}", f"{f['VmRSS']:.1f}", f"{f['RssAnon']:.1f}", f"{f['relist']:.1f}",
             f"{f['after_relist']:.1f}", f"{f['cpu']:.2f}"] for f in found]
    table = Table(["nodes", "pods", "list, MB", "synced, s", "curl, s", "ratio", "resident, MB", "own data, MB",
                   "peak at a relist, MB", "after it, MB", "CPU, % of a core"], rows)
    alone = [f for f in found if f["pods"] == 0]
    sizes = [f["nodes"] for f in alone]
    results = [f"Growth with the nodes: synced {growth(sizes, [median(f['synced']) for f in alone])}; own data "
               f"{growth(sizes, [f['RssAnon'] for f in alone])}; CPU {growth(sizes, [f['cpu'] for f in alone])}.",
               f"Goals at 5,000 nodes: {LIMITS['VmRSS']} MB, {LIMITS['relist']} MB at a relist, {LIMITS['cpu']:g} % of a core, "
               f"synced within {LIMITS['ratio']} × curl.",
               "Heartbeats sent a second (of the wanted), late, failed: " + "; ".join(
                   f"{f['heartbeats']['rate']:.0f} ({f['nodes'] / lease if lease else 0:.0f} + {f['nodes'] / status:.1f}), "
                   f"{f['heartbeats']['late']}, {f['heartbeats']['failed']}" for f in found) + ".",
               "Objects were made in the real API server, " + " and ".join(
                   f"{kind} at {rate:.0f} a second" for kind, rate in rates.items()) + "."]
    how = ("Nodes with 50 images and 10 conditions; "
           + (f"each renews its Lease every {lease:g} s " if lease else "no Leases are renewed; each ")
           + f"{'and ' if lease else ''}posts its status every {status:g} s. Measured once the controllers are through with "
           "what was made. Synced: from the engine's start to "
           "`/readyz`; curl downloads the "
           f"same list in the same pages of {PAGE}, in turns. Memory {settle + seconds:g} s after that, CPU over "
           f"{seconds:g} s of it. Relist: the watch "
           "ends with 410 (sent by a proxy); the peak is the kernel's since just before.")
    return Block(how, [table], results, {"sizes": found, "rates": rates})
