"""An HTTP/1.1 client for asyncio: a few kept connections carry all requests of the stand-in nodes."""

import asyncio
import json
from typing import Any, AsyncIterator, Awaitable, Callable, Optional
from urllib.parse import urlencode

from .kube import Access

# what a restarting API server or a cut connection looks like
BROKEN = (OSError, EOFError, asyncio.IncompleteReadError, asyncio.TimeoutError)


class Answered(Exception):
    """A stream was refused."""

    def __init__(self, status: int, body: Any):
        super().__init__(f"{status} {body}")
        self.status = status


class AsyncClient:
    def __init__(self, access: Access, user_agent: str, connections: int = 24, timeout: float = 15):
        self.access, self.user_agent, self.timeout = access, user_agent, timeout
        self._context = access.ssl_context()
        self._idle: list = []
        self._slots = asyncio.Semaphore(connections)

    async def _open(self):
        host, port = self.access.host_port()
        return await asyncio.open_connection(host, port, ssl=self._context, limit=1 << 20)

    def _head(self, method, path, data, content_type) -> bytes:
        host, port = self.access.host_port()
        lines = [f"{method} {path} HTTP/1.1", f"Host: {host}:{port}", f"User-Agent: {self.user_agent}",
                 "Accept: application/json"]
        if self.access.token:
            lines.append(f"Authorization: Bearer {self.access.token}")
        if data is not None:
            lines += [f"Content-Type: {content_type}", f"Content-Length: {len(data)}"]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (data or b"")

    @staticmethod
    async def _read_head(reader) -> tuple:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for line in head[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(head[0].split(" ", 2)[1]), headers

    @staticmethod
    async def _chunks(reader) -> AsyncIterator[bytes]:
        while True:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            data = await reader.readexactly(size + 2)
            if size == 0:
                return
            yield data[:-2]

    async def _body(self, reader, headers) -> bytes:
        if "chunked" in headers.get("transfer-encoding", ""):
            return b"".join([chunk async for chunk in self._chunks(reader)])
        return await reader.readexactly(int(headers.get("content-length", 0)))

    async def _once(self, head: bytes) -> tuple:
        reader, writer = self._idle.pop() if self._idle else await self._open()
        try:
            writer.write(head)
            status, headers = await self._read_head(reader)
            raw = await self._body(reader, headers)
        except BaseException:
            writer.transport.abort()
            raise
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return status, raw

    async def request(self, method: str, path: str, body: Any = None,
                      content_type: str = "application/json") -> tuple:
        """(status, parsed body). One attempt; raises one of BROKEN when the connection fails."""
        data = None if body is None else json.dumps(body).encode()
        async with self._slots:
            status, raw = await asyncio.wait_for(
                self._once(self._head(method, path, data, content_type)), self.timeout)
        try:
            return status, json.loads(raw) if raw else None
        except ValueError:
            return status, raw.decode(errors="replace")

    async def events(self, path: str) -> AsyncIterator[dict]:
        """The events of a watch, each as soon as its line is complete."""
        reader, writer = await asyncio.wait_for(self._open(), self.timeout)
        try:
            writer.write(self._head("GET", path, None, None))
            status, headers = await asyncio.wait_for(self._read_head(reader), self.timeout)
            if status != 200:
                raise Answered(status, await self._body(reader, headers))
            rest = b""
            async for chunk in self._chunks(reader):
                *lines, rest = (rest + chunk).split(b"\n") if b"\n" in chunk else [rest + chunk]
                for line in lines:
                    if line.strip():
                        yield json.loads(line)
        finally:
            writer.transport.abort()


async def follow(client: AsyncClient, path: str, query: dict, on_list: Callable[[list], None],
                 on_event: Callable[[str, dict], None]):
    """Lists, then watches, for ever; whatever breaks is done again from the list."""
    pause = 0.05
    while True:
        try:
            status, body = await client.request("GET", f"{path}?{urlencode({**query, 'resourceVersion': '0'})}")
            if status != 200:
                raise Answered(status, body)
            on_list(body["items"])
            version = body["metadata"]["resourceVersion"]
            while version:
                version, seen = await _watch(client, path, query, version, on_event)
                pause = 0.05 if seen else pause
        except (*BROKEN, Answered):
            await asyncio.sleep(pause)
            pause = min(pause * 2, 1)


async def _watch(client, path, query, version, on_event) -> tuple:
    """One watch: the version to go on from (None: list again) and whether anything came."""
    more = {**query, "watch": "1", "resourceVersion": version, "allowWatchBookmarks": "true", "timeoutSeconds": "600"}
    seen = False
    async for event in client.events(f"{path}?{urlencode(more)}"):
        if event["type"] == "ERROR":
            return None, seen
        seen = True
        version = event["object"]["metadata"]["resourceVersion"]
        if event["type"] != "BOOKMARK":
            on_event(event["type"], event["object"])
    return version, seen


def servers_own_trouble(answer: tuple) -> bool:
    """The request may well succeed later: the server is overloaded, broken, or has just started and refuses all
    writes until it knows the namespaces."""
    status, body = answer
    message = body.get("message", "") if isinstance(body, dict) else ""
    return status >= 500 or status == 429 or (status == 403 and "not yet ready to handle request" in message)


async def until_done(attempt: Callable[[], Awaitable[Optional[tuple]]]) -> Optional[tuple]:
    """Tries a request until the server has given an answer that is not its own trouble."""
    pause = 0.05
    while True:
        try:
            answer = await attempt()
            if answer is None or not servers_own_trouble(answer):
                return answer
        except BROKEN:
            pass
        await asyncio.sleep(pause)
        pause = min(pause * 2, 1)
