"""Each kind of chaos once: scripts/chaos is the whole of it, many times over. A kind's name is its test's."""

from dataclasses import dataclass
from typing import Optional

import pytest

from chaos.judge import faults_of
from chaos.program import FLAGS, GRACE, KINDS, play

from .cluster import running_cluster


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


@pytest.mark.parametrize("entries, said", [
    ([Deletion("alive")], "must not be deleted"),
    ([Deletion("alive", status=404)], "must not be deleted"),
    ([Deletion("dead", "volumeattachments")], "must not be deleted"),
    ([Deletion(None)], "without a UID precondition"),
    ([Deletion(grace=None)], "grace None"),
    ([Deletion(resource="nodes")], "nothing of that kind"),
    ([Deletion(verb="deletecollection")], "nothing of that kind"),
    ([Deletion(subresource="eviction")], "nothing of that kind"),
    ([Deletion(), Deletion()], "was deleted 2 times")])
def test_what_may_not_go_is_a_fault(entries, said):
    (fault,) = faults_of(entries, {"dead"}, {"va"})
    assert said in fault
