"""The timings of the controllers (tests/contract/timings.json) on a real control plane.

tests/contract/timings_test.cc holds the simulated cluster to the same table.
"""

import json
import threading
import time

from .control_plane import REPO
from .kube import path_of, wait_for
from .workloads import is_ready, node_ready, taints

UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
TOLERATION = 2


class Record:
    """What watches have told, with the time of its arrival: a state that lasts some milliseconds is seen too."""

    def __init__(self, client):
        self.client = client
        self.seen: list = []  # (time, resource, type, object)

    def follow(self, resource: str, namespace: str = "", fields: str = None):
        following = threading.Event()

        def read():
            version = self.client.request("GET", _list_path(resource, namespace))["metadata"]["resourceVersion"]
            following.set()
            for event in self.client.watch(resource, namespace, version=version, fields=fields, seconds=150):
                self.seen.append((time.monotonic(), resource, event["type"], event["object"]))
        threading.Thread(target=read, daemon=True).start()
        assert following.wait(30)

    def first(self, resource: str, holds, since: float = 0, kind: str = "") -> float:
        """When an object of that resource was first seen so since then; 0 when it was not yet."""
        return next((at for at, of, event, thing in list(self.seen) if at >= since and of == resource
                     and (event == kind if kind else event != "DELETED") and holds(thing)), 0)

    def wait(self, what: str, resource: str, holds, since: float = 0, kind: str = "", seconds: float = 30) -> float:
        return wait_for(what, lambda: self.first(resource, holds, since, kind), seconds, 0.02)


def _list_path(resource: str, namespace: str) -> str:
    return path_of(resource, "", namespace) + "?limit=1"


class Table:
    def __init__(self, **terms: float):
        table = json.loads((REPO / "tests" / "contract" / "timings.json").read_text())
        self.slack, self.terms = table["real_slack"], {**terms, "seconds": 1}
        self.rows = {row["name"]: row for row in table["rows"] if "real" in row["sides"]}
        self.measured: dict = {}

    def sum(self, bound: dict) -> float:
        return sum(factor * self.terms[term] for term, factor in bound.items())

    def measure(self, name: str, since: float, until: float):
        self.measured[name] = until - since

    def wrong(self) -> list:
        """Rows that were not measured, or not found within their bounds."""
        found = [f"{name} was not measured" for name in self.rows if name not in self.measured]
        for name, seconds in self.measured.items():
            row = self.rows[name]
            # two watches may tell in another order what happened within milliseconds
            least = self.sum(row["least"]) - 0.1
            most = self.sum(row["most"]) + self.slack if "most" in row else float("inf")
            if not least <= seconds <= most:
                found.append(f"{name}: {seconds:.2f} s from {row['from']} to {row['to']}, not {least:.1f} to {most:.1f}")
        return found

    def __str__(self) -> str:
        return "\n".join(f"{name:26} {seconds:7.3f} s" for name, seconds in self.measured.items())


def is_node(name: str, ready: str = None, has=(), lacks: str = ""):
    """A predicate: the node of that name, its Ready condition, taints, and an effect that no taint has."""
    def holds(node: dict) -> bool:
        there = taints(node)
        return (node["metadata"]["name"] == name and (ready is None or node_ready(node) == ready)
                and set(has) <= there and not any(effect == lacks for _, effect in there))
    return holds


def is_pod(name: str, **more):
    """A predicate: a pod whose name begins so, `old` not its UID, `off` not its node, `ready`, `terminating`."""
    def holds(pod: dict) -> bool:
        return (pod["metadata"]["name"].startswith(name + "-") and pod["metadata"]["uid"] != more.get("old")
                and ("off" not in more or pod["spec"].get("nodeName") not in (None, more["off"]))
                and ("terminating" not in more or "deletionTimestamp" in pod["metadata"])
                and ("ready" not in more or is_ready(pod)))
    return holds


def _force_delete_and_measure(table: Table, record: Record, workloads, pod: dict, name: str, row: str, node: str):
    uid = pod["metadata"]["uid"]
    begin = time.monotonic()
    workloads.client.delete("pods", pod["metadata"]["name"], workloads.namespace, grace=0, uid=uid)
    for end, more in (("made", {}), ("bound", {"off": node}), ("running", {"off": node, "ready": True})):
        table.measure(f"{row}_{end}", begin, record.wait(f"{name}'s successor: {end}", "pods",
                                                         is_pod(name, old=uid, **more), begin))
    return begin


