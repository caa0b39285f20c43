"""A stand-in for the REST API of a cloud and for what gives its tokens, served over real HTTP in a thread of the tests.

    cloud = CloudApi({"GET /servers/42": function, ...})   # serves at cloud.url until cloud.stop()
    cloud.seen                                             # "METHOD path" of each request, with its query

A function takes the request (headers, body) and returns a status, a JSON value and, if there are any, headers.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self):
        cloud = self.server.cloud
        line = f"{self.command} {self.path}"
        cloud.seen.append(line)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        route = cloud.routes.get(line, lambda _: (404, {"error": "not found"}))
        status, value, *more = route(SimpleNamespace(headers=self.headers, body=body))
        payload = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=UTF-8")
        self.send_header("Content-Length", str(len(payload)))
        for name, text in (more[0] if more else {}).items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(payload)

    do_GET = do_POST = answer


class CloudApi:
    def __init__(self, routes: dict):
        self.routes, self.seen = routes, []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.cloud = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
