"""Metrics and status page by HTTPS, for those alone whom a real API server knows and lets read (--secure-serving)."""

import base64
import json
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest

from .control_plane import free_port
from .engine import RULES
from .kube import wait_for
from .certs import Authority

REVIEWS = ({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
           {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]})
SECURE = ("--secure-serving",)


def fetch(port: int, path: str, token: str = "", ca=None, **headers) -> tuple:
    """(status, text, headers) by HTTPS; the certificate is checked against `ca`, or not at all."""
    trust = ssl.create_default_context(cafile=ca) if ca else ssl._create_unverified_context()
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        with urllib.request.urlopen(urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers), timeout=30, context=trust) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


class Reader:
    """A ServiceAccount that may read what it is given."""

    def __init__(self, cluster, namespace: str, name: str = "reader"):
        self.client, self.namespace, self.name = cluster.client, namespace, name
        self.role = f"{namespace}-{name}"
        self.client.create("serviceaccounts", {"metadata": {"name": name}}, namespace)
        self.token = self.client.token(name, namespace)

    def may_get(self, *paths: str):
        self.client.create("clusterroles", {"metadata": {"name": self.role}, "rules": [{"nonResourceURLs": list(paths), "verbs": ["get"]}]})
        self.client.create("clusterrolebindings", {
            "metadata": {"name": self.role}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}]})

    def remove(self):
        for kind in ("clusterrolebindings", "clusterroles"):
            self.client.delete(kind, self.role, missing_ok=True)


@pytest.fixture
def reader(cluster, workloads):
    made = Reader(cluster, workloads.namespace)
    yield made
    made.remove()


@pytest.fixture
def engine(start_engine):
    return start_engine(rules=[*RULES, *REVIEWS], flags=SECURE)


def reads(engine, port: int, path: str, token: str, status: int):
    """Waits until it is answered so: rights travel, and refusals are remembered for a while."""
    wait_for(f"{path} answers {status}", lambda: fetch(port, path, token)[0] == status, 90, 0.2)


def test_who_may_read_what_is_the_api_servers_word(engine, reader):
    for port, path in ((engine.metrics_port, "/metrics"), (engine.status_port, "/"), (engine.status_port, "/status.json")):
        status, text, headers = fetch(port, path)
        assert status == 401 and "moonfence_" not in text and {w.split()[0] for w in headers.get_all("WWW-Authenticate")} == {"Bearer", "Basic"}
        assert fetch(port, path, "not.a.token")[0] == 401
        reads(engine, port, path, reader.token, 403)
    assert "moonfence-metrics-reader" in fetch(engine.metrics_port, "/metrics", reader.token)[1]
    reader.may_get("/metrics")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    text = fetch(engine.metrics_port, "/metrics", reader.token)[1]
    assert "moonfence_build_info" in text and "moonfence_serving_certificate_expiry_timestamp_seconds" in text
    assert fetch(engine.status_port, "/", reader.token)[0] == 403, "another right"


def test_a_browser_shows_the_token_as_a_password(engine, reader):
    reader.may_get("/status")
    reads(engine, engine.status_port, "/", reader.token, 200)
    word = base64.b64encode(f"anybody:{reader.token}".encode()).decode()
    status, text, _ = fetch(engine.status_port, "/status.json", Authorization=f"Basic {word}")
    assert status == 200 and json.loads(text)
    assert fetch(engine.status_port, "/", reader.token, Host="rebound.example:8082")[0] == 421


def test_who_is_gone_or_has_lost_the_right_is_out(cluster, engine, reader):
    reader.may_get("/metrics")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    reader.remove()
    reads(engine, engine.metrics_port, "/metrics", reader.token, 403)
    cluster.client.delete("serviceaccounts", reader.name, reader.namespace)
    reads(engine, engine.metrics_port, "/metrics", reader.token, 401)


def test_no_token_is_in_the_log_or_in_what_it_shows(engine, reader):
    reader.may_get("/metrics", "/status")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    reads(engine, engine.status_port, "/status.json", reader.token, 200)
    secret = reader.token.rsplit(".", 1)[1]
    assert secret not in engine.log()
    assert secret not in fetch(engine.metrics_port, "/metrics", reader.token)[1] + fetch(engine.status_port, "/status.json", reader.token)[1]


def test_without_the_api_server_nobody_new_is_let_in(start_engine, proxy, reader):
    engine = start_engine(rules=[*RULES, *REVIEWS], flags=SECURE, server=proxy.server)
    reader.may_get("/metrics")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    other = reader.client.token(reader.name, reader.namespace, 1200)
    proxy.stop_accepting(cut=True)
    assert fetch(engine.metrics_port, "/metrics", reader.token)[0] == 200, "who was let in stays so"
    status, _, headers = fetch(engine.metrics_port, "/metrics", other)
    assert status == 503 and headers["Retry-After"]
    proxy.accept_again()
    reads(engine, engine.metrics_port, "/metrics", other, 200)


