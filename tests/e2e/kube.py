"""A tiny client of the Kubernetes API for tests: JSON, TLS, keep-alive, nothing hidden.

Objects are plain dicts. A call that fails raises ApiError with the server's own Status.
"""

import base64
import http.client
import json
import re
import socket
import ssl
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Iterator, Optional
from urllib.parse import quote, urlencode, urlsplit

# plural -> (path of the API group, namespaced)
RESOURCES = {
    "namespaces": ("api/v1", False),
    "nodes": ("api/v1", False),
    "persistentvolumes": ("api/v1", False),
    "pods": ("api/v1", True),
    "events": ("api/v1", True),
    "configmaps": ("api/v1", True),
    "resourcequotas": ("api/v1", True),
    "secrets": ("api/v1", True),
    "services": ("api/v1", True),
    "serviceaccounts": ("api/v1", True),
    "persistentvolumeclaims": ("api/v1", True),
    "statefulsets": ("apis/apps/v1", True),
    "deployments": ("apis/apps/v1", True),
    "replicasets": ("apis/apps/v1", True),
    "daemonsets": ("apis/apps/v1", True),
    "jobs": ("apis/batch/v1", True),
    "leases": ("apis/coordination.k8s.io/v1", True),
    "storageclasses": ("apis/storage.k8s.io/v1", False),
    "csidrivers": ("apis/storage.k8s.io/v1", False),
    "csinodes": ("apis/storage.k8s.io/v1", False),
    "volumeattachments": ("apis/storage.k8s.io/v1", False),
    "clusterroles": ("apis/rbac.authorization.k8s.io/v1", False),
    "clusterrolebindings": ("apis/rbac.authorization.k8s.io/v1", False),
    "roles": ("apis/rbac.authorization.k8s.io/v1", True),
    "rolebindings": ("apis/rbac.authorization.k8s.io/v1", True),
    "validatingwebhookconfigurations": ("apis/admissionregistration.k8s.io/v1", False),
    "customresourcedefinitions": ("apis/apiextensions.k8s.io/v1", False),
    "csiaddonsnodes": ("apis/csiaddons.openshift.io/v1alpha1", True),
    "networkfences": ("apis/csiaddons.openshift.io/v1alpha1", False),
}

PATCH_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class ApiError(Exception):
    """The server said no: `status` is the HTTP code, `reason` and `message` come from its Status."""

    def __init__(self, status: int, body: Any, what: str = ""):
        self.status = status
        self.body = body
        self.reason = body.get("reason", "") if isinstance(body, dict) else ""
        self.message = body.get("message", "") if isinstance(body, dict) else str(body)
        super().__init__(f"{what}: {status} {self.reason} {self.message}".strip())


@dataclass
class Access:
    """Where the API server is and who we are. Files, since OpenSSL reads certificates from files only."""

    server: str
    ca: str
    cert: Optional[str] = None
    key: Optional[str] = None
    token: Optional[str] = None

    def ssl_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.set_alpn_protocols(["http/1.1"])
        if self.cert:
            context.load_cert_chain(self.cert, self.key)
        return context

    def host_port(self) -> tuple:
        parts = urlsplit(self.server)
        return parts.hostname, parts.port or 443

    @staticmethod
    def from_kubeconfig(path) -> "Access":
        """Reads the kubeconfigs that this package writes (one cluster, one user), not any YAML."""
        text = Path(path).read_text()

        def field(name):
            match = re.search(rf"(?m)^\s*{name}:\s*\"?([^\"\s]+)\"?\s*$", text)
            return match.group(1) if match else None

        files = {}
        with tempfile.TemporaryDirectory(prefix="kubeconfig-") as folder:
            for name in ("certificate-authority", "client-certificate", "client-key"):
                data = field(name + "-data")
                if data:
                    kept = Path(path).with_name(f".{Path(path).name}.{name}.pem")
                    fresh = Path(folder) / name
                    fresh.write_bytes(base64.b64decode(data))
                    fresh.chmod(0o600)
                    if not kept.exists() or kept.read_bytes() != fresh.read_bytes():
                        kept.write_bytes(b"")
                        kept.chmod(0o600)
                        kept.write_bytes(fresh.read_bytes())
                    files[name] = str(kept)
                else:
                    files[name] = field(name)
        return Access(field("server"), files["certificate-authority"], files["client-certificate"],
                      files["client-key"], field("token"))


def path_of(resource: str, name: str = "", namespace: str = "", subresource: str = "") -> str:
    """The URL path of a resource; an absolute path passes as it is."""
    if resource.startswith("/"):
        return resource
    group, namespaced = RESOURCES[resource]
    path = f"/{group}"
    if namespace and namespaced:
        path += f"/namespaces/{quote(namespace)}"
    path += f"/{resource}"
    for part in (name, subresource):
        if part:
            path += f"/{quote(part)}"
    return path


