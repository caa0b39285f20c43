"""What lies between the engine and the API server is harmed: cut, swallowing, telling that the watch has expired."""

import threading
import time

from e2e.engine import Engine
from e2e.kube import wait_for
from e2e.proxy import Proxy
from e2e.proxy_rules import status_answer

from .kind import Kind, Round
from .network import network
from .replicas import RELEASING

STEPS = ("", "incident_opened", "verdict", "pod's intent", "pod's outcome")


class Apart(Engine):
    """An engine with a network of its own."""

    def __init__(self, cluster, *positional, **more):
        self.network = network(cluster.control_plane)
        super().__init__(cluster, *positional, server=self.network.server, **more)
        if self.network.server_name:
            text = self.kubeconfig.read_text()
            self.kubeconfig.write_text(text.replace(
                "    server:", f"    tls-server-name: {self.network.server_name}\n    server:"))

    def command(self) -> list:
        return [*self.network.prefix, *(w.replace("127.0.0.1:", f"{self.network.guest}:") for w in super().command())]

    def get(self, path: str, port=None, host: str = "") -> tuple:
        return super().get(path, port, host or self.network.guest)

    def end(self):
        try:
            super().end()
        finally:
            self.network.end()


class Distant(Kind):
    """Its engines are `Apart`."""

    def equip(self, lane):
        for _ in range(self.replicas):
            lane.engine(elect=self.elects, make=Apart)


class Cut(Distant):
    """All connections are reset, several times in the first moments."""

    replicas = 1

    def harm(self, now: Round) -> str:
        pauses = [now.chance.uniform(0, 0.15) for _ in range(now.chance.randint(1, 5))]
        (engine,) = now.lane.engines
        now.fail()
        for pause in pauses:
            time.sleep(pause)
            engine.network.cut()
        return f"cut after {', '.join(f'{1000 * p:.0f}' for p in pauses)} ms"


class BlackHole(Distant):
    """Packets are swallowed, in both directions, for some seconds."""

    seconds = (1, 8)
    steps = STEPS
    late = True

    def __init__(self, name: str, **more):
        super().__init__(name, **more)
        self.ends: dict = {}  # lane -> what ends it

    def harm(self, now: Round) -> str:
        name, seconds = now.chance.choice(self.steps), now.chance.uniform(*self.seconds)
        if name:
            with now.held_at(name) as engine:
                self.swallow(now, engine, seconds)
        else:
            engine = now.lane.leader() if self.elects else now.lane.engines[0]
            self.swallow(now, engine, seconds)
            now.fail()
        return f"{engine.name} alone for {seconds:.1f} s {'after ' + name if name else 'before the failure'}"

    def swallow(self, now: Round, engine: Apart, seconds: float):
        engine.network.black_hole()
        self.ends[now.lane] = threading.Timer(seconds, engine.network.flow_again)
        self.ends[now.lane].start()

    def mend(self, now: Round):
        if end := self.ends.pop(now.lane, None):
            end.join()
        for engine in now.lane.engines:
            engine.wait_ready()


class ExpiredWatch(Kind):
    """410 Gone, as an event in the open watch or as the answer to the next one, around the failure."""

    replicas = 1

    def __init__(self, name: str, **more):
        super().__init__(name, **more)
        self.proxies: dict = {}  # by lane

    def equip(self, lane):
        self.proxies[lane] = Proxy(lane.cluster.control_plane).start()
        lane.closing.append(self.proxies[lane].stop)
        lane.engine(elect=False, server=self.proxies[lane].server)

    def harm(self, now: Round) -> str:
        proxy = self.proxies[now.lane]
        wait_for("the watch of nodes is open", lambda: proxy.open_watches("/nodes$"), 30)
        as_event, early, pause = now.chance.random() < 0.5, now.chance.random() < 0.5, now.chance.uniform(0, 0.05)

        def expire():
            if as_event:
                proxy.close_watches(path="/nodes$")
            else:
                proxy.on("GET", "/nodes$", status_answer(410, "Expired", "too old resource version (scripted)"),
                         query="watch=", times=1)
                proxy.cut_all()
        if early:
            expire()
        else:
            now.fail()
        time.sleep(pause)
        if early:
            now.fail()
        else:
            expire()
        how = "by an event" if as_event else "by an answer"
        return f"expired {how} {1000 * pause:.0f} ms {'before' if early else 'after'} the failure"


def kinds() -> list:
    return [Cut("cut", volumes=True), BlackHole("black-hole", replicas=1, volumes=True),
            BlackHole("black-hole-leader", seconds=(9, 14)),
            BlackHole("black-hole-leader-volumes", seconds=(9, 14), volumes=True),
            BlackHole("black-hole-release", replicas=1, steps=RELEASING, volumes=True, releases=True),
            BlackHole("black-hole-leader-release", seconds=(9, 14), steps=RELEASING, volumes=True, releases=True),
            ExpiredWatch("expired-watch", volumes=True)]
