"""helm upgrade and rollback in the middle of an incident: the replicas are replaced one by one, and nothing is deleted twice or never."""

import itertools
import random
import re
import subprocess
import time
from collections import Counter

import pytest

from .engine import Engine
from .helm import CHART
from .installation import NAMESPACE, ShippedAccount
from .kube import wait_for
from .policies import DELETES, policy_text
from .test_chart_installed import helm, helm_in  # noqa: F401, fixtures
from .workloads import is_ready, taints

ROUNDS, PODS = 20, 12


class Replicas:
    """What the kubelets of the Deployment's nodes do: each pod that runs is an engine, with the token and the configuration that its
    pod has; when the pod is told to stop, so is the engine."""

    def __init__(self, cluster, folder, spaces: tuple):
        self.cluster, self.folder, self.spaces = cluster, folder, spaces
        self.running, self.ended, self._numbers = {}, [], itertools.count(1)

    def step(self):
        """Brings what runs to what should run."""
        pods = {pod["metadata"]["uid"]: pod for pod in self.cluster.client.list("pods", NAMESPACE, labels="app.kubernetes.io/name=moonfence")}
        for uid, pod in pods.items():
            if uid not in self.running and is_ready(pod) and "deletionTimestamp" not in pod["metadata"]:
                self.running[uid] = self._start(pod)
        for uid in [uid for uid in self.running if uid not in pods or "deletionTimestamp" in pods[uid]["metadata"]]:
            engine = self.running.pop(uid)
            engine.stop()
            self.ended.append(engine)

    def _start(self, pod: dict) -> Engine:
        (container,) = pod["spec"]["containers"]
        config = self.cluster.client.get("configmaps", "moonfence-config", NAMESPACE)["data"]["config.yaml"]
        engine = Engine(self.cluster, self.folder, ShippedAccount(self.cluster, NAMESPACE, "moonfence", pod), NAMESPACE, next(self._numbers),
                        policy=None, elect=None, mode="observe" if "--mode=observe" in container["args"] else None, config=config, witnessed=False,
                        spaces=self.spaces, env={"POD_NAME": pod["metadata"]["name"], "NODE_NAME": pod["spec"]["nodeName"], "POD_IP": "127.0.0.1"})
        return engine.start(ready=False)

    def all(self) -> list:
        return [*self.ended, *self.running.values()]

    def until(self, what: str, condition, seconds: float = 180):
        def check():
            self.step()
            return condition()
        return wait_for(what, check, seconds, 0.05)

    def for_(self, seconds: float):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.step()
            time.sleep(0.02)

    def end(self):
        for engine in self.running.values():
            engine.end()
        for engine in self.all():
            print(f"--- log of {engine.name}\n{engine.log()[-3000:]}")


@pytest.fixture
def replicas(cluster, helm, workloads, tmp_path):
    homes = ["moonfence-home-1", "moonfence-home-2"]
    cluster.hollow.add(homes, labels={"moonfence.io/home": "here"})
    for name in homes:
        cluster.hollow.stop_delay(name, 2)  # for as long its token lives on
    made = Replicas(cluster, tmp_path, (workloads.namespace,))
    yield made
    made.end()
    cluster.hollow.remove(homes)


