"""A real admission webhook: the API server asks it about what one user does in one namespace.

    with Webhook(cluster, namespace, user, "DELETE", "pods") as webhook:
        webhook.enforce("DELETE", path_of("pods", "web-0", namespace))    # returns when the API server asks it
        webhook.refusal = {"code": 403, "message": "not now"}             # a Status; without one it is allowed
        webhook.slow(10)                                                  # seconds that it takes over each answer
        assert webhook.asked == 3                                         # by that user, until now
"""

import base64
import contextlib
import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Optional

from .kube import ApiError, wait_for
from .processes import free_port

PROBE = "webhook-probe"  # another user, who only wants to know whether it is in force
LIMIT = 30  # seconds; the longest that Kubernetes allows a webhook
RESOURCE = "validatingwebhookconfigurations"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        """The API server did not wait for the answer."""


class Webhook:
    def __init__(self, cluster, namespace: str, user: str, operation: str, resource: str, group: str = ""):
        self.cluster, self.namespace, self.user = cluster, namespace, user
        self.rule = {"operations": [operation], "apiGroups": [group], "apiVersions": ["v1"], "resources": [resource]}
        self.name = f"{namespace}.{resource}.example.com"
        self.refusal: Optional[dict] = None
        self.asked = 0
        self._pause, self._slow_times = 0.0, 0
        self._probed = False
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._port = free_port()
        self._server: Optional[_Server] = None

    # --- life

    def __enter__(self) -> "Webhook":
        self._server = _Server(("127.0.0.1", self._port), self._handler())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.cluster.control_plane.authority.server("webhook"))
        # the handshake is the business of the connection's own thread
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.cluster.client.delete(RESOURCE, self.name, missing_ok=True)
        self.release()
        self._server.shutdown()
        self._server.server_close()

    def enforce(self, method: str, probe: str, body: Optional[dict] = None):
        """From now on it is asked; `probe` is the path of an object that a dry run of `method` may be tried on."""
        users = json.dumps([self.user, PROBE])
        authority = base64.b64encode(self.cluster.control_plane.ca.read_bytes()).decode()
        self.cluster.client.create(RESOURCE, {"metadata": {"name": self.name}, "webhooks": [{
            "name": self.name, "rules": [self.rule], "failurePolicy": "Fail", "timeoutSeconds": LIMIT, "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": f"https://127.0.0.1:{self._port}/", "caBundle": authority},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "matchConditions": [{"name": "who", "expression": f"request.userInfo.username in {users}"}]}]})
        client = self.cluster.control_plane.client(user=PROBE)

        def asked():
            with contextlib.suppress(ApiError):
                client.request(method, probe, body, {"dryRun": "All"}, "application/merge-patch+json")
            return self._probed
        wait_for("the webhook is in force", asked, 60, 0.05)

    def slow(self, seconds: float, times: int = 1 << 30):
        """So many of the next answers take that long."""
        self._pause, self._slow_times = seconds, times

    def release(self):
        """Whatever waits is answered now, and nothing takes any more time."""
        self._released.set()

    # --- answers

    def _answer(self, review: dict) -> dict:
        request = review["request"]
        if request["userInfo"]["username"] == PROBE:
            self._probed = True
            return {"uid": request["uid"], "allowed": True}
        with self._lock:
            self.asked += 1
            pause = self._pause if self._slow_times > 0 else 0
            self._slow_times -= 1
        self._released.wait(pause)
        answer = {"uid": request["uid"], "allowed": self.refusal is None}
        return answer if self.refusal is None else {**answer, "status": self.refusal}

    def _handler(self):
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps({**{key: review[key] for key in ("apiVersion", "kind")},
                                   "response": webhook._answer(review)}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass
        return Handler
