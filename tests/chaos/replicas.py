"""The engine itself is harmed: killed, frozen, stopped, or there are two of it."""

import os
import signal
import time

from e2e.faults import metric
from e2e.kube import wait_for

from .kind import Kind, Round, wait_closed
from .trigger import FOR_EACH_POD

FROZEN = 10.0  # seconds, longer than the term of the Lease
RELEASING = ("attachment's intent", "attachment's outcome", "release's intent", "release's outcome")


class Kill(Kind):
    """SIGKILL right after a step was recorded; the other replica goes on, and the killed one is a standby soon."""

    steps: tuple = ()  # of trigger.STEPS, one of which is drawn
    verb, number, code = "killed", signal.SIGKILL, -signal.SIGKILL

    def harm(self, now: Round) -> str:
        step = now.chance.choice(self.steps)
        count = now.chance.randint(1, self.pods) if step in FOR_EACH_POD else 1
        sprung = now.fail_until(step, count, self.number)
        sprung.engine.wait_exit(self.code)
        sprung.engine.start(ready=False)
        return f"{self.verb} {sprung.engine.name} after {step} {count}, {sprung.beyond} records beyond it"

    def mend(self, now: Round):
        for engine in now.lane.engines:
            if not engine.alive():
                engine.start(ready=False)
            engine.wait_ready()


class KillAtRandom(Kill):
    """SIGKILL at any moment of the first second, most often in the first tenth, in which all is done."""

    def harm(self, now: Round) -> str:
        pause = now.chance.uniform(0, now.chance.choice((0.05, 0.1, 1)))
        leader = now.lane.leader()
        now.fail()
        time.sleep(pause)
        leader.kill9()
        leader.start(ready=False)
        return f"killed {leader.name} {pause:.3f} s after the failure"


class HandOver(Kill):
    """SIGTERM: it ends what it has begun and hands over."""

    verb, number, code = "stopped", signal.SIGTERM, 0


class Freeze(Kind):
    """SIGSTOP for longer than the Lease lasts, then SIGCONT: another acts meanwhile, and this one does not."""

    steps = ("", "incident_opened", "verdict", "pod's intent", "pod's outcome")

    def __init__(self, name: str, **more):
        super().__init__(name, **more)
        self.frozen: dict = {}  # lane -> (engine, until when)

    def harm(self, now: Round) -> str:
        step = now.chance.choice(self.steps)
        if step:
            leader = now.fail_until(step, 1, signal.SIGSTOP).engine
        else:
            leader = now.lane.leader()
            os.kill(leader.pid, signal.SIGSTOP)
            now.fail()
        self.frozen[now.lane] = leader, time.monotonic() + FROZEN
        return f"froze {leader.name} for {FROZEN:.0f} s {'after ' + step if step else 'before the failure'}"

    def mend(self, now: Round):
        leader, until = self.frozen.pop(now.lane, (None, 0))
        if leader is None:
            return
        try:
            time.sleep(max(0.0, until - time.monotonic()))
            now.lane.leader(not_this=leader)
        finally:
            os.kill(leader.pid, signal.SIGCONT)
        wait_for(f"{leader.name} has noticed", lambda: metric(
            leader, "leader_election_master_status", name="moonfence") == 0, 30)


class TwoLeaders(Kind):
    """Two engines that both act, some milliseconds apart: the preconditions keep them from harm."""

    raced = True

    def harm(self, now: Round) -> str:
        late, pause = now.chance.choice(now.lane.engines), now.chance.uniform(0, 0.1)
        os.kill(late.pid, signal.SIGSTOP)
        try:
            now.fail()
            time.sleep(pause)
        finally:
            os.kill(late.pid, signal.SIGCONT)
        return f"{late.name} is {1000 * pause:.0f} ms late"


