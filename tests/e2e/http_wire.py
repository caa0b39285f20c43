"""HTTP/1.1 messages on plain sockets, byte by byte as they come: what a proxy for tests needs."""

import contextlib
import select
import socket
import struct
from dataclasses import dataclass
from typing import Iterator, Optional


class Closed(Exception):
    """The peer closed the connection."""


@dataclass
class Head:
    first_line: str
    headers: dict  # names in lower case; of a repeated one the last
    raw: bytes

    @property
    def status(self) -> int:
        return int(self.first_line.split(" ", 2)[1])

    @property
    def chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> Optional[int]:
        value = self.headers.get("content-length")
        return int(value) if value is not None else None


class Wire:
    """A socket with a read buffer."""

    def __init__(self, sock: socket.socket):
        self.sock = sock
        self._buffer = bytearray()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except OSError as error:
            raise Closed(str(error)) from error
        if not data:
            raise Closed("end of stream")
        self._buffer += data

    def _take(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def until(self, mark: bytes) -> bytes:
        start = 0
        while True:
            found = self._buffer.find(mark, start)
            if found >= 0:
                return self._take(found + len(mark))
            start = max(0, len(self._buffer) - len(mark) + 1)
            self._more()

    def exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            self._more()
        return self._take(count)

    def some(self, limit: int) -> bytes:
        """What has come, at least one byte, at most `limit`."""
        if not self._buffer:
            self._more()
        return self._take(min(limit, len(self._buffer)))

    def has_data(self) -> bool:
        return bool(self._buffer) or bool(getattr(self.sock, "pending", lambda: 0)())

    def head(self) -> Head:
        raw = self.until(b"\r\n\r\n")
        lines = raw.decode("latin-1").split("\r\n")
        headers = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return Head(lines[0], headers, raw)

    def body_pieces(self, head: Head, answers: str = "") -> Iterator[bytes]:
        """The body as it is on the wire, framing included, in pieces that keep chunks whole. `answers`
        is the method of the request when `head` is that of a response."""
        response = head.first_line.startswith("HTTP/")
        if answers == "HEAD" or (response and (head.status in (204, 304) or head.status < 200)):
            return
        if head.chunked:
            while True:
                line = self.until(b"\r\n")
                size = int(line.split(b";")[0], 16)
                yield line + self.exactly(size + 2)
                if size == 0:
                    return
        elif head.length is not None:
            left = head.length
            while left:
                piece = self.some(left)
                left -= len(piece)
                yield piece
        elif response:
            while True:
                try:
                    piece = self.some(65536)
                except Closed:
                    return
                yield piece

    def send(self, data: bytes):
        try:
            self.sock.sendall(data)
        except (OSError, ValueError) as error:
            raise Closed(str(error)) from error

    def is_stale(self) -> bool:
        """True when the peer has closed or said something that nobody asked for."""
        if self.has_data():
            return True
        readable, _, _ = select.select([self.sock], [], [], 0)
        return bool(readable)

    def say_goodbye(self):
        """TLS close_notify: to the peer the stream then ends in good order."""
        try:
            self.sock.settimeout(0.1)
            self.sock.unwrap()
        except (OSError, ValueError):
            pass


def linger_none(sock: socket.socket):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def close(sock: socket.socket, reset: bool = False):
    """Without TLS good-bye, as a broken connection is; with `reset` the peer gets a TCP reset."""
    with contextlib.suppress(OSError):
        if reset:
            linger_none(sock)
        sock.close()


def wake(sock: socket.socket, reset: bool = False):
    """Ends a connection under a thread that is blocked on it; that thread then closes it."""
    with contextlib.suppress(OSError):
        if reset:
            linger_none(sock)
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def plain_body(framed: bytes, chunked: bool) -> bytes:
    """A body without its chunk framing."""
    if not chunked:
        return framed
    out, position = b"", 0
    while True:
        end = framed.index(b"\r\n", position)
        size = int(framed[position:end].split(b";")[0], 16)
        if size == 0:
            return out
        out += framed[end + 2:end + 2 + size]
        position = end + 2 + size + 2
