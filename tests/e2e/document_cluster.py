"""The cluster on which documents are run: node-7 with the database of namespace db, two nodes beside it, and an engine in
namespace moonfence. A document goes from one stage to the next:

    observe     the policy observes
    enforce     it enforces
    outage      node-7 has died, its pods were moved, and the incident is over
"""

import contextlib
import tempfile
from pathlib import Path
from typing import Iterator

from .cluster import running_cluster
from .engine import Engines
from .kube import wait_for
from .policies import PolicyMap, policy_text
from .workloads import Workloads

SPACE, NODE, NODES = "moonfence", "node-7", ["node-7", "node-8", "node-9"]
POLICY = policy_text("db", 'fence.delete_pod("a replica is ready elsewhere")', "app=db")
STAGES = ("observe", "enforce", "outage")


class DocumentCluster:
    def __init__(self, cluster, folder: Path):
        self.cluster, self.client = cluster, cluster.client
        self.workloads = Workloads(cluster.client, "db", control_plane=cluster.control_plane)
        Workloads(cluster.client, SPACE, control_plane=cluster.control_plane).create_namespace()
        self.workloads.create_namespace()
        cluster.hollow.add(NODES[:1])
        wait_for("node-7 is there", lambda: self.client.find("nodes", NODE), 30)
        self.workloads.stateful_set("db", 2, labels={"app": "db"}, toleration_seconds=300)
        self.workloads.wait_all_running("db", 2)
        cluster.hollow.add(NODES[1:])
        wait_for("all nodes are there", lambda: len(self.client.list("nodes")) == 3, 30)
        self.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": "api: 1\n"}}, SPACE)
        self.policies = PolicyMap(self.client, SPACE)
        self.kubeconfig = cluster.control_plane.write_kubeconfig("reader", "reader", "system:masters")
        self.folder, self.engines, self.at, self.words = folder, Engines(cluster, folder, SPACE), None, {}

    def reach(self, stage: str):
        while self.at != stage:
            self.at = STAGES[0 if self.at is None else STAGES.index(self.at) + 1]
            getattr(self, self.at)()

    def write(self, mode: str):
        self.policies.write({"moonfence.yaml": self.policies.bindings("db", mode=mode, namespaces=["db"])}, db=POLICY)

    def observe(self):
        self.write("observe")
        self.engines(policy=None, mode=None, elect=True, witnessed=False, spaces=["db"])
        self.policies.wait_state("db", "Observe")
        self.wait_told("nothing is deleted")

    def enforce(self):
        self.write("enforce")
        self.policies.wait_state("db", "Active")
        self.wait_told("this replica acts")

    def wait_told(self, words: str):
        """`moonfence status` shows what the leader wrote down, up to a second after it came to know it."""
        def told():
            states = [r["situation"]["state"] for r in self.policies.status().values() if "situation" in r]
            return any(s["title"].startswith("All quiet") and words in s["text"] for s in states)
        wait_for(f"the status says that all is quiet, and {words}", told, 30, 0.1)

    def outage(self):
        self.cluster.hollow.fail(NODE, "silent")

        def closed():
            found = self.client.list("configmaps", SPACE)
            return [m for m in found if m["metadata"]["name"].startswith("moonfence-incident-")
                    and '"closed"' in m["data"]["record.json"]]
        (record,) = wait_for("the incident is over", closed, 120, 1)
        self.words = {"ID": record["metadata"]["name"].rsplit("-", 1)[1]}


@contextlib.contextmanager
def document_cluster() -> Iterator[DocumentCluster]:
    with tempfile.TemporaryDirectory() as folder, running_cluster("documents", 8) as cluster:
        stage = DocumentCluster(cluster, Path(folder))
        try:
            yield stage
        finally:
            for engine in stage.engines.made:
                engine.end()
