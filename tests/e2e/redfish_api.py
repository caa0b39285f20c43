"""A stand-in for the BMC of one machine, served over real HTTP in a thread of the tests.

    bmc = RedfishApi(uuid="…")          # serves at bmc.url until bmc.stop()
    bmc.power = "Off"                   # PowerState of its one system
    bmc.uuid = "…"                      # whose it is
    bmc.fail = 503                      # every GET is answered so; 0: none
    bmc.password                        # of user admin; another one is answered 401
    bmc.gets                            # paths asked for
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        bmc = self.server.bmc
        bmc.gets.append(self.path)
        wanted = "Basic " + base64.b64encode(f"admin:{bmc.password}".encode()).decode()
        body, status = {}, bmc.fail
        if self.headers.get("Authorization", "") != wanted:
            status = 401
        elif not status:
            status = 200
            if self.path == "/redfish/v1/Systems":
                body = {"Members": [{"@odata.id": "/redfish/v1/Systems/System.Embedded.1"}]}
            elif self.path == "/redfish/v1/Systems/System.Embedded.1":
                body = {"UUID": bmc.uuid, "PowerState": bmc.power}
            else:
                status = 404
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)


class RedfishApi:
    def __init__(self, uuid: str, password: str = "first-pw"):
        self.uuid, self.password, self.power, self.fail, self.gets = uuid, password, "On", 0, []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.bmc = self
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
