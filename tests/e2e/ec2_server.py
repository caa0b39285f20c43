"""moto's EC2 as a process of ec2_api.py's, behind a gate that recomputes the signature of each request by botocore.

    ec2_server.py '{"access_key": "…", "secret_key": "…", "token": "", "region": "eu-central-1"}'

Reads orders as lines of JSON and answers each by one. What serves AWS's own API is moto's, unchanged; `clock` moves the time that the
gate compares with.
"""

import datetime
import json
import re
import sys
import threading
import urllib.parse
from http.client import HTTPMessage
from io import BytesIO

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from moto.backends import get_backend
from moto.ec2.models.instances import StateReason
from moto.server import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ACCOUNT = "123456789012"
ERROR = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Response><Errors><Error><Code>{}</Code><Message>{}</Message></Error></Errors>" \
        "<RequestID>ea966190-f9aa-478e-9ede-example</RequestID></Response>"


class Quiet(WSGIRequestHandler):
    def log(self, *_):
        pass


class Given(SigV4Auth):
    """Of a request that was received: over the headers that it says it has signed."""

    def __init__(self, given: dict, names: list, region: str):
        super().__init__(Credentials(given["access_key"], given["secret_key"]), "ec2", region)
        self.names = names

    def headers_to_sign(self, request):
        headers = HTTPMessage()
        for name in sorted(self.names):
            headers[name] = request.headers[name]
        return headers


class Gate:
    def __init__(self, app, given: dict):
        self.app, self.given = app, given
        self.seen: list = []  # [action, word of the refusal or ""]
        self.refuse = ""      # every call with this word
        self.clock = 0.0      # seconds that its clock is ahead

    def __call__(self, environ, start_response):
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        action = urllib.parse.parse_qs(body.decode()).get("Action", ["?"])[0]
        status, word, why = self.fault(environ, body)
        self.seen.append([action if environ["REQUEST_METHOD"] == "POST" else environ["REQUEST_METHOD"], word])
        if not word:
            return self.app(environ, start_response)
        start_response(status, [("Content-Type", "text/xml;charset=UTF-8")])
        return [ERROR.format(word, why).encode()]

    def fault(self, environ, body: bytes):
        """As EC2 words it."""
        shown = environ.get("HTTP_AUTHORIZATION", "")
        if not shown.startswith("AWS4-HMAC-SHA256 "):
            return "401 Unauthorized", "MissingAuthenticationToken", "it is not signed"
        parts = dict(part.strip().split("=", 1) for part in shown.split(" ", 1)[1].split(","))
        key, date, *scope = parts["Credential"].split("/")
        headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items() if name.startswith("HTTP_")}
        headers["content-type"] = environ.get("CONTENT_TYPE", "")
        names = parts["SignedHeaders"].split(";")
        if key != self.given["access_key"] or scope != [self.given["region"], "ec2", "aws4_request"] or self.given["token"] != headers.get(
                "x-amz-security-token", ""):
            return "401 Unauthorized", "AuthFailure", "not able to validate the provided access credentials"
        absent = [name for name in names if name not in headers]
        unsigned = {"host", "x-amz-date", "content-type", *(["x-amz-security-token"] if self.given["token"] else [])} - set(names)
        if absent or unsigned:
            return "400 Bad Request", "IncompleteSignature", f"{absent} are signed and not there, {unsigned} are not signed"
        request = AWSRequest(method=environ["REQUEST_METHOD"], url=f"http://{headers['host']}{environ['PATH_INFO']}", data=body, headers=headers)
        request.context["timestamp"] = headers["x-amz-date"]
        signer = Given(self.given, names, self.given["region"])
        expected = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
        if expected != parts["Signature"]:
            return "401 Unauthorized", "AuthFailure", "not able to validate the provided access credentials"
        when = datetime.datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.timezone.utc)
        now = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=self.clock)
        if date != headers["x-amz-date"][:8] or abs(now - when) > datetime.timedelta(minutes=5):
            return "400 Bad Request", "RequestExpired", "Request has expired"
        return ("503 Service Unavailable", self.refuse, "refused") if self.refuse else ("", "", "")


def run(app, backend, order: dict) -> dict:
    wanted = {"Action": "RunInstances", "Version": "2016-11-15", "ImageId": "ami-12c6146b", "MinCount": 1, "MaxCount": 1}
    answer = app.test_client().post("/", data=wanted, headers={
        "Authorization": f"AWS4-HMAC-SHA256 Credential=x/20260101/{order['region']}/ec2/aws4_request"})
    made = re.search("<instanceId>(i-[0-9a-f]+)</instanceId>", answer.text).group(1)
    next(iter(backend.get_instance(made).nics.values())).private_ip_address = order["address"]
    return {"id": made, "zone": order["region"] + "a"}


def become(backend, order: dict) -> dict:
    """A state that moto never shows."""
    instance = backend.get_instance(order["id"])
    instance._state.name, instance._state.code = order["state"], order["code"]
    instance.state_reason = StateReason(order["reason"] + ": why", order["reason"])
    return {}


def main(given: dict):
    app = create_backend_app("ec2")
    gate = Gate(app, given)
    backend = get_backend("ec2")[ACCOUNT][given["region"]]
    server = make_server("127.0.0.1", 0, gate, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.port}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        answer: dict = {}
        if order["do"] == "run":
            answer = run(app, backend, {**order, "region": given["region"]})
        elif order["do"] == "become":
            answer = become(backend, order)
        elif order["do"] == "terminate":
            backend.terminate_instances([order["id"]])
        elif order["do"] == "state":
            answer = {"state": backend.get_instance(order["id"]).state}
        elif order["do"] == "seen":
            answer = {"seen": gate.seen}
        elif order["do"] == "gate":
            gate.refuse, gate.clock = order.get("refuse", ""), order.get("clock", 0.0)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
