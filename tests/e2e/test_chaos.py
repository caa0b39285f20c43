"""Each kind of chaos once: scripts/chaos is the whole of it, many times over. A kind's name is its test's."""

import pytest

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
