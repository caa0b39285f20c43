"""The main story: a node loses its power, and what ran on it runs elsewhere."""


def test_pods_of_a_node_without_power_run_elsewhere_and_it_comes_back_clean(stage):
    stage.arm()
    stage.strike(stage.victim.power_off)
    moved = stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_record(stage.wait_closed())
    stage.check_bystanders()

    stage.victim.power_on()
    stage.wait_clean()
    # nobody moved them back, and nobody deleted more than what was on the node
    stage.wait_stays(moved)
    assert {d.uid_precondition for d in stage.engine.deletes(resource="pods")} == set(stage.old_uids.values())
    stage.conclude("power-off", power_lost=True)
