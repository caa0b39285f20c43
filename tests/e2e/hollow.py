"""Stand-in nodes and a stand-in attacher, all in one process: `python3 -m e2e.hollow --help`.

Everything above the kubelet is the real Kubernetes; this process is the machines. It is told to fail
and heal nodes over a unix socket (hollow_control.py).
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from .async_http import AsyncClient, follow, until_done
from .hollow_attacher import Attacher
from .hollow_control import bound_address
from .hollow_node import MODES, HollowNode, pod_summary
from .hollow_objects import CSI_DRIVER
from .kube import Access, path_of


class World:
    """The nodes by name, and what they ask the API for."""

    def __init__(self, nodes_access: Access, attacher_access: Access, arguments):
        self.client = AsyncClient(nodes_access, "hollow-kubelet/1.0")
        self.attacher = Attacher(AsyncClient(attacher_access, "hollow-attacher/1.0", 8), self)
        self.arguments = arguments
        self.nodes: dict = {}
        self.pod_nodes: dict = {}  # pod uid -> node name
        self._volumes: dict = {}   # PV name -> (driver, handle, access modes)

    # --- watching

    async def run(self):
        attachments = follow(self.attacher.client, path_of("volumeattachments"), {}, self.attacher.saw_all,
                             self.attacher.saw)
        pods = follow(self.client, path_of("pods"), {"fieldSelector": "spec.nodeName!="}, self.saw_pods, self.saw_pod)
        await asyncio.gather(attachments, pods)

    def saw_pods(self, items: list):
        living = {item["metadata"]["uid"] for item in items}
        for uid in [u for u in self.pod_nodes if u not in living]:
            self._pass_on("DELETED", {"uid": uid, "node": self.pod_nodes[uid]})
        for item in items:
            self.saw_pod("ADDED", item)

    def saw_pod(self, kind: str, pod: dict):
        self._pass_on(kind, pod_summary(pod))

    def _pass_on(self, kind: str, pod: dict):
        node = self.nodes.get(pod["node"])
        if kind == "DELETED":
            self.pod_nodes.pop(pod["uid"], None)
        elif node:
            self.pod_nodes[pod["uid"]] = pod["node"]
        if node:
            node.saw_pod(kind, pod)

    # --- what nodes and attacher ask

    async def _volume(self, name: str):
        if not name:
            return None  # of an attachment with an inline source
        status, body = await self.client.request("GET", path_of("persistentvolumes", name))
        if status == 200:
            csi = body["spec"].get("csi")
            self._volumes[name] = csi and (csi["driver"], csi["volumeHandle"], tuple(body["spec"]["accessModes"]))
        # of a volume that is deleted while attached, the storage still knows the handle
        return self._volumes.get(name)

    async def _attach_required(self, driver: str) -> bool:
        status, body = await self.client.request("GET", path_of("csidrivers", driver))
        return status != 200 or body["spec"].get("attachRequired", True)

    async def volumes(self, pod: dict):
        """(driver, handle) of the attachable volumes of a pod; None while a claim is not bound."""
        found = []
        for claim in pod["claims"]:
            status, body = await self.client.request(
                "GET", path_of("persistentvolumeclaims", claim, pod["namespace"]))
            name = body["spec"].get("volumeName") if status == 200 else None
            if not name:
                return None
            volume = await self._volume(name)
            if volume and await self._attach_required(volume[0]):
                found.append(volume[:2])
        return found

    async def volume_of(self, attachment: dict):
        volume = await self._volume(attachment["spec"]["source"].get("persistentVolumeName", ""))
        return volume and volume[:2]

    async def may_share(self, attachment: dict) -> bool:
        volume = await self._volume(attachment["spec"]["source"].get("persistentVolumeName", ""))
        return bool(volume) and bool({"ReadWriteMany", "ReadOnlyMany"} & set(volume[2]))

    def attached(self, name: str) -> bool:
        return self.attacher.attached(name)

    # --- nodes

    async def add(self, names: list, labels: dict = None, images: int = None, drivers: list = None):
        a = self.arguments
        fresh = []
        for name in names:
            if name in self.nodes:
                continue
            self.nodes[name] = HollowNode(
                name, self.client, self, a.interval, a.status_period, labels or {},
                a.images if images is None else images, a.conditions, drivers or [CSI_DRIVER])
            fresh.append(name)
        await asyncio.gather(*(self.nodes[name].register() for name in fresh))
        for name in fresh if len(fresh) <= 20 else []:
            # pods that were bound to this name before it was one of ours
            path = path_of("pods") + f"?fieldSelector=spec.nodeName%3D{name}"
            status, body = await until_done(lambda path=path: self.client.request("GET", path))
            for item in body["items"] if status == 200 else []:
                self.saw_pod("ADDED", item)

    async def remove(self, names: list):
        for name in names:
            node = self.nodes.pop(name, None)
            if node:
                await node.remove()


async def command(world: World, order: dict) -> dict:
    """One order from the control socket."""
    verb = order.pop("do")
    if verb == "add":
        await world.add(**order)
        return {}
    if verb == "remove":
        await world.remove(order["names"])
        return {}
    if verb == "attacher":
        world.attacher.set(order.pop("driver"), **order)
        return {}
    if verb == "status":
        return {"nodes": {n.name: {"mode": n.mode_name, "pods": len(n.pods), "volumes": n.volumes_in_use(),
                                   "boot_id": n.boot_id} for n in world.nodes.values()},
                "attacher": {driver: asdict(s) for driver, s in world.attacher.settings.items()},
                "published": [{"driver": v[0], "handle": v[1], "nodes": sorted(nodes)}
                              for v, nodes in world.attacher.published.items() if v and nodes],
                "double": world.attacher.double}
    node = world.nodes.get(order.get("node", ""))
    if node is None:
        raise ValueError(f"no such hollow node: {order.get('node')}")
    if verb == "fail":
        if order["mode"] not in MODES or order["mode"] == "ok":
            raise ValueError(f"no such mode: {order['mode']}")
        await node.fail(order["mode"])
    elif verb == "heal":
        await node.heal(order.get("reboot", False))
    elif verb == "stop-delay":
        node.stop_delay = order["seconds"]
    else:
        raise ValueError(f"no such order: {verb}")
    return {}


async def serve(world: World, socket_path: Path):
    async def handle(reader, writer):
        try:
            while line := await reader.readline():
                try:
                    answer = {"ok": True, **await command(world, json.loads(line))}
                except Exception as error:  # whatever is wrong with an order is for the one who sent it
                    answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()
    with bound_address(socket_path) as address:
        if socket_path.exists():
            socket_path.unlink()
        server = await asyncio.start_unix_server(handle, address, limit=1 << 20)
        os.chmod(socket_path, 0o600)
    return server


async def amain(arguments):
    world = World(Access.from_kubeconfig(arguments.nodes_kubeconfig),
                  Access.from_kubeconfig(arguments.attacher_kubeconfig), arguments)
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await world.add([f"{arguments.prefix}{i}" for i in range(1, arguments.nodes + 1)])
    running = asyncio.create_task(world.run())
    server = await serve(world, Path(arguments.socket))
    waiting = asyncio.create_task(stop.wait())
    done, _ = await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    server.close()
    running.cancel()
    if running in done:
        running.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes-kubeconfig", required=True)
    parser.add_argument("--attacher-kubeconfig", required=True)
    parser.add_argument("--socket", required=True, help="unix socket that takes orders")
    parser.add_argument("--nodes", type=int, default=0, help="how many to create at the start")
    parser.add_argument("--prefix", default="node-", help="their names: PREFIX1, PREFIX2, …")
    parser.add_argument("--interval", type=float, default=2, help="seconds between two renewals of a Lease")
    parser.add_argument("--status-period", type=float, default=60, help="seconds between two unchanged statuses")
    parser.add_argument("--images", type=int, default=0, help="images in each node's status")
    parser.add_argument("--conditions", action="store_true", help="all conditions of a kubelet, not Ready alone")
    arguments = parser.parse_args()
    asyncio.run(amain(arguments))
    # tasks that wait for an API server which is gone already must not hold us up
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
