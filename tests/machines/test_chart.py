"""The Helm chart on real kubelets: an upgrade or a rollback, ten of each, while a machine has lost its power. The replicas are containers
that the kubelets end and start; tests/e2e/test_chart_incident.py has the same with processes, and audits the records too."""

import random
import time
from collections import Counter

import pytest

from e2e.helm import Helm
from e2e.installation import DEPLOY, NAMESPACE, Installation, objects
from e2e.kube import wait_for
from e2e.replica import make_image

from .inside import Inside
from .test_inside import inside_stage, node_of  # noqa: F401, a fixture

pytestmark = [pytest.mark.xdist_group("inside"), pytest.mark.slow]


class ByHelm(Inside):
    """Installed by the chart; its policies are somebody else's."""

    def install(self, archive):
        self.helm = Helm(self.folder / "helm", self.bed.control_plane.kubeconfig)
        self.load(archive)
        self.values = {"mode": "enforce"}
        self.helm.on_release("install", self.values, "--create-namespace")
        self.client.create("configmaps", {"metadata": {"name": "moonfence-policies"}, "data": {"moonfence.yaml": "api: 1\nbindings: []\n"}}, NAMESPACE)

    def remove(self):
        self.helm("uninstall", "m", "--namespace", NAMESPACE, "--ignore-not-found")
        Installation(self.bed).remove(objects(DEPLOY / "flat" / "enforce.yaml"))
        wait_for("moonfence is gone", lambda: not self.client.find("namespaces", NAMESPACE), 180)

    def replace_replicas(self, number: int):
        """By an upgrade of the configuration, and then by the rollback of it."""
        if number % 2:
            self.helm("rollback", "m", "--namespace", NAMESPACE)
        else:
            self.helm.on_release("upgrade", {**self.values, "config": {"replacementWait": f"{60 + number}s"}})


@pytest.fixture(scope="module")
def inside(bed, tmp_path_factory):
    made = ByHelm(bed, tmp_path_factory.mktemp("chart"))
    try:
        made.install(make_image().archive)
        made.wait_ready()
        yield made
    finally:
        made.remove()


@pytest.mark.parametrize("number", range(20))
def test_pods_of_a_dead_machine_move_once_while_helm_replaces_the_replicas(whole, inside, inside_stage, number):
    before = {pod["metadata"]["uid"]: pod for pod in inside.wait_ready()}
    (bare,) = {node.name for node in whole.nodes} - {node_of(pod) for pod in before.values()}
    stage = inside_stage(bare)
    stage.strike(stage.victim.power_off)
    time.sleep(random.Random(29 + number).uniform(0, 12))
    inside.replace_replicas(number)
    stage.wait_moved()
    stage.wait_old_pods_gone()
    wait_for("both replicas are others", lambda: not set(before) & {pod["metadata"]["uid"] for pod in inside.wait_ready(bare)}, 180)
    stage.check_bystanders()
    deletes = Counter(entry.uid_precondition for entry in inside.deletes(resource="pods", status=200))
    assert deletes == dict.fromkeys(stage.old_uids.values(), 1)
    stage.victim.power_on()
    stage.wait_clean()
