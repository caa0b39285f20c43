"""Rows of IOMesh's policy on a real control plane, all in one run of the engine with the policy as it is shipped.

Its three probes 30 s apart are three probes 3 s apart here (setting probe_interval), and 10 s where something has to happen
between them. A pod never goes before its probe; that it goes at that one and not later is shown in virtual time
(tests/scenarios), since a busy machine is late with everything.
"""

import time

import pytest

from .audit import is_once
from .faults import holds
from .kube import wait_for
from .stage import Stage, Subject

OURS, FOREIGN, LOCAL = "com.iomesh.csi-driver", "ebs.csi.example.com", "com.iomesh.iomesh-localpv-manager"
PROBE, SLOW_PROBE = 3, 10
BINDINGS = "".join(
    f"- {{policy: iomesh, source: builtin, namespaces: [{space}], mode: enforce, holdDown: 0s, settings: {{{settings}}}}}\n"
    for space, settings in {
        "usual": f"probe_interval: {PROBE}s",
        "both": f"pod_delete_policy: delete-both-statefulset-and-deployment-pod, probe_interval: {PROBE}s",
        "slow": f"pod_delete_policy: delete-both-statefulset-and-deployment-pod, probe_interval: {SLOW_PROBE}s",
        "deploy": f"pod_delete_policy: delete-deployment-pod, probe_interval: {PROBE}s",
        "five": "pod_delete_policy: delete-statefulset-pod, probe_failures: 5, probe_interval: 1s",
    }.items())
POOLS = ("dead", "back", "before", "gone")  # a pod may run on its node and, once there is one, on the spare node


def subject(row: str, space: str = "both", drivers: tuple = (OURS,), node: str = "dead", pool: str = "",
            **more) -> Subject:
    return Subject(row, space, node, drivers, select=labels(pool or node), **more)


def labels(*pools: str) -> dict:
    return {f"pool-{pool}": "yes" for pool in pools}


