"""moonfence in the cluster that it looks after, from its image and by docs/install.md, and the power of its own nodes.

The network of a bed enforces no NetworkPolicy, has no DNS and no kube-proxy: what these do to it is not shown here.
"""

import pytest

from e2e.installation import NAMESPACE, USER
from e2e.kube import ApiError, path_of, wait_for
from e2e.replica import check_user, make_image, refuses_writing
from e2e.workloads import is_ready

from .chronicle import Chronicle
from .inside import LABEL, Inside, InsideStage, installed, limit_of, process_of, sent_by, typed
from .stage import OBEYS, pod_spec

pytestmark = pytest.mark.xdist_group("inside")
TOKEN = "root/var/run/secrets/kubernetes.io/serviceaccount/token"


@pytest.fixture(scope="module")
def inside(bed, tmp_path_factory):
    with installed(bed, make_image().archive, tmp_path_factory.mktemp("inside")) as made:
        made.wait_ready()
        yield made


@pytest.fixture
def inside_stage(whole, inside, workloads, start_engine):
    """inside_stage(node): the workloads run, one pod of each on that node, and the bed's own moonfence enforces."""
    made = []

    def make(victim: str) -> InsideStage:
        inside.bind(workloads.namespace)
        stage = InsideStage(whole, workloads, whole.node(victim), start_engine)
        stage.fill()
        stage.prepare(inside)
        stage.chronicle = Chronicle(whole.control_plane.client(timeout=30), workloads.namespace)
        made.append(stage)
        return stage
    yield make
    for stage in made:
        stage.chronicle.end()


def node_of(pod: dict) -> str:
    return pod["spec"]["nodeName"]


# --- as it is installed

def test_two_replicas_run_as_the_page_says(whole, inside):
    pods = inside.wait_ready()
    assert len({node_of(pod) for pod in pods}) == 2
    assert not any(status["restartCount"] for pod in pods for status in pod["status"]["containerStatuses"])
    asked = [inside.shell(command) for command in typed("Is it there?", "kubectl")]
    assert len(asked) > 3 and not any(each.returncode for each in asked), asked
    assert "yes\n" in [each.stdout for each in asked]  # "no while it observes", and it does not
    # what the optional rights grant is not granted, nor anything else
    for what in ("patch nodes", "patch nodes --subresource status", "delete nodes", "create pods -A", "get secrets -A"):
        assert inside.shell(f"kubectl auth can-i {what} --as {USER}").stdout.splitlines()[-1] == "no", what
    with pytest.raises(ApiError, match="violates PodSecurity \"restricted"):
        whole.client.create("pods", {"metadata": {"name": "free"}, "spec": pod_spec(OBEYS)}, NAMESPACE)


def test_a_replica_is_held_by_the_kernel_to_what_the_deployment_says(whole, inside):
    for pod in inside.wait_ready():
        node = whole.node(node_of(pod))
        proc = process_of(node, pod)
        check_user(proc, "65532")
        (filtered,) = [line for line in (proc / "status").read_text().splitlines() if line.startswith("Seccomp:")]
        assert filtered.split()[1] == "2"  # by a filter, RuntimeDefault
        for folder in ("", "tmp", "etc/moonfence", "usr/bin"):
            assert refuses_writing(proc / "root" / folder / "written"), f"/{folder} may be written"
        assert limit_of(node, pod, "memory.limit_in_bytes") == str(256 << 20)
        assert limit_of(node, pod, "cpu.shares") == str(50 * 1024 // 1000)


def test_the_api_server_refuses_deletions_that_rbac_would_let_through(whole, inside, workloads):
    target = workloads.pod("target", node="node-1", pod_spec=pod_spec(OBEYS, grace=1))
    workloads.wait_running("target")
    uid, path = target["metadata"]["uid"], path_of("pods", "target", workloads.namespace)

    def delete(pod: dict, **options):
        """With the token that the kubelet mounted into this replica."""
        token = (process_of(whole.node(node_of(pod)), pod) / TOKEN).read_text()
        client = whole.control_plane.token_client(token)
        client.request("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", **options})
    by_uid = {"preconditions": {"uid": uid}}
    with pytest.raises(ApiError, match="moonfence-not-leader") as refused:
        delete(inside.standby(), **by_uid)
    assert refused.value.status == 403
    with pytest.raises(ApiError, match="moonfence-no-uid") as refused:
        delete(inside.leader())
    assert refused.value.status == 422
    delete(inside.leader(), **by_uid, dryRun=["All"])  # what is refused above is refused for what it lacks
    assert workloads.get_pod("target")["metadata"]["uid"] == uid and is_ready(workloads.get_pod("target"))


