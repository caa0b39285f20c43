"""Kinds that cannot end right yet, and what each waits for. They are played when --only names them, and move to the
kinds of their files when what they wait for is there."""

from .connections import BlackHole
from .kind import Kind
from .plane import ApiServer, Etcd, Storm
from .replicas import Freeze, HandOver, KillAtRandom, kill

RECORD = "a record of the incident in the cluster, so that the next leader finishes what is attached"
RELEASE = "the release of volumes: a controller manager that starts anew waits six minutes without it"
GUARD = "a look at the Leases of other nodes before the first deletion of a storm"


def pending() -> list:
    """(kind, what it waits for)"""
    def later(waits_for: str, *kinds: Kind) -> list:
        return [(kind, waits_for) for kind in kinds]
    return [
        *later(RECORD,
               kill("kill-verdict-volumes", "verdict", volumes=True),
               kill("kill-intent-volumes", "pod's intent", volumes=True),
               kill("kill-outcome-volumes", "pod's outcome", volumes=True),
               kill("kill-attachment-intent", "attachment's intent", volumes=True),
               kill("kill-attachment-outcome", "attachment's outcome", volumes=True),
               KillAtRandom("kill-random-volumes", volumes=True),
               Freeze("freeze-volumes", volumes=True),
               HandOver("hand-over-volumes", volumes=True,
                        steps=("verdict", "pod's intent", "pod's outcome", "attachment's intent")),
               BlackHole("black-hole-leader-volumes", seconds=(9, 14), volumes=True)),
        *later(RELEASE, ApiServer("api-server-volumes", volumes=True, releases=True)),
        *later(GUARD, Etcd("etcd", volumes=True), Storm("storm")),
    ]
