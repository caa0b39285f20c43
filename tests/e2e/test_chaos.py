"""Each kind of chaos once: scripts/chaos is the whole of it, many times over. A kind's name is its test's."""

import copy
import dataclasses
from dataclasses import dataclass
from typing import Any, Optional

import pytest

from chaos.judge import Absence, deleted_untainted, faults_of, faults_of_patches
from chaos.program import FLAGS, GRACE, KINDS, play

from .cluster import running_cluster
from .hollow_objects import attachment_name, unique_volume


@pytest.fixture(scope="module")
def field():
    """A cluster of its own, in which Kubernetes looks often whether a volume is still attached."""
    with running_cluster("e2e", GRACE, controller_flags=FLAGS) as running:
        yield running


@pytest.mark.parametrize("name", list(KINDS))
def test_it_ends_in_the_right_state(field, name):
    told: list = []
    result = play(field, KINDS[name], 1, "once", tell=told.append)
    assert result.wrong == 0 and len(result.seconds) == 1, "\n".join(told)


# --- the judge itself, without a cluster


@dataclass
class Deletion:
    """What the judge asks of an audit entry."""

    uid_precondition: Optional[str] = "dead"
    resource: str = "pods"
    verb: str = "delete"
    subresource: str = ""
    namespace: str = "space"
    name: str = "web-0"
    grace: Optional[int] = 0
    status: int = 200


def test_what_may_go_may_go_once():
    again = [Deletion(status=404), Deletion(status=409), Deletion(None, status=403)]
    assert faults_of([Deletion(), *again, Deletion("va", "volumeattachments", grace=None)], {"dead"}, {"va"}) == []
    assert faults_of([Deletion(), Deletion()], {"dead"}, set(), raced=True) == []
    kept = Deletion("va", "volumeattachments", grace=None)
    assert faults_of([kept, kept], set(), {"va"}, late=True) == []
    assert faults_of([kept, kept], set(), {"va"}) == ["va was deleted 2 times"]
    assert faults_of([kept, kept, kept], set(), {"va"}, late=True) == ["va was deleted 3 times"]
    assert faults_of([Deletion(), Deletion()], {"dead"}, set(), late=True) == ["dead was deleted 2 times"]


@pytest.mark.parametrize("entries, said", [
    ([Deletion("alive")], "must not be deleted"),
    ([Deletion("alive", status=404)], "must not be deleted"),
    ([Deletion("dead", "volumeattachments")], "must not be deleted"),
    ([Deletion(None)], "without a UID precondition"),
    ([Deletion(grace=None)], "grace None"),
    ([Deletion(resource="nodes")], "nothing of that kind"),
    ([Deletion(resource="configmaps", name="settings")], "nothing of that kind"),
    ([Deletion(resource="configmaps", name="moonfence-incident-1", verb="deletecollection")], "nothing of that kind"),
    ([Deletion(verb="deletecollection")], "nothing of that kind"),
    ([Deletion(subresource="eviction")], "nothing of that kind"),
    ([Deletion(), Deletion()], "was deleted 2 times")])
def test_what_may_not_go_is_a_fault(entries, said):
    (fault,) = faults_of(entries, {"dead"}, {"va"})
    assert said in fault


def test_its_own_record_of_an_incident_of_which_nothing_came_may_go():
    assert not faults_of([Deletion("record", "configmaps", name="moonfence-incident-1")], {"dead"}, {"va"})


@dataclass
class Asked:
    """A request of the audit log that took a moment."""

    verb: str
    resource: str
    name: str
    received: float = 0
    status: int = 200
    subresource: str = ""
    body: Any = None
    uid_precondition: str = "dead"

    @property
    def staged(self) -> float:
        return self.received + 0.5


DRIVER = "csi.example.com"
VOLUME, OTHER = unique_volume(DRIVER, "v1"), unique_volume(DRIVER, "v2")
ATTACHMENT = attachment_name(DRIVER, "v1", "node-1")
TOLD_TO_GO = Asked("delete", "volumeattachments", ATTACHMENT, 10)
GONE = Asked("get", "volumeattachments", ATTACHMENT, 20, 404)
PINNED = {"/metadata/uid": "u", "/status/nodeInfo/bootID": "b", "/status/conditions/0/type": "Ready",
          "/status/conditions/0/status": "Unknown", "/status/conditions/0/lastHeartbeatTime": "t"}
