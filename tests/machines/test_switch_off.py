"""Proof before deletion on real machines: one that is behind a cut cable lives, and its writers write. Its BMC switches it
off, and only then is anything of it given to another node: nobody writes twice, on storage that would let him."""

import pytest

from e2e.redfish_api import RedfishApi

BMC_LABEL = "example.com/bmc"


@pytest.fixture
def bmc(stage):
    """Of the machine that will fail: it has the power of that machine in its hand."""
    victim = stage.victim
    about = stage.bed.client.patch("nodes", victim.name, {"metadata": {"labels": {BMC_LABEL: "bmc"}}})
    made = RedfishApi(about["status"]["nodeInfo"]["systemUUID"])
    made.state, made.obey = (lambda: "On" if victim.is_on() else "Off"), victim.power_off
    yield made
    made.stop()


def configured(bmc, folder) -> dict:
    for name, text in (("user", "admin"), ("password", bmc.password)):
        (folder / name).write_text(text)
    return {"proof": "{everywhere: [off]}", "fencers": (
                f"[{{fencer: redfish, nodes: {BMC_LABEL}, settings: {{endpoint_label: {BMC_LABEL}}}, switchOff: true}}]"),
            "endpoints": f"{{bmc: {{url: '{bmc.url}', auth: {{type: basic, usernameFile: {folder}/user, "
                         f"passwordFile: {folder}/password}}}}}}"}


def test_a_machine_behind_a_cut_cable_is_switched_off_before_anything_of_it_is_given_away(stage, bmc, tmp_path):
    stage.arm(config=configured(bmc, tmp_path))
    stage.strike(stage.victim.cable_out)
    moved = stage.wait_moved()
    assert bmc.resets == ["ForceOff"] and not stage.victim.is_on()
    stage.wait_old_pods_gone()
    record = stage.wait_closed()
    stage.check_record(record)
    assert {record["policies"][step["policy"]]["evidence"] for step in record["steps"]} == {
        "unreachable, off (redfish: PowerState Off)"}
    stage.check_bystanders()

    stage.victim.power_on()
    stage.wait_clean()
    stage.wait_stays(moved)
    stage.conclude("cable-out-switched-off", power_lost=True)


def test_a_controller_that_says_yes_and_leaves_the_machine_on_gets_nothing_deleted(stage, bmc, tmp_path):
    bmc.obey = None
    stage.arm(config=configured(bmc, tmp_path))
    stage.strike(stage.victim.cable_out)
    stage.workloads.wait("it was told twice", lambda: len(bmc.resets) == 2, 180)
    assert stage.victim.is_on() and stage.engine.deletes() == []
    assert set(stage.old_processes()) == set(stage.moving)

    bmc.obey = stage.victim.power_off
    moved = stage.wait_moved()
    stage.victim.power_on()
    stage.wait_clean()
    stage.wait_stays(moved)
    stage.conclude("switched-off-late", power_lost=True)