class Client:
    """One connection per thread. Every method takes the plural name of the resource."""

    def __init__(self, access: Access, user_agent: str = "e2e-test", timeout: float = 30):
        self.access = access
        self.user_agent = user_agent
        self.timeout = timeout
        self._context = access.ssl_context()
        self._local = threading.local()

    @classmethod
    def from_kubeconfig(cls, path, **more) -> "Client":
        return cls(Access.from_kubeconfig(path), **more)

    # --- plumbing

    def _connect(self, timeout) -> http.client.HTTPSConnection:
        host, port = self.access.host_port()
        connection = http.client.HTTPSConnection(host, port, context=self._context, timeout=timeout)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def _headers(self, content_type=None) -> dict:
        headers = {"User-Agent": self.user_agent, "Accept": "application/json"}
        if self.access.token:
            headers["Authorization"] = f"Bearer {self.access.token}"
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def request(self, method: str, path: str, body: Any = None, query: Optional[dict] = None,
                content_type: str = "application/json") -> Any:
        """One call. Sent again only when the kept connection turned out to be closed."""
        if query:
            path += "?" + urlencode({k: v for k, v in query.items() if v is not None})
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers(content_type if data is not None else None)
        kept = getattr(self._local, "connection", None)
        self._local.connection = None
        connection = kept or self._connect(self.timeout)
        try:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            connection.close()
            if not kept:
                raise
            connection = self._connect(self.timeout)
            connection.request(method, path, data, headers)
            response = connection.getresponse()
        raw = response.read()
        if response.will_close:
            connection.close()
        else:
            self._local.connection = connection
        try:
            parsed = json.loads(raw) if raw else None
        except ValueError:
            parsed = raw.decode(errors="replace")
        if response.status >= 400:
            raise ApiError(response.status, parsed, f"{method} {path}")
        return parsed

    # --- typed calls

    def get(self, resource: str, name: str, namespace: str = "") -> dict:
        return self.request("GET", path_of(resource, name, namespace))

    def find(self, resource: str, name: str, namespace: str = "") -> Optional[dict]:
        """Like get, but None when it does not exist."""
        try:
            return self.get(resource, name, namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, resource: str, namespace: str = "", labels: str = None, fields: str = None) -> list:
        query = {"labelSelector": labels, "fieldSelector": fields}
        return self.request("GET", path_of(resource, "", namespace), query=query)["items"]

    def create(self, resource: str, body: dict, namespace: str = "") -> dict:
        namespace = namespace or body.get("metadata", {}).get("namespace", "")
        return self.request("POST", path_of(resource, "", namespace), body)

    def replace(self, resource: str, body: dict, namespace: str = "", subresource: str = "") -> dict:
        meta = body["metadata"]
        namespace = namespace or meta.get("namespace", "")
        return self.request("PUT", path_of(resource, meta["name"], namespace, subresource), body)

    def patch(self, resource: str, name: str, body: Any, namespace: str = "", kind: str = "merge",
              subresource: str = "") -> dict:
        return self.request("PATCH", path_of(resource, name, namespace, subresource), body,
                            content_type=PATCH_TYPES[kind])

    def delete(self, resource: str, name: str, namespace: str = "", grace: Optional[int] = None,
               uid: Optional[str] = None, missing_ok: bool = False) -> Optional[dict]:
        options: dict = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            return self.request("DELETE", path_of(resource, name, namespace), options)
        except ApiError as error:
            if missing_ok and error.status == 404:
                return None
            raise

    def token(self, service_account: str, namespace: str, seconds: int = 3600,
              pod: Optional[dict] = None) -> str:
        """A token of the ServiceAccount (TokenRequest), bound to a pod object when one is given."""
        spec: dict = {"expirationSeconds": seconds}
        if pod:
            spec["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"],
                                      "uid": pod["metadata"]["uid"]}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        answer = self.request("POST", path_of("serviceaccounts", service_account, namespace, "token"), body)
        return answer["status"]["token"]

    def watch(self, resource: str, namespace: str = "", version: str = "", labels: str = None,
              fields: str = None, seconds: int = 60) -> Iterator[dict]:
        """Watch events as dicts {type, object} until the server ends the watch after `seconds`."""
        query = {"watch": "1", "timeoutSeconds": str(seconds), "resourceVersion": version or None,
                 "labelSelector": labels, "fieldSelector": fields}
        path = path_of(resource, "", namespace) + "?" + urlencode({k: v for k, v in query.items() if v})
        connection = self._connect(seconds + 10)
        try:
            connection.request("GET", path, headers=self._headers())
            response = connection.getresponse()
            if response.status >= 400:
                raw = response.read()
                raise ApiError(response.status, json.loads(raw) if raw else None, f"watch {path}")
            for line in response:
                if line.strip():
                    yield json.loads(line)
        finally:
            connection.close()


# What takes a second here takes ten beside a build. A limit ends a test that hangs; it is not the claim, unless it is `exact`:
# "sooner than Kubernetes by itself".
LEAST_LIMIT = 120


def wait_for_kinds_to_go(client: Client, definitions: list):
    """After all CustomResourceDefinitions of a group were deleted: until neither they nor what they define is there, nor the
    APIService that stands for the group. Kinds that are added again before that are served by the old APIService at first, and
    answer 404 for a moment when it goes and a new one comes."""
    def is_gone(path: str) -> bool:
        try:
            client.request("GET", path)
        except ApiError as error:
            return error.status == 404
        return False

    for each in definitions:
        spec = each["spec"]
        (version,) = [version["name"] for version in spec["versions"]]
        for path in (f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{each['metadata']['name']}",
                     f"/apis/{spec['group']}/{version}/{spec['names']['plural']}",
                     f"/apis/apiregistration.k8s.io/v1/apiservices/{version}.{spec['group']}"):
            wait_for(f"{path} is gone", lambda path=path: is_gone(path), 60)


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 120, every: float = 0.1,
             exact: bool = False) -> Any:
    """Polls until `condition` returns something true, which is returned. An API server that is just
    restarting counts as "not yet". Gives up after `seconds`, which are LEAST_LIMIT at least unless `exact`; with 0 it looks once."""
    seconds = seconds if exact or not seconds else max(seconds, LEAST_LIMIT)
    end = time.monotonic() + seconds
    last: Optional[Exception] = None
    while True:
        try:
            result = condition()
            if result:
                return result
            last = None
        except (ApiError, OSError, http.client.HTTPException) as error:
            last = error
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds} s: {what}" + (f" ({last})" if last else ""))
        time.sleep(every)
