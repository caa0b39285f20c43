"""From the files of a release alone, by the commands of docs/install.md, on machines that are new: installed, a policy observes, then it
enforces, a machine loses its power, and its pods run elsewhere. The same as an upgrade, and with Helm. Each prints its commands with the
seconds that they took."""

import re
import subprocess
import time

import pytest

from cluster.bed import Bed
from cluster.settings import STOCK
from e2e.control_plane import REPO
from e2e.explain import wait_explained
from e2e.installation import USER
from e2e.kube import wait_for
from e2e.workloads import Workloads, is_ready

from .dist import Desk, find_dist
from .stage import OBEYS, pod_spec

pytestmark = [pytest.mark.xdist_group("dist"), pytest.mark.slow]
SPACE, LIMIT = "noobaa", 300  # the namespace of the page's binding; seconds, a bound
# There is no earlier release. The program is today's, under an older tag: what is shown is that the older manifests' objects and their
# state take today's manifests, not that two programs understand each other. In these manifests other policies have the Lease as
# their parameter. An upgrade that left no policy with it for a moment had an API server stop watching Leases and refuse all deletions
# (kubernetes/kubernetes#130887; tests/e2e/test_old_lease.py).
EARLIER, EARLIER_TAG = "d3464a2b", "0.0.9"
TO_ENFORCE = {"KUBE_EDITOR": "sed -i 's/mode: observe/mode: enforce/'"}
PAGE = "From the files of a release"


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    return find_dist(tmp_path_factory.mktemp("made") / "dist")


@pytest.fixture
def desk(dist, tmp_path, capsys):
    """Machines of this test alone, with Kubernetes' own settings."""
    with Bed(REPO / "build" / "machines" / "from-dist", settings=STOCK).up(3) as bed:
        made = Desk(bed, dist, tmp_path)
        yield made
        with capsys.disabled():
            print(f"\n{made.table()}")


class Load:
    """A StatefulSet and a Deployment, whose pods nothing but moonfence moves within five minutes."""

    def __init__(self, desk: Desk):
        self.desk, self.bed = desk, desk.bed
        self.workloads = Workloads(self.bed.client, SPACE, {}, self.bed.control_plane)
        self.workloads.create_namespace()

    def fill(self):
        """On the machine that has no replica."""
        (self.victim,) = {node.name for node in self.bed.nodes} - {pod["spec"]["nodeName"] for pod in self.desk.wait_ready()}
        spec = pod_spec(OBEYS, prefer=self.victim)
        self.workloads.stateful_set("plain", labels={"app": "noobaa"}, toleration_seconds=None, pod_spec=spec)
        self.workloads.deployment("web", labels={"app": "noobaa"}, toleration_seconds=None, pod_spec=spec)
        self.old = wait_for("both pods run", self._ready, LIMIT)
        assert {pod["spec"]["nodeName"] for pod in self.old.values()} == {self.victim}

    def _ready(self) -> dict:
        """{uid: pod}, if both are Ready."""
        found = {pod["metadata"]["uid"]: pod for pod in self.workloads.pods() if is_ready(pod)}
        return found if len(found) == 2 else {}

    def lose_the_machine(self):
        """Each old pod is deleted once, and its successor runs on another machine."""
        self.desk.mark()
        began = time.monotonic()
        self.bed.node(self.victim).power_off()

        def moved():
            found = self._ready()
            return found and not set(found) & set(self.old) and self.victim not in {pod["spec"]["nodeName"] for pod in found.values()}
        wait_explained("both pods run elsewhere", moved, LIMIT, lambda: self.desk.why(SPACE))
        self.desk.note("the power of a machine is cut, until its pods run elsewhere", began)
        assert sorted(entry.uid_precondition for entry in self.desk.deletes(resource="pods", status=200)) == sorted(self.old)


def check_observes(desk: Desk):
    """The policy is in force, and may delete nothing."""
    desk.policies.wait_state("noobaa", "Observe")
    assert "noobaa" in desk.type(desk.page(PAGE, "kubectl moonfence")[0])
    assert desk.shell(f"kubectl auth can-i delete pods --as {USER}").stdout.splitlines()[-1] == "no"


def check_enforces(desk: Desk):
    assert desk.shell(f"kubectl auth can-i delete pods --as {USER}").stdout.splitlines()[-1] == "yes"
    assert "mode: enforce" in desk.client.get("configmaps", "moonfence-policies", "moonfence")["data"]["moonfence.yaml"]
    desk.policies.wait_state("noobaa", "Active")


