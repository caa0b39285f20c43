"""One client connection of the scripted proxy: reads requests, applies actions, relays answers."""

import re
import select
import socket
import threading
import time
from http import HTTPStatus
from typing import Optional

from .http_wire import Closed, Head, Wire, close, plain_body, wake
from .proxy_rules import (Answer, BlackHole, Call, CommitThenReset, CutBody, DelayAnswer, Duplicate, Exchange, Hold,
                          Reset, Stall)


class Broken(Exception):
    """The client's connection ends here, by intention."""

    def __init__(self, reset: bool = False, goodbye: bool = False):
        self.reset, self.goodbye = reset, goodbye


class Connection:
    def __init__(self, proxy, raw: socket.socket, number: int, silent: bool):
        self.proxy, self.raw, self.number, self.silent = proxy, raw, number, silent
        self.client: Optional[Wire] = None
        self._upstream: dict = {}          # whether for a request with a token -> Wire
        self._sending = threading.Lock()   # a watch may be written to by injection as well
        self._watch: Optional[Exchange] = None
        self._watch_ended = False
        self._reset = False

    # --- from the proxy's thread

    def wake(self, reset: bool):
        self._reset = reset
        wake(self.client.sock if self.client else self.raw, reset)
        for wire in list(self._upstream.values()):
            wake(wire.sock)

    def watches(self, path: str) -> bool:
        watch = self._watch
        return bool(watch and not self._watch_ended and re.search(path, watch.path))

    def inject(self, data: bytes, path: str, end: bool) -> bool:
        with self._sending:
            if not self.watches(path):
                return False
            frame = b"%x\r\n%s\r\n" % (len(data), data)
            try:
                self.client.send(frame + (b"0\r\n\r\n" if end else b""))
            except Closed:
                return False
            if end:
                self._watch_ended = True
                for wire in list(self._upstream.values()):
                    wake(wire.sock)
        return True

    # --- the connection's own thread

    def run(self, context):
        reset = False
        try:
            if self.silent:
                self._pass()
            self.client = Wire(context.wrap_socket(self.raw, server_side=True))
            while self._serve_one():
                pass
        except Broken as broken:
            reset = broken.reset
            if broken.goodbye:
                self.client.say_goodbye()
        except (Closed, OSError):
            pass
        finally:
            close(self.client.sock if self.client else self.raw, reset or self._reset)
            for wire in self._upstream.values():
                close(wire.sock)
            self.proxy.forget(self)

    def _pass(self):
        """Waits while the proxy is a black hole."""
        self.proxy.flow.wait()
        if self.proxy.over.is_set():
            raise Broken()

    def _serve_one(self) -> bool:
        try:
            head = self.client.head()
        except Closed:
            return False
        received = time.monotonic_ns()
        if head.headers.get("expect", "").lower() == "100-continue":
            self.client.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        framed = b"".join(self.client.body_pieces(head))
        method, target, _ = head.first_line.split(" ", 2)
        path, _, query = target.partition("?")
        exchange = Exchange(method, path, query, head.headers, plain_body(framed, head.chunked), received, self.number)
        action = self.proxy.choose(exchange)
        self._pass()
        try:
            keep = self._act(exchange, action, head, framed)
        finally:
            exchange.finished_ns = time.monotonic_ns()
        return keep and head.headers.get("connection", "").lower() != "close"

    def _act(self, exchange: Exchange, action, head: Head, framed: bytes) -> bool:
        if isinstance(action, Call):
            action = action.function(exchange)
        if isinstance(action, Answer):
            return self._answer(exchange, action)
        if isinstance(action, BlackHole):
            self._wait_until_broken(self.client.sock)
        if isinstance(action, Reset):
            raise Broken(True)
        if isinstance(action, Hold):
            while not action.gate.wait(0.05) and not self.proxy.over.is_set():
                pass
        if isinstance(action, Duplicate):
            return self._twice(exchange, action, head, framed)
        upstream, answer = self._forward(exchange, head, framed)
        if isinstance(action, CommitThenReset):
            self._drain(upstream, answer, exchange)
            raise Broken(True)
        if isinstance(action, DelayAnswer):
            self.proxy.over.wait(action.seconds)
        if isinstance(action, CutBody) and action.how == "whole":
            return self._shorten(exchange, upstream, answer, action.after)
        limit = action.after if isinstance(action, (CutBody, Stall)) else None
        return self._relay(exchange, upstream, answer, limit, action)

    def _twice(self, exchange, action: Duplicate, head, framed) -> bool:
        upstream, answer = self._forward(exchange, head, framed)
        if action.relay_second:
            self._drain(upstream, answer, exchange)
            return self._relay(exchange, *self._forward(exchange, head, framed), None, None)
        keep = self._relay(exchange, upstream, answer, None, None)
        upstream, answer = self._forward(exchange, head, framed)
        self._drain(upstream, answer, exchange)
        return keep

    # --- upstream

    def _forward(self, exchange: Exchange, head: Head, framed: bytes) -> tuple:
        token = "authorization" in head.headers
        wire = self._upstream.get(token)
        if wire and wire.is_stale():
            close(self._upstream.pop(token).sock)
            wire = None
        if wire is None:
            # when the API server is down this raises, and the client's connection ends
            wire = self._upstream[token] = self.proxy.connect_upstream(token)
        wire.send(head.raw + framed)
        answer = wire.head()
        while answer.status == 100:
            answer = wire.head()
        exchange.upstream_statuses.append(answer.status)
        return wire, answer

    @staticmethod
    def _drain(upstream: Wire, answer: Head, exchange: Exchange) -> bytes:
        return b"".join(upstream.body_pieces(answer, exchange.method))

    def _drop_upstream(self, upstream: Wire):
        for key in [k for k, wire in self._upstream.items() if wire is upstream]:
            close(self._upstream.pop(key).sock)

    # --- to the client

    def _answer(self, exchange: Exchange, answer: Answer) -> bool:
        payload = answer.payload()
        phrase = HTTPStatus(answer.status).phrase if answer.status in HTTPStatus._value2member_map_ else "Scripted"
        headers = {"Content-Type": "application/json", "Content-Length": str(len(payload)),
                   "Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime()), **answer.headers}
        if answer.close:
            headers["Connection"] = "close"
        head = f"HTTP/1.1 {answer.status} {phrase}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in headers.items() if v)
        exchange.status, exchange.first_byte_ns = answer.status, time.monotonic_ns()
        self.client.send(head.encode() + b"\r\n" + (b"" if exchange.method == "HEAD" else payload))
        return not answer.close

    def _shorten(self, exchange: Exchange, upstream: Wire, answer: Head, after: int) -> bool:
        body = plain_body(self._drain(upstream, answer, exchange), answer.chunked)[:after]
        lines = [line for line in answer.raw.split(b"\r\n")[:-2]
                 if not line.lower().startswith((b"content-length:", b"transfer-encoding:"))]
        exchange.status, exchange.first_byte_ns = answer.status, time.monotonic_ns()
        self.client.send(b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body)
        return True

    def _relay(self, exchange: Exchange, upstream: Wire, answer: Head, limit, action) -> bool:
        self._pass()
        exchange.status, exchange.first_byte_ns = answer.status, time.monotonic_ns()
        sent, pending = 0, answer.raw
        is_watch = exchange.is_watch and answer.chunked
        self._watch_ended = False  # an earlier watch on this connection may have been ended
        if is_watch:
            self.client.send(pending)
            pending = b""
            self._watch = exchange
        try:
            if limit == 0:
                self._stop_here(action, pending)
            pieces = upstream.body_pieces(answer, exchange.method)
            while True:
                if is_watch and not self._wait_for_either(upstream):
                    return False
                piece = next(pieces, None)
                if piece is None:
                    break
                self._pass()
                if limit is not None and sent + len(piece) > limit:
                    self._stop_here(action, pending + piece[:limit - sent])
                sent += len(piece)
                with self._sending:
                    if self._watch_ended:
                        break
                    # the head goes with the first piece: one packet, one wake-up of the client
                    self.client.send(pending + piece)
                pending = b""
            if pending:
                self.client.send(pending)
        except Closed:
            if not (is_watch and self._watch_ended):
                raise
        finally:
            self._watch = None
        if is_watch and self._watch_ended:
            self._drop_upstream(upstream)
            return True
        return answer.chunked or answer.length is not None or not pending

    def _stop_here(self, action, last: bytes):
        if last:
            self.client.send(last)
        if isinstance(action, Stall):
            self._wait_until_broken(self.client.sock)
        if action.how == "reset":
            time.sleep(0.02)  # a reset on the heels of the data would take it from the client again
        raise Broken(reset=action.how == "reset", goodbye=action.how == "end")

    def _wait_for_either(self, upstream: Wire) -> bool:
        """Waits for the next piece of a watch; False when the client has gone meanwhile."""
        if upstream.has_data():
            return True
        readable, _, _ = select.select([upstream.sock, self.client.sock], [], [])
        if upstream.sock in readable:
            return True
        raise Closed("the client left its watch")

    def _wait_until_broken(self, sock: socket.socket):
        """Silence until the client gives up or the proxy ends."""
        while not self.proxy.over.wait(0.05):
            readable, _, _ = select.select([sock], [], [], 0)
            if readable:
                try:
                    if not sock.recv(65536, *((socket.MSG_DONTWAIT,) if sock is self.raw else ())):
                        break
                except OSError:
                    break
        raise Broken()
