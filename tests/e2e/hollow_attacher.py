"""The stand-in for external-attacher and the storage behind it.

Attaches and detaches for every CSI driver; delays and refusals can be set per driver while it runs.
It remembers where a volume is published, and counts when one was on two nodes at once: the one thing
that must never happen.
"""

import asyncio
from collections import deque
from dataclasses import asdict, dataclass

from . import hollow_objects as objects
from .async_http import BROKEN, AsyncClient
from .kube import PATCH_TYPES, path_of

MERGE = PATCH_TYPES["merge"]


@dataclass
class Settings:
    attach_delay: float = 0.0
    detach_delay: float = 0.0
    # text of the storage system's refusal to unpublish (status.detachError), "" when it complies
    refuse_detach: str = ""
    # refuses to publish a volume that is published elsewhere, as most drivers do
    strict: bool = False
    # no finalizer: a driver without ControllerPublish, where "gone" proves nothing
    paper: bool = False
    # the attacher of this driver is down
    stopped: bool = False


class Attacher:
    def __init__(self, client: AsyncClient, world):
        self.client, self.world = client, world
        self.settings: dict = {"": Settings()}
        self.objects: dict = {}    # name -> VolumeAttachment
        self.published: dict = {}  # (driver, handle) -> set of nodes
        self.double: list = []     # volumes that were on two nodes at once
        self._gone: deque = deque(maxlen=10000)  # UIDs; a late event must not bring one back
        self._busy: dict = {}
        self._running: set = set()

    def set(self, driver: str, **values):
        kept = asdict(self.settings.get(driver, self.settings[""]))
        self.settings[driver] = Settings(**{**kept, **values})
        for name in list(self.objects):
            self.look_at(name)

    def settings_of(self, driver: str) -> Settings:
        return self.settings.get(driver, self.settings[""])

    # --- what the API says

    def saw_all(self, items: list):
        names = {item["metadata"]["name"] for item in items}
        for name in [n for n in self.objects if n not in names]:
            self.saw("DELETED", self.objects[name])
        for item in items:
            self.saw("ADDED", item)

    def saw(self, kind: str, attachment: dict):
        name, uid = attachment["metadata"]["name"], attachment["metadata"]["uid"]
        if kind == "DELETED":
            if name in self.objects and self.objects[name]["metadata"]["uid"] == uid:
                del self.objects[name]
            self._gone.append(uid)
            return
        if uid not in self._gone and self._remember(attachment):
            self.look_at(name)

    def _remember(self, attachment: dict) -> bool:
        """Answers to our own writes and watch events come in any order; the newest counts."""
        name, version = attachment["metadata"]["name"], int(attachment["metadata"]["resourceVersion"])
        kept = self.objects.get(name)
        if kept and int(kept["metadata"]["resourceVersion"]) > version:
            return False
        self.objects[name] = attachment
        return True

    def attached(self, name: str) -> bool:
        found = self.objects.get(name)
        return bool(found and found.get("status", {}).get("attached")
                    and "deletionTimestamp" not in found["metadata"])

    # --- work, one task per attachment

    def look_at(self, name: str):
        if name in self._busy:
            self._busy[name] = True
            return
        self._busy[name] = True
        task = asyncio.create_task(self._work(name))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _work(self, name: str):
        try:
            while self._busy[name] and name in self.objects:
                self._busy[name] = False
                try:
                    pause = await self._step(self.objects[name])
                except BROKEN:
                    pause = 0.2
                if pause:
                    self._busy[name] = True
                    await asyncio.sleep(pause)
        finally:
            del self._busy[name]

    async def _step(self, attachment: dict) -> float:
        """Does what is next for an attachment; seconds after which to look again, 0 when nothing is due."""
        driver = attachment["spec"]["attacher"]
        settings = self.settings_of(driver)
        if settings.stopped:
            return 0
        meta, node = attachment["metadata"], attachment["spec"]["nodeName"]
        finalizer = f"external-attacher/{driver.replace('/', '-')}"
        has_finalizer = finalizer in meta.get("finalizers", [])
        if "deletionTimestamp" in meta:
            return await self._detach(attachment, settings, finalizer) if has_finalizer else 0
        if attachment.get("status", {}).get("attached"):
            await self._publish(attachment, settings)  # known from an earlier life
            return 0
        if not has_finalizer and not settings.paper:
            return self._after(await self._patch(attachment, {"metadata": {
                "resourceVersion": meta["resourceVersion"],
                "finalizers": [*meta.get("finalizers", []), finalizer]}}))
        await asyncio.sleep(settings.attach_delay)
        error = await self._publish(attachment, settings)
        if error:
            await self._patch(attachment, {"status": {"attachError": {"time": objects.now(), "message": error}}},
                              "status")
            return 1
        return self._after(await self._patch(attachment, {"status": {"attached": True, "attachError": None,
                                                                     "attachmentMetadata": {"published-on": node}}},
                                             "status"))

    async def _detach(self, attachment: dict, settings: Settings, finalizer: str) -> float:
        await asyncio.sleep(settings.detach_delay)
        settings = self.settings_of(attachment["spec"]["attacher"])  # may have changed meanwhile
        if settings.stopped:
            return 0
        if settings.refuse_detach:
            await self._patch(attachment, {"status": {"detachError": {
                "time": objects.now(), "message": settings.refuse_detach}}}, "status")
            return 1
        volume = await self.world.volume_of(attachment)
        self.published.get(volume, set()).discard(attachment["spec"]["nodeName"])
        meta = attachment["metadata"]
        left = [f for f in meta["finalizers"] if f != finalizer]
        return self._after(await self._patch(attachment, {"metadata": {
            "resourceVersion": meta["resourceVersion"], "finalizers": left or None}}))

    async def _publish(self, attachment: dict, settings: Settings) -> str:
        volume, node = await self.world.volume_of(attachment), attachment["spec"]["nodeName"]
        if volume is None:
            return "the volume is not known"
        there = self.published.setdefault(volume, set())
        others = there - {node}
        if others and settings.strict:
            return f"rpc error: code = FailedPrecondition desc = volume is published on {sorted(others)[0]}"
        if others and node not in there and not await self.world.may_share(attachment):
            self.double.append({"driver": volume[0], "handle": volume[1], "nodes": sorted(there | {node})})
        there.add(node)
        return ""

    async def _patch(self, attachment: dict, body: dict, subresource: str = "") -> int:
        path = path_of("volumeattachments", attachment["metadata"]["name"], subresource=subresource)
        status, answer = await self.client.request("PATCH", path, body, MERGE)
        meta = answer["metadata"] if status < 300 else {}
        if status == 404 or ("deletionTimestamp" in meta and not meta.get("finalizers")):
            self.saw("DELETED", attachment)
        elif status < 300:
            self._remember(answer)
        return status

    @staticmethod
    def _after(status: int) -> float:
        # a stale object: the watch brings a newer one, or has done so already
        return 0.02 if status == 409 or status == 429 or status >= 500 else 0.0
