"""An OpenTelemetry collector, built from the project's own modules (tests/cluster/collector): what it receives it writes to a
file. Others wrote how it reads what we send.

    collector = Collector(folder)           # nothing listens yet; collector.setting is `traces:` of the engine's configuration
    collector.start()                       # mutual TLS on a loopback port
    collector.spans()                       # [Span]: what has arrived, whole requests only
    collector.stop(); collector.start()     # it goes on writing to the same file
"""

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from cluster import programs

from .certs import Authority
from .growing_file import whole_lines
from .kube import wait_for
from .processes import Processes, free_port

CONFIGURATION = """receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
        max_request_body_size: {largest}
        tls: {{cert_file: {cert}, key_file: {key}, client_ca_file: {ca}}}
exporters:
  file: {{path: {spans}, append: true, flush_interval: 50ms}}
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
"""


@dataclass(frozen=True)
class Span:
    """As the collector wrote it. Times are nanoseconds since the epoch."""

    trace: str
    id: str
    parent: str
    name: str
    kind: int
    start: int
    end: int
    status: int
    told: dict
    resource: dict

    @staticmethod
    def of(raw: dict, resource: dict) -> "Span":
        return Span(raw["traceId"], raw["spanId"], raw.get("parentSpanId", ""), raw["name"], raw["kind"], int(raw["startTimeUnixNano"]),
                    int(raw["endTimeUnixNano"]), raw.get("status", {}).get("code", 0), values(raw["attributes"]), resource)


def values(attributes: list) -> dict:
    def value(raw: dict):
        (kind, text), = raw.items()
        return int(text) if kind == "intValue" else text
    return {each["key"]: value(each["value"]) for each in attributes}


class Collector:
    def __init__(self, folder: Path, largest: int = 1 << 20):
        self.folder = Path(folder)
        self.folder.mkdir()
        self.port, self.file = free_port(), self.folder / "spans.jsonl"
        authority = Authority(self.folder / "authority")
        cert, key = authority.server("collector")
        client_cert, client_key = authority.client("moonfence")
        self.configuration = self.folder / "collector.yaml"
        self.configuration.write_text(CONFIGURATION.format(
            port=self.port, largest=largest, cert=cert, key=key, ca=authority.cert, spans=self.file))
        self.setting = (f"{{url: 'https://127.0.0.1:{self.port}', cluster: berlin-1, "
                        f"tls: {{ca: {authority.cert}, clientCertificate: {client_cert}, clientKey: {client_key}}}}}")
        self.processes = Processes(self.folder, die_with_us=True)

    def start(self) -> "Collector":
        program = programs.find("collector")["collector"]
        self.processes.start("collector", [program, "--config", f"file:{self.configuration}"])

        def listens():
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5)
            except urllib.error.HTTPError:
                return True  # of TLS it understands this much
            except OSError:
                return False
        wait_for("the collector listens", listens, 60)
        return self

    def stop(self):
        self.processes.end("collector")

    def spans(self) -> list:
        found = []
        for line in whole_lines(self.file) if self.file.exists() else []:
            for part in json.loads(line)["resourceSpans"]:
                resource = values(part["resource"]["attributes"])
                found += [Span.of(raw, resource) for scope in part["scopeSpans"] for raw in scope["spans"]]
        return found

    def root(self, seconds: float = 120) -> Span:
        """The only root, when it has arrived."""
        wait_for("the root has arrived", lambda: [each for each in self.spans() if not each.parent], seconds)
        root, = [each for each in self.spans() if not each.parent]
        return root