class Story:
    """Pods whose nodes fail one after another, and Helm that replaces the replicas meanwhile."""

    def __init__(self, cluster, workloads, replicas: Replicas, helm):
        self.cluster, self.workloads, self.replicas, self.helm, self.failed = cluster, workloads, replicas, helm, set()
        self.values = {
            "mode": "enforce", "nodeSelector": {"moonfence.io/home": "here"}, "config": {"brake": {"maxDown": "off", "maxPerWindow": "off"}},
            "policies": {"files": {"every.lua": policy_text("every", DELETES)}, "bindings": [
                {"policy": "every", "source": "every.lua", "namespaces": [workloads.namespace], "mode": "enforce", "holdDown": "0s"}]}}
        helm.on_release("install", self.values, "--create-namespace")
        workloads.deployment("web", PODS, toleration_seconds=600)
        self.audit = cluster.audit()

    def pods(self, elsewhere_than: str = "") -> list:
        return [pod for pod in self.workloads.pods("web") if is_ready(pod) and "deletionTimestamp" not in pod["metadata"]
                and pod["spec"]["nodeName"] != elsewhere_than]

    def rolled_out(self) -> bool:
        about = self.cluster.client.get("deployments", "moonfence", NAMESPACE)
        status = about["status"]
        return (status.get("observedGeneration") == about["metadata"]["generation"] and status.get("updatedReplicas") == 2
                and status.get("availableReplicas") == 2 and len(self.replicas.running) == 2)

    def deletions(self) -> list:
        return [entry for entry in self.audit.deletes(by=re.escape(f"system:serviceaccount:{NAMESPACE}:moonfence") + "$", resource="pods")
                if entry.status == 200]

    def type(self, number: int) -> subprocess.Popen:
        """An upgrade of the configuration, and then the rollback of it: both replace the replicas."""
        words = ["rollback", self.helm.release, "--namespace", NAMESPACE]
        if number % 2 == 0:
            self.values["config"]["replacementWait"] = f"{60 + number}s"
            words = ["upgrade", self.helm.release, str(CHART), "--namespace", NAMESPACE, *map(str, self.helm._values(self.values))]
        return subprocess.Popen([self.helm.program, *words], env=self.helm.env, stdout=subprocess.DEVNULL)

    def round(self, number: int, head: float):
        """Helm begins so many seconds before the failure, or after it."""
        until = self.replicas.until
        until("all pods run, and the replicas too", lambda: len(self.pods()) == PODS and self.rolled_out())
        node, count = Counter(pod["spec"]["nodeName"] for pod in self.pods()).most_common(1)[0]
        self.failed |= {pod["metadata"]["uid"] for pod in self.pods() if pod["spec"]["nodeName"] == node}
        before, steps = set(self.replicas.running), [lambda: self.type(number), lambda: self.cluster.hollow.fail(node, "notready")]
        made = [steps[head < 0]()]
        self.replicas.for_(abs(head))
        made.append(steps[head >= 0]())
        until(f"round {number}: the pods of {node} run elsewhere", lambda: len(self.pods(elsewhere_than=node)) == PODS)
        print(f"round {number}: Helm {head:+.2f} s before; {count} pods run elsewhere, with {len(before & set(self.replicas.running))} of the old replicas")
        (helm,) = [each for each in made if each]
        until(f"round {number}: Helm is done, and the replicas are others", lambda: helm.poll() is not None and self.rolled_out()
              and not before & set(self.replicas.running))
        assert helm.returncode == 0
        self.cluster.hollow.heal(node, reboot=True)
        until(f"{node} is Ready", lambda: not taints(self.cluster.client.get("nodes", node)))
        assert Counter(entry.uid_precondition for entry in self.deletions()) == dict.fromkeys(self.failed, 1), f"round {number}"


@pytest.mark.slow
def test_an_upgrade_or_a_rollback_in_an_incident_loses_and_doubles_no_deletion(cluster, make_nodes, workloads, replicas, helm):
    make_nodes(4)
    chance, story = random.Random(29), Story(cluster, workloads, replicas, helm)
    for number in range(ROUNDS):
        story.round(number, chance.uniform(-0.5, 5))
    intended = {record.get("pod_uid") for record in records(replicas, "intent")}
    assert story.failed <= intended, "each with a record before it"
    done = Counter(record["pod_uid"] for record in records(replicas, "outcome") if "pod_uid" in record and record["reason"] == "done")
    assert set(done) <= story.failed and set(done.values()) <= {1}, "no deletion is told twice"
    assert {entry.grace for entry in story.deletions()} == {0}


def records(replicas: Replicas, kind: str) -> list:
    return [record for engine in replicas.all() for record in engine.records() if record["kind"] == kind]