KUBERNETES_OWN = {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"}
OURS = {"key": "moonfence.io/fenced", "value": "i", "effect": "NoSchedule"}
MARK = "/metadata/annotations/moonfence.io~1fenced"


def patch(tests: dict, changes: dict, name: str = "node-1", subresource: str = "status", at: float = 30) -> Asked:
    operations = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    operations += [{"op": "add", "path": path, "value": value} for path, value in changes.items()]
    return Asked("patch", "nodes", name, at, subresource=subresource, body=operations)


def release(before: tuple = (VOLUME, OTHER), after: tuple = (OTHER,), **more) -> Asked:
    return patch({**PINNED, "/status/volumesInUse": [*before]}, {"/status/volumesInUse": [*after]}, **more)


def taint(before: tuple = (KUBERNETES_OWN,), after: tuple = (KUBERNETES_OWN, OURS), mark: str = MARK, **more) -> Asked:
    return patch({"/metadata/uid": "u", "/status/nodeInfo/bootID": "b", "/spec/taints": [*before]},
                 {mark: "…", "/spec/taints": [*after]}, subresource="", **more)


def lift(ready: str) -> Asked:
    return patch({**PINNED, "/status/conditions/0/status": ready, "/spec/taints": [KUBERNETES_OWN, OURS], MARK: "…"},
                 {MARK: None, "/spec/taints": [KUBERNETES_OWN]}, subresource="")


def without(test: str) -> Asked:
    left = copy.deepcopy(release())
    left.body = [operation for operation in left.body if operation["path"] != test]
    return left


def told_of(patches: list, others: tuple = (TOLD_TO_GO, GONE)) -> list:
    return faults_of_patches([TOLD_TO_GO, *patches], {"node-1"}, DRIVER, Absence(others))


def test_nodes_that_failed_may_be_tainted_and_relieved_of_what_is_gone():
    refused = Asked("patch", "nodes", "node-2", 30, 403, "status")
    made_before = Asked("create", "volumeattachments", ATTACHMENT, 1, 201)
    assert told_of([release(), taint(), lift("True"), refused], (made_before, TOLD_TO_GO, GONE)) == []


@pytest.mark.parametrize("entry, said", [
    (release(name="node-2"), "it never failed"),
    (taint(name="node-2"), "it never failed"),
    (Asked("update", "nodes", "node-1", 30, subresource="status"), "nothing of that kind"),
    (Asked("patch", "nodes", "node-1", 30, subresource="status", body={"status": {}}), "nothing of that kind"),
    (release(after=()), "nobody had told"),
    (release(after=(VOLUME, OTHER)), "releases []"),
    (release(after=(OTHER, "more")), "more to the list"),
    (release(before=("kubernetes.io/rbd/v1", OTHER)), "is not one of"),
    (release(at=20.3), "was not gone"),
    (without("/status/nodeInfo/bootID"), "bootID is not tested"),
    (without("/status/conditions/0/lastHeartbeatTime"), "may have been heard of"),
    (patch({**PINNED, "/status/conditions/0/status": "True", "/status/volumesInUse": [VOLUME]},
           {"/status/volumesInUse": []}), "need not be down"),
    (patch({**PINNED, "/status/volumesInUse": [VOLUME]}, {"/status/volumesInUse": [], "/status/phase": "x"}),
     "it changes"),
    (taint(before=()), "other taints than ours"),
    (taint(after=(OURS,)), "other taints than ours"),
    (taint(after=(KUBERNETES_OWN, {**OURS, "effect": "NoExecute"})), "it sets"),
    (taint(mark="/metadata/labels/x"), "it changes"),
    (lift("Unknown"), "need not be Ready")])
def test_another_patch_of_a_node_is_a_fault(entry, said):
    faults = told_of([entry])
    assert faults and any(said in fault for fault in faults), faults


def test_an_attachment_that_was_made_again_is_not_gone():
    again = Asked("create", "volumeattachments", ATTACHMENT, 25, 201)
    (fault,) = told_of([release()], (TOLD_TO_GO, GONE, again))
    assert "was not gone" in fault
    (fault,) = faults_of_patches([release()], {"node-1"}, DRIVER, Absence([GONE]))
    assert "nobody had told" in fault


def test_with_a_quarantine_the_taint_comes_first():
    delete, node_of = Asked("delete", "pods", "web-0", 40), {"dead": "node-1"}
    assert deleted_untainted([taint(), delete], node_of) == []
    assert deleted_untainted([lift("True")], node_of) == []
    # killed while it waited for the answer
    for status in (0, 409, 504):
        unheard = dataclasses.replace(taint(), status=status)
        told = status == 409
        assert bool(deleted_untainted([unheard, delete], node_of, {"node-1"})) is told
        assert deleted_untainted([unheard, delete], node_of, ()) != []
        assert deleted_untainted([unheard, delete, taint(at=41)], node_of, {"node-1"}) != []
    for early in ([delete], [taint(at=41), delete], [taint(name="node-2"), delete]):
        (fault,) = deleted_untainted(early, node_of)
        assert "before its node was tainted" in fault
