"""A TLS proxy in front of the API server that misbehaves on request.

Clients see an own server certificate of the cluster's CA. What they send goes on unchanged, the
Authorization header included; a client without one acts as the proxy's own client certificate, if it
has one. One thread a connection; bodies and watches are passed on as they come.
"""

import contextlib
import json
import socket
import ssl
import threading
from typing import Optional

from .http_wire import Wire
from .kube import wait_for
from .processes import free_port
from .proxy_connection import Connection
from .proxy_rules import Action, Exchange, Rule


class Proxy:
    """
    with Proxy(control_plane) as proxy:
        proxy.on("DELETE", r"/pods/web-0$", CommitThenReset(), times=1)
        ... run a client against proxy.server ...
        assert len(proxy.find("DELETE", "/pods/")) == 2
    """

    def __init__(self, control_plane, upstream: str = "", with_client_certificate: bool = False):
        authority = control_plane.authority
        self._certificate = authority.server("proxy")
        self.ca = authority.cert
        self._server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._server_context.load_cert_chain(*self._certificate)
        self._server_context.set_alpn_protocols(["http/1.1"])
        self._upstream_context = self._client_context(None)
        # a client certificate wins over a token, so it is shown only for requests without a token
        own = authority.client("e2e-admin", "system:masters") if with_client_certificate else None
        self._upstream_context_own = self._client_context(own) if own else self._upstream_context
        host, _, port = (upstream or control_plane.server).removeprefix("https://").partition(":")
        self._upstream = (host, int(port))
        self.port = free_port()
        self.server = f"https://127.0.0.1:{self.port}"
        self.exchanges: list = []
        self.connections_accepted = 0
        self._rules: list = []
        self._lock = threading.Lock()
        self._open: set = set()
        self._listener: Optional[socket.socket] = None
        self._hole = False
        self.flow = threading.Event()  # cleared: nothing is passed on
        self.flow.set()
        self.over = threading.Event()

    def _client_context(self, own) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.ca))
        context.set_alpn_protocols(["http/1.1"])
        if own:
            context.load_cert_chain(*own)
        return context

    # --- life

    def start(self) -> "Proxy":
        self.accept_again()
        return self

    def stop(self):
        self.over.set()
        self.flow.set()
        self.stop_accepting()
        self.cut_all()
        wait_for("the proxy's threads have ended", lambda: not self._open, 10, 0.01)

    def __enter__(self) -> "Proxy":
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def stop_accepting(self, cut: bool = False):
        """New connections are refused, as by a dead API server; with `cut` the open ones are reset too."""
        listener, self._listener = self._listener, None
        if listener:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        if cut:
            self.cut_all()

    def accept_again(self):
        if self._listener:
            return
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(256)
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def black_hole(self):
        """Connections are accepted and nothing is ever answered; open ones, watches too, fall silent."""
        self._hole = True
        self.flow.clear()

    def flow_again(self):
        """Ends black_hole(): what was held is passed on now."""
        self._hole = False
        self.flow.set()

    def cut_all(self, reset: bool = True):
        """Breaks every open connection."""
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            connection.wake(reset)

    def show_certificate(self, cert, key) -> tuple:
        """New connections see this certificate; the (cert, key) that was shown before."""
        before, self._certificate = self._certificate, (cert, key)
        self._server_context.load_cert_chain(cert, key)
        return before

    # --- rules and watches

    def on(self, method: Optional[str], path: str, action: Action, query: Optional[str] = None,
           times: Optional[int] = None, skip: int = 0) -> Rule:
        """Adds a rule (see proxy_rules.Rule); of several that match, the one added last acts."""
        rule = Rule(method, path, action, query, times, skip)
        with self._lock:
            self._rules.insert(0, rule)
        return rule

    def clear(self):
        """Forgets all rules."""
        with self._lock:
            self._rules.clear()

    def close_watches(self, code: int = 410, reason: str = "Expired", path: str = "") -> int:
        """Ends every open watch whose path matches with an ERROR event; how many there were."""
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                  "reason": reason, "message": "too old resource version (scripted)"}
        return self.send_to_watches({"type": "ERROR", "object": status}, path, end=True)

    def send_to_watches(self, event, path: str = "", end: bool = False) -> int:
        """Puts an event (a dict, or bytes that need not make sense) into every open watch that matches."""
        data = event if isinstance(event, bytes) else json.dumps(event).encode() + b"\n"
        with self._lock:
            connections = list(self._open)
        return sum(connection.inject(data, path, end) for connection in connections)

    def open_watches(self, path: str = "") -> int:
        with self._lock:
            return sum(connection.watches(path) for connection in self._open)

    # --- what it saw

    def find(self, method: Optional[str] = None, path: str = "", query: Optional[str] = None) -> list:
        """Recorded exchanges, in the order in which they came in."""
        wanted = Rule(method, path, None, query)
        with self._lock:
            return [e for e in self.exchanges if wanted.takes(e)]

    def wait(self, count: int = 1, method: Optional[str] = None, path: str = "", query: Optional[str] = None,
             seconds: float = 120) -> list:
        """Waits until at least `count` such requests have come in."""
        def enough():
            found = self.find(method, path, query)
            return found if len(found) >= count else None
        return wait_for(f"{count} × {method or 'any'} {path} through the proxy", enough, seconds, 0.01)

    # --- used by connections

    def choose(self, exchange: Exchange) -> Optional[Action]:
        with self._lock:
            self.exchanges.append(exchange)
            for rule in self._rules:
                if rule.takes(exchange):
                    exchange.action = type(rule.action).__name__
                    return rule.action
        return None

    def connect_upstream(self, has_token: bool) -> Wire:
        raw = socket.create_connection(self._upstream, timeout=10)
        context = self._upstream_context if has_token else self._upstream_context_own
        sock = context.wrap_socket(raw, server_hostname=self._upstream[0])
        sock.settimeout(None)
        return Wire(sock)

    def forget(self, connection: Connection):
        with self._lock:
            self._open.discard(connection)

    def _accept(self, listener: socket.socket):
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections_accepted += 1
                connection = Connection(self, raw, self.connections_accepted, silent=self._hole)
                self._open.add(connection)
            threading.Thread(target=connection.run, args=(self._server_context,), daemon=True).start()