def test_without_the_right_to_ask_nobody_is_let_in(start_engine, reader):
    engine = start_engine(flags=SECURE)
    reader.may_get("/metrics")
    assert fetch(engine.metrics_port, "/metrics", reader.token)[0] == 503


def test_old_tls_plain_http_and_garbage_are_refused(engine, reader):
    reader.may_get("/metrics")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    for old in (1, 2):  # TLS 1.0 and 1.1; by hand, because not each OpenSSL speaks them
        hello = bytes([3, old]) + b"r" * 32 + b"\0\0\2\xc0\x13\1\0"
        message = b"\1\0\0" + bytes([len(hello)]) + hello
        with socket.create_connection(("127.0.0.1", engine.metrics_port), timeout=30) as client:
            client.sendall(b"\x16\3\1\0" + bytes([len(message)]) + message)
            answer = client.recv(100)
        assert answer[0] == 21 and answer[-1] == 70, "an alert: protocol_version"
    assert engine.get("/metrics", engine.metrics_port)[0] == 400
    for garbage in (b"\0" * 5000, b"\x16\x03\x01\xff\xff" + b"x" * 5000, b"SSH-2.0-x\r\n"):
        with socket.create_connection(("127.0.0.1", engine.metrics_port), timeout=30) as client:
            client.sendall(garbage)
            try:
                while client.recv(4096):
                    pass
            except ConnectionResetError:
                pass
    assert fetch(engine.metrics_port, "/metrics", reader.token)[0] == 200


def test_many_silent_clients_shut_nobody_out(engine, reader):
    reader.may_get("/metrics")
    reads(engine, engine.metrics_port, "/metrics", reader.token, 200)
    silent = [socket.create_connection(("127.0.0.1", engine.metrics_port), timeout=30) for _ in range(100)]
    try:
        assert fetch(engine.metrics_port, "/metrics", reader.token)[0] == 200
    finally:
        for each in silent:
            each.close()


def test_a_certificate_is_shown_when_it_appears_and_when_it_is_renewed(start_engine, tmp_path):
    authority, folder = Authority(tmp_path / "ca"), tmp_path / "tls"
    folder.mkdir()

    def put(name: str):
        for text, file in zip(authority.server(name), ("tls.crt", "tls.key")):
            shutil.copy(text, folder / file)
    engine = start_engine(rules=[*RULES, *REVIEWS], flags=(*SECURE, "--serving-certificate", str(folder)))

    def shown() -> str:
        pem = ssl.get_server_certificate(("127.0.0.1", engine.metrics_port))
        return subprocess.run(["openssl", "x509", "-noout", "-subject", "-nameopt", "multiline"], input=pem, capture_output=True, text=True).stdout
    assert "= moonfence" in shown(), "one of its own, as long as there is none"
    put("first")
    wait_for("the one of the folder is shown", lambda: "first" in shown(), 90, 0.5)
    assert fetch(engine.metrics_port, "/metrics", ca=authority.cert)[0] == 401
    put("second")
    wait_for("the new one is shown", lambda: "second" in shown(), 90, 0.5)


@pytest.mark.parametrize("secure, code", [((), 2), (SECURE, 3)])
def test_a_certificate_that_is_none_ends_it(start_engine, tmp_path, secure, code):
    for file in ("tls.crt", "tls.key"):
        (tmp_path / file).write_text("nonsense")
    engine = start_engine(ready=False, flags=(*secure, "--serving-certificate", str(tmp_path)))
    engine.wait_exit(code, 30)


def test_prometheus_scrapes_it_as_documented(engine, reader, tmp_path):
    reader.may_get("/metrics")
    token, config, port = tmp_path / "token", tmp_path / "prometheus.json", free_port()
    token.write_text(reader.token)
    config.write_text(json.dumps({"scrape_configs": [{
        "job_name": "moonfence", "scrape_interval": "1s", "scheme": "https", "bearer_token_file": str(token),
        "tls_config": {"insecure_skip_verify": True}, "static_configs": [{"targets": [f"127.0.0.1:{engine.metrics_port}"]}]}]}))
    with open(tmp_path / "prometheus.log", "wb") as log:
        prometheus = subprocess.Popen(
            [shutil.which("setpriv"), "--pdeathsig", "KILL", shutil.which("prometheus"), f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        def is_up() -> bool:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query=moonfence_build_info", timeout=10) as answer:
                    return len(json.load(answer)["data"]["result"]) == 1
            except OSError:
                return False
        wait_for("Prometheus has scraped it", is_up, 90, 0.3)
    finally:
        prometheus.kill()
        prometheus.wait()