TOLERANT = {"tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}]}
SUBJECTS = (
    subject("io-01", "usual"), subject("io-02"), subject("io-03", "slow", node="back"), subject("io-04", "five"),
    subject("io-05"), subject("io-06"), subject("io-07"), subject("io-08", drivers=(OURS, FOREIGN)),
    subject("io-09", drivers=()), subject("io-10", spec={"volumes": [{"name": "scratch", "emptyDir": {}}]}),
    subject("io-11", spec={"volumes": [{"name": "host", "hostPath": {"path": "/var/data"}}]}),
    subject("io-12", pool="with-a-sick-one"), subject("io-13", pool="with-a-tainted-one"),
    subject("io-13-tolerant", pool="with-a-tainted-one", spec=TOLERANT), subject("io-14", pool="alone"),
    subject("io-15", pool="with-a-cordoned-one"), subject("io-16", "deploy"),
    subject("io-16-rs", "deploy", kind="Deployment"), subject("io-17-job", "five", kind="Job"),
    subject("io-18", access_mode="ReadWriteMany"), subject("io-19", node="before"), subject("io-20", "slow", node="gone"),
    subject("io-21", drivers=(LOCAL,)),
)
KEPT = ("io-01", "io-05", "io-08", "io-09", "io-11", "io-12", "io-13", "io-14", "io-15", "io-16", "io-17-job", "io-18",
        "io-21")
LATER = ("io-03", "io-05", "io-06", "io-07", "io-19", "io-20")  # not asked to go with the others
BESIDE = "io-02"  # of the same node, and deleted

pytestmark = pytest.mark.xdist_group("rows-iomesh")


@pytest.fixture(scope="module", name="stage")
def fixture_stage(cluster, tmp_path_factory):
    stage = Stage(cluster, tmp_path_factory.mktemp("iomesh"), "io", SUBJECTS)
    try:
        stage.add_nodes("dead", labels=labels(
            "dead", "with-a-sick-one", "with-a-tainted-one", "with-a-cordoned-one", "alone"))
        for node in ("back", "before", "gone"):
            stage.add_nodes(node, labels=labels(node))
        stage.build()
        stage.add_nodes("spare", labels=labels(*POOLS))
        for state, spec in {"sick": {}, "cordoned": {"unschedulable": True},
                            "tainted": {"taints": [{"key": "dedicated", "effect": "NoSchedule"}]}}.items():
            stage.add_nodes(state, labels=labels(f"with-a-{state}-one"))
            cluster.client.patch("nodes", stage.node(state), {"spec": spec})
        stage.fail("before")
        stage.terminate("io-19")
        stage.fail("sick")
        stage.starts_at = time.time()
        stage.start(BINDINGS, [OURS, FOREIGN, LOCAL])
        cluster.hollow.stop_delay(stage.node("back"), 600)  # its pods stay terminating when it comes back
        stage.failed_at = time.time()
        for node in POOLS[:2] + POOLS[3:]:
            stage.fail(node)
        stage.terminate("io-03", "io-20", *(row for row in stage.subjects if row not in LATER))
        pending = stage.subjects["io-07"].pod["metadata"]
        cluster.client.patch("pods", pending["name"], {"status": {"phase": "Pending"}}, pending["namespace"],
                             subresource="status")
        between_probes(stage)
        yield stage
    finally:
        stage.close()


def between_probes(stage):
    """After the first and before the third: one node comes back and fails again, one is deleted."""
    wait_for("the first slow probe is over", lambda: time.time() > stage.failed_at + 1.1 * SLOW_PROBE)
    stage.cluster.hollow.heal(stage.node("back"))
    stage.cluster.hollow.remove([stage.node("gone")])
    wait_for("the engine has seen it Ready", lambda: [
        r for r in stage.engine.records() if r["kind"] == "incident_closed" and r["reason"] == "node_ready"])
    assert stage.pod_deletes("io-03") == stage.pod_deletes("io-20") == [], "it was done before the third probe was over"
    stage.failed_again_at = time.time()
    stage.fail("back")


def probed(stage, row: str, since: float, probes: int = 3, interval: float = PROBE):
    """The pod was deleted, not before this probe, and no attachment of it at all."""
    pod = stage.wait_deleted(row)
    assert pod.received - since > probes * interval - 0.3
    assert pod.grace == 0 and is_once(stage.pod_deletes(row))
    assert stage.engine.deletes(resource="volumeattachments") == []
    return pod


def test_io_02_at_the_third_probe_and_not_before(stage):
    probed(stage, "io-02", stage.failed_at)


def test_io_04_number_and_interval_of_the_probes_are_settings(stage):
    probed(stage, "io-04", stage.failed_at, probes=5, interval=1)


def test_io_07_a_pending_pod_goes(stage):
    probed(stage, "io-07", stage.failed_at)


def test_io_10_an_empty_dir_does_not_count(stage):
    probed(stage, "io-10", stage.failed_at)


def test_io_13_a_taint_it_does_not_tolerate(stage):
    probed(stage, "io-13-tolerant", stage.failed_at)
    stage.kept("io-13", "policy_waits", BESIDE)


def test_io_16_delete_deployment_pod(stage):
    probed(stage, "io-16-rs", stage.failed_at)
    stage.kept("io-16", "policy_skips", BESIDE)


def test_io_19_a_node_that_was_down_before_the_start_is_probed(stage):
    pod = stage.wait_deleted("io-19")
    assert pod.received - stage.starts_at > 3 * PROBE


def test_io_03_ready_in_between_begins_anew(stage):
    probed(stage, "io-03", stage.failed_again_at, interval=SLOW_PROBE)


def test_io_06_it_goes_at_the_next_probe_after_it_became_terminating(stage):
    stage.wait_deleted("io-02")
    stage.wait_judged("io-06", "policy_waits")
    assert stage.pod_deletes("io-06") == []
    stage.terminate("io-06")
    stage.wait_deleted("io-06")


def test_io_20_a_node_deleted_between_probes(stage):
    wait_for("its third probe would be over", lambda: time.time() > stage.failed_at + 4 * SLOW_PROBE)
    holds(0.5, lambda: stage.pod_deletes("io-20") == [])


def test_io_01_nothing_by_default(stage):
    stage.kept("io-01", "policy_skips", BESIDE)


def test_io_05_a_running_pod(stage):
    stage.kept("io-05", "policy_waits", BESIDE)
    assert "deletionTimestamp" not in stage.pod_now("io-05")["metadata"]


def test_io_08_another_drivers_claim_beside(stage):
    stage.kept("io-08", "policy_skips", BESIDE)


def test_io_12_no_other_ready_node(stage):
    stage.kept("io-12", "policy_waits", BESIDE)


@pytest.mark.parametrize("row, reason", [
    ("io-09", "policy_skips"), ("io-11", "policy_skips"), ("io-14", "policy_waits"), ("io-15", "policy_waits"),
    ("io-17-job", "policy_skips"), ("io-18", "policy_skips"), ("io-21", "policy_skips")])
def test_io_09_io_11_io_14_io_15_io_17_io_18_io_21_what_keeps_a_pod(stage, row, reason):
    stage.kept(row, reason, BESIDE)


def test_in_the_end_nothing_else_was_deleted(stage):
    """Rows IO-01, IO-02, IO-05, IO-08, IO-12, IO-13, IO-16, IO-20: by the whole audit log, after all the others."""
    for row in KEPT:
        stage.assert_kept(row)
    assert stage.unaccounted(*(row for row in stage.subjects if row not in (*KEPT, "io-20"))) == []
    assert stage.engine.deletes(resource="volumeattachments") == []