class NodeBack(Kind):
    """The node comes back in the middle. Deleted is nothing from a second after that on, the age of a reading."""

    replicas = 1

    def __init__(self, name: str, **more):
        super().__init__(name, **more)
        self.back: dict = {}  # node -> when, by the clock of the machine

    def harm(self, now: Round) -> str:
        pause = now.chance.choice((0, now.chance.uniform(0, 0.05), now.chance.uniform(0, 1)))
        now.fail()
        time.sleep(pause)
        now.doomed.heal()
        self.back[self.of(now)] = time.time()
        return f"back after {1000 * pause:.0f} ms"

    def is_right(self, now: Round) -> bool:
        pods = now.doomed.ready()
        return len(pods) == self.pods and now.doomed.usable()

    def mend(self, now: Round):
        if any(r.get("node") == now.doomed.node for e in now.lane.engines for r in e.records()):
            wait_closed(now)

    def faults(self, now: Round) -> list:
        ours, back = now.lane.register.bound_to(now.doomed.node), self.back.get(self.of(now), float("inf"))
        return [f"{e.resource} {e.name} was deleted {e.received - back:.1f} s after the node was back"
                for e in now.lane.audit.deletes(by=now.lane.account.user + "$")
                if e.uid_precondition in ours and e.received > back + 1]

    @staticmethod
    def of(now: Round) -> tuple:
        return now.lane.namespace, now.doomed.node


class Replaced(Kind):
    """Somebody else deletes some of the pods at the same time; those that have their names afterwards stay. With
    volumes it is after the engine has judged: of a pod that it never saw it knows no volumes."""

    replicas = 1

    def harm(self, now: Round) -> str:
        pods = sorted(now.doomed.pods)
        chosen, pause = now.chance.sample(pods, now.chance.randint(1, len(pods))), now.chance.uniform(0, 0.06)
        if self.volumes:
            now.fail_until("verdict", len(pods))
        else:
            now.fail()
            time.sleep(pause)
        for uid in chosen:
            now.doomed.delete_pod(uid)
        when = "after the last verdict" if self.volumes else f"{1000 * pause:.0f} ms after the failure"
        return f"{len(chosen)} of {len(pods)} replaced {when}"


def kill(name: str, step: str, **more) -> Kill:
    return Kill(name, steps=(step,), **more)


def kinds() -> list:
    return [
        kill("kill-opened", "incident_opened", volumes=True), kill("kill-verdict", "verdict"),
        kill("kill-intent", "pod's intent"), kill("kill-outcome", "pod's outcome"), KillAtRandom("kill-random"),
        kill("kill-verdict-volumes", "verdict", volumes=True),
        kill("kill-intent-volumes", "pod's intent", volumes=True),
        kill("kill-outcome-volumes", "pod's outcome", volumes=True),
        kill("kill-attachment-intent", "attachment's intent", volumes=True),
        kill("kill-attachment-outcome", "attachment's outcome", volumes=True),
        KillAtRandom("kill-random-volumes", volumes=True),
        kill("kill-release-intent", "release's intent", volumes=True, releases=True),
        kill("kill-release-outcome", "release's outcome", volumes=True, releases=True),
        Kill("kill-quarantine", steps=("quarantine's intent", "quarantine's outcome"), quarantine=True),
        Freeze("freeze"), Freeze("freeze-volumes", volumes=True), TwoLeaders("two-leaders", volumes=True),
        Freeze("freeze-release", steps=RELEASING, volumes=True, releases=True),
        Freeze("freeze-quarantine", steps=("quarantine's intent", "quarantine's outcome"), quarantine=True),
        HandOver("hand-over", steps=("incident_opened", "verdict", "pod's intent", "pod's outcome")),
        HandOver("hand-over-volumes", volumes=True,
                 steps=("verdict", "pod's intent", "pod's outcome", "attachment's intent")),
        NodeBack("node-back"), NodeBack("node-back-volumes", volumes=True),
        Replaced("replaced"), Replaced("replaced-volumes", volumes=True)]
