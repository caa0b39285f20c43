"""A stand-in for the BMC of one machine, served over real HTTP in a thread of the tests.

    bmc = RedfishApi(uuid="…")          # serves at bmc.url until bmc.stop()
    bmc.power = "Off"                   # PowerState of its one system
    bmc.uuid = "…"                      # whose it is
    bmc.fail = 503                      # every GET is answered so; 0: none
    bmc.password                        # of user admin; another one is answered 401
    bmc.gets                            # paths asked for
    bmc.resets                          # ResetTypes that it was told
    bmc.obey = function                 # what it does about one; None: it answers 204 and does nothing
    bmc.reset_status = 400              # how it answers one
"""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


SYSTEM = "/redfish/v1/Systems/System.Embedded.1"
RESET = "/Actions/ComputerSystem.Reset"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def is_known(self) -> bool:
        wanted = "Basic " + base64.b64encode(f"admin:{self.server.bmc.password}".encode()).decode()
        return self.headers.get("Authorization", "") == wanted

    def do_POST(self):
        bmc = self.server.bmc
        order = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = 401 if not self.is_known() else bmc.reset_status if self.path == SYSTEM + RESET else 404
        if status < 300:
            bmc.resets.append(order["ResetType"])
            if bmc.obey:
                bmc.obey()
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        bmc = self.server.bmc
        bmc.gets.append(self.path)
        body, status = {}, bmc.fail
        if not self.is_known():
            status = 401
        elif not status:
            status = 200
            if self.path == "/redfish/v1/Systems":
                body = {"Members": [{"@odata.id": SYSTEM}]}
            elif self.path == SYSTEM:
                body = {"UUID": bmc.uuid, "PowerState": bmc.power, "Actions": {"#ComputerSystem.Reset": {
                    "target": SYSTEM + RESET, "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown"]}}}
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
        self.resets, self.obey, self.reset_status = [], None, 204
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
