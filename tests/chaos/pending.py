"""Kinds that cannot end right yet, and what each waits for. They are played when --only names them, and move to the
kinds of their files when what they wait for is there."""

from .kind import Kind
from .plane import Storm

FORESIGHT = "a sign that other kubelets, alive, are about to say NotReady too: their Leases do not show it"


def pending() -> list:
    """(kind, what it waits for)"""
    def later(waits_for: str, *kinds: Kind) -> list:
        return [(kind, waits_for) for kind in kinds]
    return [
        *later(FORESIGHT, Storm("storm-not-ready", modes=("notready",))),
    ]
