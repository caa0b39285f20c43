"""A receiver of the engine's webhook (docs/webhook.md) over real TLS. Whether a signature is right is decided by `standardwebhooks`, and
what an event is by `cloudevents`: libraries of others, pinned in tests/cluster/modules/webhooks.

    receiver = HookReceiver(authority, "whsec_…")      # serves at receiver.url until receiver.stop()
    receiver.status = 503                              # how it answers, after it has verified
    receiver.stop(); receiver.start()                  # at the same port, which is nobody else's in between
    receiver.close()                                   # and the port is free
    receiver.events                                    # CloudEvents that it answered 200, one each id, in the order of arrival
    receiver.arrivals                                  # (headers, body) of all that came
    receiver.faults                                    # what one of the libraries refused
"""

import contextlib
import functools
import socket
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cluster import programs, wheel

LIBRARIES = programs.MODULES / "webhooks" / "requirements.txt"


@functools.cache
def libraries() -> tuple:
    """(standardwebhooks.Webhook, its error, cloudevents' reader of HTTP messages, its HTTPMessage)"""
    sys.path.append(str(wheel.installed(LIBRARIES)))
    from cloudevents.core.bindings import http
    from standardwebhooks import Webhook, WebhookVerificationError
    return Webhook, WebhookVerificationError, http.from_http_event, http.HTTPMessage


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._open, self._lock = set(), threading.Lock()

    def get_request(self):
        connection, address = super().get_request()
        with self._lock:
            self._open.add(connection)
        return connection, address

    def shutdown_request(self, request):
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def hang_up(self):
        """Ends the connections that are kept for the next message, and their threads with them."""
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, *_):
        """The engine was ended meanwhile."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # of each read, and of the handshake

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.receiver.take(self.path, {key.lower(): value for key, value in self.headers.items()}, body)
        answer = b"<html>thank you</html>"
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class HookReceiver:
    path = "/hooks/s3cret-path"

    def __init__(self, authority, secret: str):
        self.authority, self.secret, self.status = authority, secret, 200
        self.events, self.arrivals, self.faults, self._ids = [], [], [], set()
        self._lock, self._server = threading.Lock(), None
        # bound all the time and never listening, so that the port stays ours
        self._holder = socket.socket()
        self._holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._holder.bind(("127.0.0.1", 0))
        self._port = self._holder.getsockname()[1]
        self.start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._port}{self.path}"

    def start(self):
        self._server = _Server(("127.0.0.1", self._port), _Handler)
        self._server.receiver = self
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.server("hook-receiver"))
        # the handshake is the business of the connection's own thread
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        if self._server:
            self._server.shutdown()
            self._server.hang_up()
            self._server.server_close()
            self._server = None

    def close(self):
        self.stop()
        self._holder.close()

    def take(self, path: str, headers: dict, body: bytes) -> int:
        with self._lock:
            self.arrivals.append((headers, body))
            if self.status != 200:
                return self.status
            try:
                event = read(self.secret, headers, body)
                assert path == self.path, path
            except Exception as fault:  # whatever a library says against it
                self.faults.append(repr(fault))
                return 400
            if event.get_id() not in self._ids:
                self._ids.add(event.get_id())
                self.events.append(event)
            return 200

    def told(self) -> list:
        """The phases, in the order in which they arrived."""
        return [event.get_data()["phase"] for event in self.events]


def read(secret: str, headers: dict, body: bytes):
    """The CloudEvent, once its signature was verified."""
    webhook, _, from_http, message = libraries()
    webhook(secret).verify(body, headers)
    event = from_http(message(headers, body))
    assert event.get_id() == headers["webhook-id"], "receivers drop doubles by either"
    return event
