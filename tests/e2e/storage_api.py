"""A stand-in for a storage system's REST API, served over real HTTP in a thread of the tests.

    api = StorageApi(user="admin", password="first-pw")      # serves at api.url until api.stop()
    api.nodes["node-1"] = "offline"                        # what GET /v2/nodes says
    api.volumes["pvc-1"] = "online"                        # and GET /v2/namespaces/ID/volumes of each master
    api.fail = 503                                         # every GET is answered so; 0: none
    api.delay = 2.0                                        # seconds before each answer
    api.password = "second-pw"                               # logins with the first one are refused from now on
    api.revoke()                                           # tokens given until now are refused
    api.gets, api.logins                                   # paths asked for, users that logged in

BasaltApi is the same for the vendor of deploy/examples/basalt: a bearer token, hosts in pages, a path for each volume.

A login is POST /v2/auth/login with {"username", "password"}; its answer has the token in the header Authorization
and its seconds in Authorization-Expires-Seconds.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAMESPACE_ID = "7f4c0f39"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status: int, body, headers: dict):
        time.sleep(self.server.api.delay)
        payload = json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", "Content-Length": str(len(payload)),
                                **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(payload)
        except OSError:
            pass  # who asked has left

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self.answer(*self.server.api.log_in(self.path, body))

    def do_GET(self):
        self.answer(*self.server.api.read(self.path, self.headers.get("Authorization", "")), {})


class StorageApi:
    def __init__(self, namespace: str, user: str = "admin", password: str = "first-pw", lifetime: int = 300):
        self.namespace, self.user, self.password, self.lifetime = namespace, user, password, lifetime
        self.nodes, self.volumes = {}, {}
        self.fail, self.delay = 0, 0.0
        self.gets, self.logins = [], []
        self.tokens = {}  # until when each is good
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.api = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()

    def revoke(self):
        with self.lock:
            self.tokens.clear()

    def log_in(self, path: str, body: dict) -> tuple:
        with self.lock:
            if path != "/v2/auth/login" or body != {"username": self.user, "password": self.password}:
                self.logins.append("refused")
                return 401, {"error": "unauthorized"}, {}
            token = f"token-{len(self.logins)}"
            self.logins.append(self.user)
            self.tokens[token] = time.monotonic() + self.lifetime
            return 200, {"username": self.user}, {"Authorization": f"Bearer {token}",
                                                  "Authorization-Expires-Seconds": str(self.lifetime)}

    def read(self, path: str, authorization: str) -> tuple:
        with self.lock:
            self.gets.append(path)
            if self.fail:
                return self.fail, {"error": "it fails because the test says so"}
            token = authorization.removeprefix("Bearer ")
            if time.monotonic() >= self.tokens.get(token, 0):
                return 401, {"error": "unauthorized"}
            if path == "/v2/nodes":
                return 200, [{"id": f"id-{name}", "name": name, "health": health}
                             for name, health in self.nodes.items()]
            if path == "/v2/namespaces":
                return 200, [{"id": NAMESPACE_ID, "name": self.namespace}]
            if path == f"/v2/namespaces/{NAMESPACE_ID}/volumes":
                return 200, [{"name": name, "master": {"health": health}} for name, health in self.volumes.items()]
            return 404, {"error": "not found"}


class BasaltApi(StorageApi):
    """`nodes` are hosts and their states; `volumes` are {handle: what is said of it}."""

    PAGE = 2

    def __init__(self, token: str):
        super().__init__("")
        self.tokens[token] = float("inf")

    def read(self, path: str, authorization: str) -> tuple:
        with self.lock:
            self.gets.append(path)
            if self.fail:
                return self.fail, {"error": "it fails because the test says so"}
            if authorization.removeprefix("Bearer ") not in self.tokens:
                return 401, {"error": "unauthorized"}
            place, _, query = path.partition("?")
            if place == "/api/v1/hosts":
                rest = [name for name in sorted(self.nodes) if name > query.removeprefix("after=")]
                page = rest[:self.PAGE]
                return 200, {"hosts": [{"name": name, "state": self.nodes[name]} for name in page],
                             "next": page[-1] if len(rest) > self.PAGE else None}
            found = self.volumes.get(place.removeprefix("/api/v1/volumes/"))
            return (200, found) if found else (404, {"error": "not found"})


class OpenApi(StorageApi):
    """GET /nodes is {name: state}, for everybody."""

    def __init__(self):
        super().__init__("")

    def read(self, path: str, authorization: str) -> tuple:
        with self.lock:
            self.gets.append(path)
            return (self.fail, {}) if self.fail else (200, self.nodes) if path == "/nodes" else (404, {})