def test_it_is_installed_observes_enforces_and_moves_the_pods_of_a_dead_machine(desk):
    desk.follow("Verify", "sha256sum --check")
    desk.follow(PAGE, "tar")
    desk.import_image()
    install, enforce = desk.page(PAGE, "kubectl apply")
    ready, again = desk.page(PAGE, "kubectl -n moonfence rollout status")
    desk.type(install)
    desk.follow(PAGE, "kubectl create")
    desk.type(ready)
    load = Load(desk)
    check_observes(desk)
    desk.type(enforce)
    desk.type(again)
    desk.follow(PAGE, "kubectl -n moonfence edit", **TO_ENFORCE)
    check_enforces(desk)
    load.fill()
    load.lose_the_machine()


def earlier_manifests() -> str:
    shown = subprocess.run(["git", "-C", REPO, "show", f"{EARLIER}:deploy/flat/enforce.yaml"], stdout=subprocess.PIPE, text=True)
    assert shown.returncode == 0, f"this clone has no commit {EARLIER}; run git fetch --unshallow"
    return re.sub(r"image: moonfence:.*", f"image: moonfence:{EARLIER_TAG}", shown.stdout)


def images_of(desk: Desk) -> set:
    return {container["image"] for pod in desk.pods() for container in pod["spec"]["containers"]}


def test_manifests_of_an_earlier_day_are_upgraded_and_pods_of_a_dead_machine_move(desk):
    desk.import_image()
    for node in desk.bed.nodes:  # today's image is not there any more
        node.ctr("images", "tag", f"docker.io/library/moonfence:{desk.version}", f"docker.io/library/moonfence:{EARLIER_TAG}")
        node.ctr("images", "rm", f"docker.io/library/moonfence:{desk.version}")
    (desk.place / "earlier.yaml").write_text(earlier_manifests())
    desk.follow(PAGE, "tar")
    assert desk.shell("kubectl apply -f earlier.yaml").returncode == 0
    assert desk.shell("sed 's/mode: observe/mode: enforce/' deploy/policies/noobaa.yaml | kubectl create -f -").returncode == 0
    desk.wait_ready()
    assert images_of(desk) == {f"moonfence:{EARLIER_TAG}"}
    before = desk.client.get("configmaps", "moonfence-policies", "moonfence")
    desk.rows.clear()  # the upgrade begins

    desk.follow("Verify", "sha256sum --check")
    desk.import_image()
    desk.type(desk.page(PAGE, "kubectl apply")[1])
    desk.type(desk.page(PAGE, "kubectl -n moonfence rollout status")[1])
    load = Load(desk)
    load.fill()
    assert images_of(desk) == {f"moonfence:{desk.version}"}
    assert desk.client.get("configmaps", "moonfence-policies", "moonfence") == before, "the policies are people's"
    check_enforces(desk)
    load.lose_the_machine()


def test_the_chart_is_installed_observes_enforces_and_moves_the_pods_of_a_dead_machine(desk):
    def ours(command: str) -> str:
        """The chart is the release's file, and there is no registry."""
        return command.replace("deploy/chart", f"moonfence-{desk.version}.tgz").replace(" --set image.repository=registry.example.com/moonfence", "")
    desk.follow("Verify", "sha256sum --check")
    desk.follow(PAGE, "tar")
    desk.import_image()
    (install,), (upgrade,), (rollback,) = (desk.page("With Helm", f"helm {word}")[:1] for word in ("install", "upgrade", "rollback"))
    desk.type(ours(install))
    desk.follow("With Helm", "kubectl label")
    desk.follow("With Helm", "kubectl create")
    load = Load(desk)
    check_observes(desk)
    desk.type(ours(upgrade))
    desk.follow("With Helm", "kubectl -n moonfence edit", **TO_ENFORCE)
    check_enforces(desk)
    load.fill()
    load.lose_the_machine()
    desk.type(rollback)
    assert desk.shell(f"kubectl auth can-i delete pods --as {USER}").stdout.splitlines()[-1] == "no"
    desk.follow("With Helm", "helm uninstall")
    wait_for("its replicas are gone", lambda: not [pod for pod in desk.pods() if pod["spec"]["nodeName"] != load.victim], LIMIT)
