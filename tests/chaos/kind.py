"""What all kinds of chaos have in common: a round is a node that fails, a harm beside it, and the right state."""

import contextlib
import os
import random
import signal
import time
from dataclasses import dataclass
from typing import Iterator

from e2e.doomed import Doomed
from e2e.engine import Engine
from e2e.kube import wait_for

from .judge import released_by
from .lane import Lane
from .trigger import Sprung, Trigger

# seconds that the storage may take to let go. An engine that dies within a second of a deletion has not recorded yet
# that it left, and nothing is released by the next one.
DETACH_DELAY = 3.0


@dataclass
class Round:
    lane: Lane
    number: int
    chance: random.Random
    doomed: Doomed
    mode: str = "notready"  # in which it fails
    failed: float = 0.0     # when the node failed, monotonic

    def fail(self):
        self.lane.doomed.add(self.doomed.node)
        self.doomed.fail(self.mode)
        self.failed = time.monotonic()

    def fail_until(self, step: str, count: int = 1, number: int = 0) -> Sprung:
        """Lets the node fail and waits for so many records of a step (trigger.STEPS), by whichever engine; that one
        gets the signal at once."""
        trigger = Trigger(self.lane.engines, self.doomed.node, step, count, number)
        self.fail()
        return trigger.wait()

    @contextlib.contextmanager
    def held_at(self, step: str) -> Iterator[Engine]:
        """Lets the node fail, and holds the engine that recorded the step still meanwhile: what is broken then is
        broken at that step."""
        engine = self.fail_until(step, 1, signal.SIGSTOP).engine
        try:
            yield engine
        finally:
            os.kill(engine.pid, signal.SIGCONT)


class Kind:
    """A kind of chaos. Subclasses say which engines there are and what happens to them."""

    lanes = 4       # that may run side by side; 1 for what breaks the control plane itself
    replicas = 2
    pods = 3        # on the node that fails
    volumes = False
    releases = False  # the engine takes the volumes off the node's status, which it does of silent nodes alone
    quarantine = False  # the engine taints the node before it deletes anything
    raced = False   # all replicas act at once, without leader election
    late = False    # packets are swallowed, and sent again by the kernel when they pass
    right_within = 300.0  # seconds: a bound, not a wait; 45 more after an outage, until a Lease has stood still

    def __init__(self, name: str, **more):
        self.name = name
        for key, value in more.items():
            assert hasattr(self, key), key
            setattr(self, key, value)

    @property
    def elects(self) -> bool:
        return self.replicas > 1 and not self.raced

    def equip(self, lane: Lane):
        for _ in range(self.replicas):
            lane.engine(elect=self.elects)

    def harm(self, now: Round) -> str:
        """Lets the node fail and does the harm; says what it did."""
        raise NotImplementedError

    def is_right(self, now: Round) -> bool:
        return bool(now.doomed.moved())

    def mend(self, now: Round):
        """Before the next round: everything runs again."""

    def try_to_mend(self, now: Round) -> list:
        try:
            self.mend(now)
        except (AssertionError, TimeoutError, RuntimeError) as fault:
            return [str(fault)]
        return []

    def faults(self, now: Round) -> list:
        """What is wrong with this round beside what is wrong in every kind."""
        return []

    def patched(self, now: Round) -> str:
        """What the engines did to the node itself."""
        if not self.releases and not self.quarantine:
            return ""
        done = now.lane.patches(now.doomed.node)
        released = sum(len(released_by(entry)) for entry in done)
        words = [f"{released} released (the storage took {now.lane.detach_delay:.1f} s)"] if self.releases else []
        words += [f"tainted {len(done)} times"] if self.quarantine else []
        return "".join(f", {word}" for word in words)

    # --- one round

    def chance(self, number: int, seed: str) -> random.Random:
        return random.Random(f"{seed}/{self.name}/{number}")

    def play(self, lane: Lane, number: int, seed: str) -> tuple:
        """(what was done, seconds from the failure to the right state, faults)"""
        chance = self.chance(number, seed)
        doomed = Doomed(lane.cluster, lane.namespace, f"r{number}", self.pods, self.volumes, refuges=2)
        now = Round(lane, number, chance, doomed, "silent" if self.releases else "notready")
        note, seconds, faults = "", 0.0, []
        try:
            if self.elects:
                lane.leader()
            if self.releases:
                lane.set_detach_delay(chance.uniform(0, DETACH_DELAY))
            doomed.place()
            note = self.harm(now)
            doomed.workloads.wait("the right state", lambda: self.is_right(now), self.right_within)
            seconds = time.monotonic() - now.failed
            note += self.patched(now)
            self.mend(now)
        except (AssertionError, TimeoutError, RuntimeError) as fault:
            faults += [str(fault), *last_words(now), *self.try_to_mend(now)]
        faults += self.faults(now) + lane.new_faults()
        faults += lane.story(faults)
        doomed.remove()
        return note, seconds, faults


def last_words(now: Round) -> list:
    """What the engines recorded last about the round's node, and what is still attached to it."""
    left = [f"attached to {now.doomed.node}: {a['metadata']['name']}, marked: {'deletionTimestamp' in a['metadata']}"
            for a in now.doomed.attached_to(now.doomed.node)]
    words = [" ".join([r["time"], engine.name, r["kind"], r["reason"], r.get("pod", ""), r.get("text", "")[:120]])
             for engine in now.lane.engines for r in engine.records()[-60:] if r.get("node") == now.doomed.node]
    return left + words[-16:]


def wait_closed(now: Round):
    """No engine has an open incident about the round's node."""
    def closed():
        kinds = [r["kind"] for e in now.lane.engines for r in e.records() if r.get("node") == now.doomed.node]
        return kinds.count("incident_closed") >= kinds.count("incident_opened") > 0
    wait_for("the incident is closed", closed, 60)
