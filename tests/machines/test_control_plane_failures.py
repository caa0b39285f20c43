"""A node dies, and what should deal with it fails too: the API server, the leader of moonfence (etcd: test_restore.py)."""

import time

from e2e.faults import PODS
from e2e.kube import wait_for
from e2e.proxy import Proxy
from e2e.proxy_rules import BlackHole, Forward

TERM = {"leaseDuration": "8s", "leaseRenewDeadline": "5s", "leaseRetry": "1s"}  # the shortest that is accepted, and a bit


def test_a_node_that_dies_while_the_api_server_is_away_is_dealt_with_afterwards(stage):
    stage.arm(witnessed=False)

    def strike():
        stage.bed.control_plane.stop("kube-apiserver")
        stage.victim.power_off()
    stage.strike(strike)
    time.sleep(30)
    stage.bed.control_plane.start_component("kube-apiserver")
    stage.wait_moved()
    stage.wait_old_pods_gone()
    stage.check_record(stage.wait_closed())
    stage.check_bystanders()
    stage.victim.power_on()
    stage.wait_clean()
    stage.conclude("api-server-away-30", power_lost=True)


def test_the_next_leader_goes_on_where_one_was_killed_between_two_deletions(stage):
    with Proxy(stage.bed.control_plane) as proxy:
        first = stage.start(server=proxy.server, elect=True, config=TERM, witnessed=False)
        stage.arm(elect=True, config=TERM, witnessed=False)
        proxy.on("DELETE", PODS, BlackHole())
        proxy.on("DELETE", PODS, Forward(), times=1)
        stage.strike(stage.victim.power_off)
        proxy.wait(len(stage.moving), "DELETE", PODS, seconds=240)
        (deletion,) = wait_for("one pod is deleted", lambda: first.deletes(resource="pods", status=200), 60)
        first.kill9()
    stage.wait_moved()
    stage.wait_old_pods_gone()
    # outcomes are written about a second late: the second leader finds that pod gone and says so
    stage.check_record(stage.wait_closed(), found_gone=(deletion.uid_precondition,))
    stage.check_bystanders()
    stage.victim.power_on()
    stage.wait_clean()
    stage.conclude("leader-killed-between-deletions", power_lost=True)