def _silent(table: Table, record: Record, cluster, workloads, node: str, pods: dict):
    cluster.hollow.fail(node)
    unknown = record.wait("Ready=Unknown", "nodes", is_node(node, "Unknown"))
    renewed = max(at for at, of, _, lease in record.seen if of == "leases" and lease["metadata"]["name"] == node)
    table.measure("unknown", renewed, unknown)
    schedule = record.wait("NoSchedule", "nodes", is_node(node, has=[(UNREACHABLE, "NoSchedule")]), unknown)
    table.measure("unreachable_no_schedule", unknown, schedule)
    execute = record.wait("NoExecute", "nodes", is_node(node, has=[(UNREACHABLE, "NoExecute")]), unknown)
    table.measure("unreachable_no_execute", unknown, execute)
    _force_delete_and_measure(table, record, workloads, pods["slow"], "slow", "replica", node)
    ended = record.wait("core-0 is Terminating", "pods", is_pod("core", terminating=True))
    table.measure("eviction", execute, ended)
    web_ended = record.wait("web is Terminating", "pods", is_pod("web", terminating=True))
    web_uid = pods["web"]["metadata"]["uid"]
    table.measure("replica_made_early", web_ended, record.wait("web's successor", "pods", is_pod("web", old=web_uid)))
    time.sleep(max(0.0, ended + 3.2 - time.monotonic()))
    assert not record.first("pods", is_pod("core"), kind="DELETED")
    forced = _force_delete_and_measure(table, record, workloads, pods["core"], "core", "stateful", node)
    table.measure("terminating_stays", ended, forced)


def _healed(table: Table, record: Record, cluster, node: str):
    begin = time.monotonic()
    cluster.hollow.heal(node)
    ready = record.wait("Ready=True", "nodes", is_node(node, "True"), begin)
    table.measure("healed", begin, ready)
    for row, effect in (("no_schedule_gone", "NoSchedule"), ("no_execute_gone", "NoExecute")):
        table.measure(row, ready, record.wait(f"no {effect}", "nodes", is_node(node, "True", lacks=effect), ready))


def _not_ready(table: Table, record: Record, cluster, node: str):
    begin = time.monotonic()
    cluster.hollow.fail(node, "notready")
    posted = record.wait("Ready=False", "nodes", is_node(node, "False"), begin)
    for row, effect in (("not_ready_no_schedule", "NoSchedule"), ("not_ready_no_execute", "NoExecute")):
        table.measure(row, posted, record.wait(effect, "nodes", is_node(node, has=[(NOT_READY, effect)]), posted))


def test_the_timings_of_a_real_control_plane(cluster, make_nodes, workloads):
    plane = cluster.control_plane
    table = Table(grace=plane.grace, monitor=plane.monitor, toleration=TOLERATION, resync=60)
    (node,) = make_nodes(1)
    workloads.stateful_set("core", toleration_seconds=TOLERATION)
    workloads.deployment("web", toleration_seconds=TOLERATION)
    workloads.deployment("slow", toleration_seconds=600)
    pods = {name: workloads.wait_all_running(name, 1)[0] for name in ("core", "web", "slow")}
    others = make_nodes(2)
    # what follows takes up to a minute; the rest happens meanwhile
    pinned = {"nodeSelector": {"kubernetes.io/hostname": others[0]}}
    workloads.stateful_set("db", volume=True, pod_spec=pinned)
    where = workloads.wait_running("db-0")["spec"]["nodeName"]

    record = Record(cluster.client)
    for resource, namespace in (("nodes", ""), ("pods", workloads.namespace), ("leases", "kube-node-lease"),
                                ("volumeattachments", "")):
        record.follow(resource, namespace)
    attachment = workloads.attachment("data-db-0", where)["metadata"]
    cluster.client.delete("volumeattachments", attachment["name"], uid=attachment["uid"])

    def is_attachment(thing):
        return thing["metadata"]["name"] == attachment["name"]
    gone = record.wait("the attachment is gone", "volumeattachments", is_attachment, kind="DELETED")

    wait_for("a Lease renewal", lambda: record.first("leases", lambda lease: lease["metadata"]["name"] == node), 10)
    _silent(table, record, cluster, workloads, node, pods)
    _healed(table, record, cluster, node)
    _not_ready(table, record, cluster, node)
    cluster.hollow.heal(node)
    again = record.wait("the attachment is there again", "volumeattachments", is_attachment, gone, "ADDED", 75)
    table.measure("attachment_noticed", gone, again)
    print(table)
    assert not table.wrong(), f"{table.wrong()}\n{table}"
