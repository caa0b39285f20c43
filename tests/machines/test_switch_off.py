"""Proof before deletion on real machines: one that is behind a cut cable lives, and its writers write. Its BMC switches it
off, and only then is anything of it given to another node: nobody writes twice, on storage that would let him."""

import contextlib

from .bmc import LABEL, bmcs, settings

PASSWORD = "first-pw"


@contextlib.contextmanager
def asked(stage, folder, *nodes):
    """The nodes' BMCs serve, and an engine that demands `off` asks them."""
    with bmcs(stage.bed, nodes, inside=False, password=PASSWORD) as made:
        for name, text in (("user", "admin"), ("password", PASSWORD)):
            (folder / name).write_text(text)
        auth = f"{{type: basic, usernameFile: {folder}/user, passwordFile: {folder}/password}}"
        stage.arm(config={"proof": "{everywhere: [off]}", **settings(made, auth)})
        yield made


def test_a_machine_behind_a_cut_cable_is_switched_off_before_anything_of_it_is_given_away(stage, tmp_path):
    with asked(stage, tmp_path, stage.victim) as bmcs_of:
        bmc = bmcs_of[stage.victim.name]
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


def test_a_controller_that_is_another_machine_s_or_late_or_only_says_yes_gets_nothing_deleted(stage, tmp_path):
    victim, other = stage.victim, stage.bed.node(2)
    with asked(stage, tmp_path, victim, other) as bmcs_of:
        ours, theirs = bmcs_of[victim.name], bmcs_of[other.name]

        def names(bmc):
            stage.bed.client.patch("nodes", victim.name, {"metadata": {"labels": {LABEL: bmc.name}}})
        names(theirs)
        ours.obeys = False
        stage.strike(victim.cable_out)
        stage.workloads.wait("the wrong one was asked twice", lambda: theirs.reads >= 2, 180)
        names(ours)
        stage.workloads.wait("the right one was told", lambda: ours.resets, 180)
        ours.delay, late = 9, ours.reads + 2  # longer than anybody waits for its answer
        stage.workloads.wait("it answered late", lambda: ours.reads >= late, 180)
        assert len(ours.resets) == 1 and theirs.resets == [] and victim.is_on() and stage.engine.deletes() == []
        assert set(stage.old_processes()) == set(stage.moving)

        ours.delay, ours.obeys = 0, True
        moved = stage.wait_moved()
        assert len(ours.resets) == 2
        victim.power_on()
        stage.wait_clean()
        stage.wait_stays(moved)
        stage.conclude("switched-off-late", power_lost=True)
