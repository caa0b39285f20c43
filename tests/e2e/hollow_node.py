"""One stand-in node: its heartbeat, its status and what its kubelet does with pods."""

import asyncio
import random
import uuid
from dataclasses import dataclass
from typing import Optional

from . import hollow_objects as objects
from .async_http import BROKEN, AsyncClient, servers_own_trouble, until_done
from .kube import PATCH_TYPES, path_of

STRATEGIC = PATCH_TYPES["strategic"]


@dataclass(frozen=True)
class Mode:
    """What of a node still works. `ready` is what it posts, None when it posts nothing."""

    lease: bool
    ready: Optional[str]
    pods: bool


MODES = {
    "ok": Mode(True, "True", True),
    # a dead machine, or one cut off
    "silent": Mode(False, None, False),
    # a living kubelet that reports trouble (container runtime down), so it cannot stop pods either
    "notready": Mode(True, "False", False),
    # the Ready condition is taken away, then silence; after the grace period the controller manager
    # writes one itself
    "missing": Mode(False, None, False),
    # the same with a living Lease: the condition stays away for good
    "missing-alive": Mode(True, None, False),
}


def pod_summary(pod: dict) -> dict:
    """The few things that a stand-in needs; whole objects would be too much for 30,000 pods."""
    meta, status = pod["metadata"], pod.get("status", {})
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])
    claims = [v["persistentVolumeClaim"]["claimName"] for v in pod["spec"].get("volumes") or []
              if "persistentVolumeClaim" in v]
    return {"uid": meta["uid"], "name": meta["name"], "namespace": meta["namespace"],
            "node": pod["spec"].get("nodeName", ""), "deleting": "deletionTimestamp" in meta,
            "phase": status.get("phase", ""), "ready": ready, "started": status.get("startTime"),
            "claims": claims, "containers": [c["name"] for c in pod["spec"]["containers"]]}


