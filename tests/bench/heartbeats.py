"""The heartbeats of many nodes as kubelets send them, and nothing else of a kubelet.

`python3 -m bench.heartbeats --kubeconfig FILE --prefix P --nodes N`: each node renews its Lease every `--lease` seconds and
posts its status every `--status` seconds (10 and 300, as a kubelet of which nothing changes); the nodes take turns
evenly. 0 leaves one of them out. Says on standard error every 10 s how many it has sent, and how many it was late with.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path

from e2e.async_http import BROKEN, AsyncClient
from e2e.hollow_objects import lease, now_micro
from e2e.kube import PATCH_TYPES, Access, path_of

from .crowd import conditions

CONNECTIONS = 16
DURATION = 40  # of a Lease, as kubelets write it


class Heartbeats:
    def __init__(self, client: AsyncClient, names: list):
        self.client, self.names = client, names
        self.leases: dict = {}
        self.sent = self.late = self.failed = 0

    async def renew(self, name: str):
        path = path_of("leases", name, "kube-node-lease")
        known = self.leases.get(name)
        if known is None:
            fresh = lease(name, "")
            fresh["spec"]["leaseDurationSeconds"] = DURATION
            del fresh["metadata"]["ownerReferences"]  # of an owner with another UID it would be collected as garbage
            status, body = await self.client.request("POST", path_of("leases", "", "kube-node-lease"), fresh)
            if status == 409:
                status, body = await self.client.request("GET", path)
        else:
            known["spec"]["renewTime"] = now_micro()
            status, body = await self.client.request("PUT", path, known)
        self.leases[name] = body if status < 300 else None
        self.failed += status >= 300

    async def post(self, name: str):
        status, _ = await self.client.request("PATCH", path_of("nodes", name, subresource="status"),
                                              {"status": {"conditions": conditions()}}, PATCH_TYPES["strategic"])
        self.failed += status >= 300

    async def one(self, send, name: str):
        try:
            await send(name)
            self.sent += 1
        except BROKEN:
            self.failed += 1

    async def repeat(self, send, every: float):
        """All names once within `every` seconds, for ever; what is late is not caught up with."""
        pause, due, tasks = every / len(self.names), time.monotonic(), set()
        while True:
            for name in self.names:
                due += pause
                wait = due - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                elif wait < -1:
                    self.late, due = self.late + 1, time.monotonic()
                task = asyncio.create_task(self.one(send, name))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def tell(self):
        began = time.monotonic()
        while True:
            await asyncio.sleep(10)
            print(f"{self.sent} sent, {self.late} late, {self.failed} failed in {time.monotonic() - began:.0f} s", file=sys.stderr,
                  flush=True)


async def amain(arguments):
    client = AsyncClient(Access.from_kubeconfig(arguments.kubeconfig), "bench-heartbeats/1.0", CONNECTIONS)
    beats = Heartbeats(client, [f"{arguments.prefix}{i}" for i in range(arguments.nodes)])
    wanted = [(beats.renew, arguments.lease), (beats.post, arguments.status)]
    await asyncio.gather(beats.tell(), *(beats.repeat(send, every) for send, every in wanted if every > 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--prefix", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--lease", type=float, default=10)
    parser.add_argument("--status", type=float, default=300)
    asyncio.run(amain(parser.parse_args()))


if __name__ == "__main__":
    main()
