"""The way from one engine to the API server, to be cut and to swallow everything.

With a network namespace the engine has a kernel's network of its own, a pair of virtual cables and a relay at the other
end: a cable that is down swallows packets and says nothing, as a broken switch does. Where the machine does not permit
namespaces the scripted proxy stands in: it takes bytes and passes nothing on.
"""

import contextlib
import itertools
import os
import socket
import struct
import subprocess
import threading

from e2e.proxy import Proxy

RESET = struct.pack("ii", 1, 0)
_numbers = itertools.count()


def _ip(*words: str):
    subprocess.run(["ip", *words], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.PIPE, timeout=10)


class Relay:
    """Passes bytes between those who connect to `host` and a port on loopback."""

    def __init__(self, host: str, port: int):
        self.target = port
        self.listener = socket.create_server((host, 0))
        self.port = self.listener.getsockname()[1]
        self._open: set = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                visitor, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target), 5)
                server.settimeout(None)
            except OSError:
                self._end(visitor)  # the server is away, or too busy
                continue
            with self._lock:
                self._open |= {visitor, server}
            for source, sink in ((visitor, server), (server, visitor)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
        self._end(source)
        self._end(sink)

    def _end(self, end: socket.socket):
        with self._lock:
            self._open.discard(end)
        with contextlib.suppress(OSError):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            end.shutdown(socket.SHUT_RDWR)
        end.close()

    def cut(self):
        with self._lock:
            every = list(self._open)
        for end in every:
            self._end(end)

    def stop(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()


class Namespace:
    """A network namespace with one cable. `prefix` begins the command of what lives in it."""

    def __init__(self, control_plane):
        number = next(_numbers)
        self.name = f"moonfence-chaos-{os.getpid()}-{number}"
        self.outer, self.inner = f"mf{os.getpid()}o{number}", f"mf{os.getpid()}i{number}"
        block = f"10.213.{os.getpid() % 250}.{4 * number % 256}"
        base, _, last = block.rpartition(".")
        self.host, self.guest = f"{base}.{int(last) + 1}", f"{base}.{int(last) + 2}"
        self.prefix = ["ip", "netns", "exec", self.name]
        try:
            _ip("netns", "add", self.name)
            _ip("link", "add", self.outer, "type", "veth", "peer", "name", self.inner, "netns", self.name)
            # while the cable is down its packets must not look for another way out
            _ip("route", "add", "blackhole", f"{block}/30", "metric", "4000")
            self.route = f"{block}/30"
            _ip("addr", "add", f"{self.host}/30", "dev", self.outer)
            _ip("link", "set", self.outer, "up")
            _ip("-n", self.name, "addr", "add", f"{self.guest}/30", "dev", self.inner)
            _ip("-n", self.name, "link", "set", "lo", "up")
            _ip("-n", self.name, "link", "set", self.inner, "up")
            self.relay = Relay(self.host, control_plane.ports["kube-apiserver"])
        except BaseException:
            self._remove()
            raise
        self.server, self.server_name = f"https://{self.host}:{self.relay.port}", "localhost"

    def cut(self):
        self.relay.cut()

    def black_hole(self):
        _ip("link", "set", self.outer, "down")

    def flow_again(self):
        _ip("link", "set", self.outer, "up")

    def end(self):
        self.relay.stop()
        self._remove()

    def _remove(self):
        for words in (("link", "del", self.outer), ("route", "del", "blackhole", getattr(self, "route", "")),
                      ("netns", "del", self.name)):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip(*words)


class Proxied:
    """The same by the scripted proxy."""

    prefix: list = []
    guest = "127.0.0.1"
    server_name = ""

    def __init__(self, control_plane):
        self.proxy = Proxy(control_plane).start()
        self.server = self.proxy.server

    def cut(self):
        self.proxy.cut_all()

    def black_hole(self):
        self.proxy.black_hole()

    def flow_again(self):
        self.proxy.flow_again()

    def end(self):
        self.proxy.stop()


def permitted() -> bool:
    """Whether this machine lets us make network namespaces."""
    name = f"moonfence-chaos-{os.getpid()}-trial-{next(_numbers)}"  # lanes ask side by side
    try:
        _ip("netns", "add", name)
        _ip("netns", "del", name)
        return True
    except (OSError, subprocess.SubprocessError):
        return False


def network(control_plane):
    return Namespace(control_plane) if permitted() else Proxied(control_plane)