class HollowNode:
    """`world` answers what a kubelet asks the API for: world.volumes(pod) and world.attached(name)."""

    def __init__(self, name: str, client: AsyncClient, world, interval: float, status_period: float,
                 labels: dict, images: int, all_conditions: bool, drivers: list):
        self.name, self.client, self.world = name, client, world
        self.interval, self.status_period = interval, status_period
        self.labels, self.images, self.all_conditions = labels, images, all_conditions
        self.drivers = drivers
        self.mode_name, self.mode = "ok", MODES["ok"]
        self.boot_id = str(uuid.uuid4())
        self.chance = random.Random(name)  # the same in each run
        self.uid = ""
        self.since = objects.now()
        self.pods: dict = {}       # uid -> summary, as the API has it
        self.in_use: dict = {}     # pod uid -> volumes that the kubelet has mounted for it
        self.reported: Optional[list] = None
        self._mounted: set = set()   # pods whose containers run
        self._unmounted: dict = {}   # pod uid -> names of the attachments that it waits for
        self.stop_delay = 0.0
        self._tasks: list = []
        self._beat = asyncio.Event()
        self._dirty = asyncio.Event()
        self._posted = asyncio.Condition()
        self._writes = 0
        self._busy: dict = {}      # pod uid -> whether it has to be looked at again
        self._running: set = set()  # tasks; asyncio itself keeps only weak references
        self._lease: Optional[dict] = None

    # --- life

    async def register(self):
        body = objects.node(self.name, self.boot_id, self.labels, self.images, self.all_conditions)
        status, node = await until_done(lambda: self.client.request("POST", "/api/v1/nodes", body))
        if status == 409:
            status, node = await until_done(lambda: self.client.request("GET", path_of("nodes", self.name)))
            self.reported = node["status"].get("volumesInUse")
        self.uid = node["metadata"]["uid"]
        csi = objects.csi_node(self.name, self.uid, self.drivers)
        await until_done(lambda: self.client.request("POST", path_of("csinodes"), csi))
        self._tasks = [asyncio.create_task(self._heartbeat()), asyncio.create_task(self._status())]

    async def remove(self):
        """Stops the node and deletes its objects; its pods are then the garbage collector's."""
        self.stop()
        for path in (path_of("nodes", self.name), path_of("csinodes", self.name),
                     path_of("leases", self.name, "kube-node-lease")):
            await until_done(lambda path=path: self.client.request("DELETE", path))

    def stop(self):
        self.mode_name, self.mode = "silent", MODES["silent"]
        for task in [*self._tasks, *self._running]:
            task.cancel()

    async def fail(self, mode_name: str):
        """Returns when nothing that the mode forbids is still under way."""
        self.mode_name, self.mode = mode_name, MODES[mode_name]
        while self._writes:
            await asyncio.sleep(0.001)
        if mode_name.startswith("missing"):
            patch = {"status": {"conditions": [{"type": "Ready", "$patch": "delete"}]}}
            await until_done(lambda: self.client.request(
                "PATCH", path_of("nodes", self.name, subresource="status"), patch, STRATEGIC))
        elif self.mode.ready:
            self.since = objects.now()
            await self._post_status()
        self._beat.set()

    async def heal(self, reboot: bool = False):
        """The kubelet is back: it reports what it believed before, then learns what happened meanwhile.
        After a reboot it believes nothing."""
        if reboot:
            self.boot_id = str(uuid.uuid4())
            for known in (self.in_use, self._mounted, self._unmounted):
                known.clear()
        self.since = objects.now()
        self.mode_name, self.mode = "ok", MODES["ok"]
        self._beat.set()
        await self._post_status(whole=True)
        for uid in [u for u in {*self.in_use, *self._mounted} if u not in self.pods]:
            self._forget(uid)
        for uid in list(self.pods):
            self.look_at(uid)

    # --- heartbeat and status

    async def _write(self, allowed, method, path, body, kind="application/json"):
        """A write that the node's mode allows, None otherwise. Counted, so that fail() can wait for it."""
        if not allowed():
            return None
        self._writes += 1
        try:
            return await self.client.request(method, path, body, kind)
        finally:
            self._writes -= 1

    async def _heartbeat(self):
        await asyncio.sleep(self.chance.uniform(0, self.interval) if self._lease else 0)
        while True:
            try:
                await self._renew()
            except BROKEN:
                await asyncio.sleep(self.chance.uniform(0.1, 0.5))
                continue
            self._beat.clear()
            try:
                await asyncio.wait_for(self._beat.wait(), self.interval * self.chance.uniform(0.95, 1.05))
            except asyncio.TimeoutError:
                pass

    async def _renew(self):
        if not self.mode.lease:
            return
        path = path_of("leases", self.name, "kube-node-lease")
        if self._lease:
            self._lease["spec"]["renewTime"] = objects.now_micro()
            answer = await self._write(lambda: self.mode.lease, "PUT", path, self._lease)
        else:
            answer = await self._write(lambda: self.mode.lease, "POST", path_of("leases", "", "kube-node-lease"),
                                       objects.lease(self.name, self.uid))
        if answer and answer[0] in (404, 409):
            status, body = await self.client.request("GET", path)
            self._lease = body if status == 200 else None
            self._beat.set()
        elif answer and answer[0] < 300:
            self._lease = answer[1]

    def volumes_in_use(self) -> list:
        return sorted({volume for volumes in self.in_use.values() for volume in volumes})

    async def _post_status(self, whole: bool = False):
        ready = self.mode.ready
        if not ready:
            return
        volumes = self.volumes_in_use()
        status = {"conditions": objects.conditions(ready, self.since, self.all_conditions), "volumesInUse": volumes}
        if whole:
            status["nodeInfo"] = {"bootID": self.boot_id}
        answer = await until_done(lambda: self._write(
            lambda: self.mode.ready == ready, "PATCH", path_of("nodes", self.name, subresource="status"),
            {"status": status}, STRATEGIC))
        if answer and answer[0] < 300:
            async with self._posted:
                self.reported = volumes
                self._posted.notify_all()

    async def _status(self):
        """Posts what has changed at once and what has not each period, and looks in between, as a kubelet does every
        10 s, whether somebody took the node for dead: nobody else would call it Ready again."""
        while True:
            for _ in range(6):
                try:
                    await asyncio.wait_for(self._dirty.wait(), self.status_period / 6 * self.chance.uniform(0.8, 1.2))
                    break
                except asyncio.TimeoutError:
                    if await self._belied():
                        break
            self._dirty.clear()
            await self._post_status()

    async def _belied(self) -> bool:
        """Whether the Ready condition is not the one that we post."""
        ready = self.mode.ready
        if not ready:
            return False
        try:
            status, node = await self.client.request("GET", path_of("nodes", self.name) + "?resourceVersion=0")
        except BROKEN:
            return False
        return status == 200 and ready not in [
            c["status"] for c in node["status"].get("conditions") or [] if c["type"] == "Ready"]

    async def _report(self, volumes: set):
        """A kubelet mounts only what it has reported in use."""
        self._dirty.set()
        async with self._posted:
            await self._posted.wait_for(lambda: volumes <= set(self.reported or []))

    # --- pods

    def saw_pod(self, kind: str, pod: dict):
        if kind == "DELETED":
            self.pods.pop(pod["uid"], None)
            if self.mode.pods:
                self._forget(pod["uid"])
            return
        self.pods[pod["uid"]] = pod
        self.look_at(pod["uid"])

    def look_at(self, uid: str):
        if uid in self._busy:
            self._busy[uid] = True
        elif self.mode.pods:
            self._busy[uid] = True
            task = asyncio.create_task(self._pod(uid))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _pod(self, uid: str):
        try:
            while self._busy[uid] and self.mode.pods and uid in self.pods:
                self._busy[uid] = False
                try:
                    await self._kubelet(self.pods[uid])
                except BROKEN:
                    self._busy[uid] = True
                    await asyncio.sleep(0.2)
        finally:
            again = self._busy.pop(uid, False)
            if again and uid in self.pods and self.mode.pods:
                self.look_at(uid)

    async def _kubelet(self, pod: dict):
        uid = pod["uid"]
        if pod["deleting"]:
            await asyncio.sleep(self.stop_delay)
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
                       "preconditions": {"uid": uid}}
            answer = await self._write(lambda: self.mode.pods, "DELETE",
                                       path_of("pods", pod["name"], pod["namespace"]), options)
            if answer and (answer[0] < 300 or answer[0] in (404, 409)):
                self._forget(uid)
            await self._again_if_refused(uid, answer)
        elif pod["phase"] in ("Succeeded", "Failed"):
            self._forget(uid)
        elif not (pod["ready"] and pod["phase"] == "Running"):
            await self._run(pod)

    async def _run(self, pod: dict):
        uid = pod["uid"]
        if uid not in self._mounted:
            volumes = await self.world.volumes(pod)
            if volumes is None:
                await asyncio.sleep(0.2)
                self._busy[uid] = True
                return
            if volumes:
                self.in_use[uid] = {objects.unique_volume(d, h) for d, h in volumes}
                await self._report(self.in_use[uid])
                self._await_attachment(uid, [objects.attachment_name(d, h, self.name) for d, h in volumes])
                return  # and is back when all is mounted
            self._mounted.add(uid)
        answer = await self._write(lambda: self.mode.pods, "PATCH",
                                   path_of("pods", pod["name"], pod["namespace"], "status"),
                                   objects.running_status(pod, self.name), STRATEGIC)
        await self._again_if_refused(uid, answer)

    async def _again_if_refused(self, uid: str, answer: Optional[tuple]):
        # no event would bring us back to this pod
        if answer and servers_own_trouble(answer):
            self._busy[uid] = True
            await asyncio.sleep(0.2)

    def _await_attachment(self, uid: str, attachments: list):
        self._unmounted[uid] = attachments
        if len(self._unmounted) == 1:
            task = asyncio.create_task(self._mount())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _mount(self):
        """Every 100 ms, as a kubelet: mounts what is attached by the word of the attacher (attachment)
        and of the controller (volumesAttached)."""
        while self._unmounted:
            candidates = [uid for uid, names in self._unmounted.items() if all(map(self.world.attached, names))]
            try:
                attached = await self._volumes_attached() if candidates and self.mode.pods else set()
            except BROKEN:
                attached = set()
            for uid in candidates:
                if uid in self._unmounted and self.in_use.get(uid, {""}) <= attached:
                    del self._unmounted[uid]
                    self._mounted.add(uid)
                    self.look_at(uid)
            await asyncio.sleep(0.1)

    async def _volumes_attached(self) -> set:
        status, node = await self.client.request("GET", path_of("nodes", self.name))
        return {v["name"] for v in node["status"].get("volumesAttached") or []} if status == 200 else set()

    def _forget(self, uid: str):
        """The pod's containers are gone, its volumes unmounted."""
        self._mounted.discard(uid)
        self._unmounted.pop(uid, None)
        if self.in_use.pop(uid, None):
            self._dirty.set()
