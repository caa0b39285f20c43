"""The chart on real kubelets where OpenShift's SCC `restricted-v2` decides, by its stand-in (e2e/openshift.py): the replicas run as a
user that nobody knew when the image was made, and do their work. tests/e2e/test_openshift.py has what is admitted and what is not."""

import pytest

from e2e.installation import NAMESPACE
from e2e.openshift import UID, RestrictedV2, ids_of
from e2e.replica import make_image, refuses_writing

from .inside import process_of
from .test_chart import ByHelm
from .test_inside import inside_stage, node_of  # noqa: F401, a fixture

pytestmark = [pytest.mark.xdist_group("inside"), pytest.mark.slow]


@pytest.fixture(scope="module")
def inside(bed, tmp_path_factory):
    scc, made = RestrictedV2(bed, NAMESPACE), ByHelm(bed, tmp_path_factory.mktemp("openshift"))
    try:
        scc.enforce()
        made.install(make_image().archive)
        made.wait_ready()
        yield made
    finally:
        made.remove()
        scc.remove()


def test_a_replica_is_held_by_the_kernel_to_what_the_scc_gave_it(whole, inside):
    for pod in inside.wait_ready():
        assert ids_of(pod)[0] == {UID}
        proc = process_of(whole.node(node_of(pod)), pod)
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
        assert status["Uid"].split() == [str(UID)] * 4
        assert status["Gid"].split() == ["0"] * 4 and set(status["Groups"].split()) == {"0", str(UID)}
        assert status["NoNewPrivs"] == "1" and status["Seccomp"].strip() == "2"
        assert not {name for name, value in status.items() if name.startswith("Cap") and int(value, 16)}
        for folder in ("", "tmp", "etc/moonfence", "usr/bin"):
            assert refuses_writing(proc / "root" / folder / "written"), f"/{folder} may be written"


def test_it_moves_the_pods_of_a_dead_machine(whole, inside, inside_stage):
    before = inside.wait_ready()
    (bare,) = {node.name for node in whole.nodes} - {node_of(pod) for pod in before}
    stage = inside_stage(bare)
    stage.strike(stage.victim.power_off)
    stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_bystanders()
    deleted = [entry.uid_precondition for entry in inside.deletes(resource="pods", status=200)]
    assert sorted(deleted) == sorted(stage.old_uids.values())
    assert {pod["metadata"]["uid"] for pod in inside.wait_ready()} == {pod["metadata"]["uid"] for pod in before}
    stage.victim.power_on()
    stage.wait_clean()