# --- the power of its nodes

def test_pods_of_a_node_without_a_replica_run_elsewhere_when_its_power_is_cut(whole, inside, inside_stage):
    before = inside.wait_ready()
    (bare,) = {node.name for node in whole.nodes} - {node_of(pod) for pod in before}
    stage = inside_stage(bare)
    stage.strike(stage.victim.power_off)
    check_moved(stage, inside)
    assert {pod["metadata"]["uid"] for pod in inside.wait_ready()} == {pod["metadata"]["uid"] for pod in before}
    stage.tell("inside-power-off")
    stage.victim.power_on()
    stage.wait_clean()


def test_the_other_replica_fences_when_the_leaders_node_loses_its_power(whole, inside, inside_stage):
    inside.wait_ready()
    lost, heir = inside.leader(), inside.standby()
    stage = inside_stage(node_of(lost))
    stage.strike(stage.victim.power_off)
    check_moved(stage, inside)
    assert {sent_by(entry) for entry in stage.engine.deletes(resource="pods")} == {heir["metadata"]["name"]}
    # the lost replica has a successor where there is power, though nobody can end the old one yet
    now = inside.wait_ready(stage.victim.name)
    assert inside.holder() == heir["metadata"]["name"]
    assert heir["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in now}
    stage.tell("inside-power-off-of-the-leader")

    stage.victim.power_on()
    stage.wait_clean()
    wait_for("the lost replica is gone", lambda: lost["metadata"]["uid"] not in {
        pod["metadata"]["uid"] for pod in inside.pods()}, 120)
    assert len(inside.wait_ready()) == len(inside.pods()) == 2


def test_the_other_replica_fences_when_the_kubelet_of_the_leaders_node_dies(whole, inside, inside_stage):
    """Its container lives on and renewed the Lease, and it left its own node alone: three pods hung."""
    inside.wait_ready()
    lost, heir = inside.leader(), inside.standby()
    stage = inside_stage(node_of(lost))
    stage.strike(lambda: stage.victim.kill("kubelet"))
    check_moved(stage, inside)
    assert {sent_by(entry) for entry in stage.engine.deletes(resource="pods")} == {heir["metadata"]["name"]}
    assert stage.victim.container_processes(lost["metadata"]["uid"])
    inside.wait_ready(stage.victim.name)
    assert inside.holder() == heir["metadata"]["name"]
    stage.tell("inside-kubelet-of-the-leader")

    stage.victim.start("kubelet")
    stage.wait_clean()
    wait_for("the lost replica is gone", lambda: lost["metadata"]["uid"] not in {
        pod["metadata"]["uid"] for pod in inside.pods()}, 120)
    assert len(inside.wait_ready()) == len(inside.pods()) == 2


def test_a_leader_whose_node_is_cordoned_and_drained_hands_over_to_a_replica_elsewhere(whole, inside):
    inside.wait_ready()
    lost, heir = inside.leader(), inside.standby()
    node = node_of(lost)
    try:
        done = inside.shell(f"kubectl cordon {node}")
        assert done.returncode == 0, done.stdout
        wait_for("the other replica leads", lambda: inside.holder() == heir["metadata"]["name"], 60)
        # the old leader was asked, not killed
        now = {pod["metadata"]["uid"]: pod for pod in inside.pods()}
        assert set(now) == {pod["metadata"]["uid"] for pod in (lost, heir)} and all(map(is_ready, now.values()))
        done = inside.shell(f"kubectl drain {node} --pod-selector {LABEL} --timeout 90s")
        assert done.returncode == 0, done.stdout
        assert heir["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in inside.wait_ready(node)}
        assert inside.holder() == heir["metadata"]["name"]
    finally:
        inside.shell(f"kubectl uncordon {node}")


def check_moved(stage: InsideStage, inside: Inside):
    """Everything runs elsewhere, the record is closed, nothing is stuck, and nothing else was deleted."""
    stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_record(stage.wait_closed())
    stage.check_bystanders()
    deletes = inside.deletes(resource="pods")
    assert {entry.uid_precondition for entry in deletes} == set(stage.old_uids.values())
    assert {(entry.grace, entry.namespace) for entry in deletes} == {(0, stage.workloads.namespace)}
