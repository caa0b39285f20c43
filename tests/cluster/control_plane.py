"""The control plane of a bed: etcd, API server, controller manager and scheduler on a machine of their own.

Inside the bed the API server is at 10.77.0.2 and at its service's address; this computer reaches it at a loopback port,
which a forwarder carries there. So clients, kubeconfigs and engines need to know nothing of namespaces.
"""

import shutil
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from e2e.audit import AuditLog
from e2e.certs import Authority, write_kubeconfig
from e2e.kube import Access, Client, wait_for

from .machine import HERE, Machine, Service
from .network import CONTROL_PLANE, NETNS, SERVICE, SERVICES, SUBNET
from .settings import STOCK, Settings

ADDRESS = f"{SUBNET}.{CONTROL_PLANE}"
INSIDE = f"https://{ADDRESS}:443"
NAMES = f"IP:{ADDRESS},IP:{SERVICE},IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"
ETCD, PEER = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
API_SERVER, CONTROLLERS, SCHEDULER = "kube-apiserver", "kube-controller-manager", "kube-scheduler"
COMPONENTS = ("etcd", API_SERVER, CONTROLLERS, SCHEDULER)
FORWARDER = "forward"
AUDIT_POLICY = HERE.parent / "e2e" / "audit_policy.yaml"
START_LIMIT = 180  # seconds until a component answers; a bound, not a wait
ADMIN = ("e2e-admin", "system:masters")


@dataclass
class ControlPlane(Machine):
    """Components run until stop(); one that ends by itself is started again, as the kubelet of a real control plane
    does it: a controller manager that lost its Lease ends itself."""

    programs: dict = field(default_factory=dict)
    settings: Settings = STOCK
    port: int = 0  # on loopback of this computer
    audited: bool = True
    when_ready: list = field(default_factory=list)  # called when the API server is, before `extra` services begin
    is_service_address = True

    def __post_init__(self):
        self.authority = Authority(self.folder / "pki")

    # --- life

    def power_on(self):
        self._write_kubeconfigs()
        super().power_on()
        if not self.processes.pid(FORWARDER):
            self.processes.start(FORWARDER, [sys.executable, "-B", HERE / "forward.py", self.port,
                                             NETNS / self.host.namespace, ADDRESS, 443], self.environment)
        self.wait_ready()
        for act in self.when_ready:
            act()
        for name in (CONTROLLERS, SCHEDULER, *self._extra_names()):
            self.start(name)

    def _extra_names(self) -> list:
        return [each.name for each in self.extra]

    def power_off(self):
        self.processes.end(FORWARDER)  # it sits in the network namespace that goes now
        super().power_off()

    def wait_ready(self, seconds: float = START_LIMIT):
        client = self.client(timeout=5)
        try:
            wait_for("the API server is ready", lambda: client.request("GET", "/readyz") == "ok", seconds, 0.05)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log_tail(API_SERVER)}\n{self.processes.log_tail(FORWARDER)}") from None

    def stop(self, name: str, hard: bool = True):
        """`hard` kills at once; otherwise it may take leave, of open watches too, which takes the API server long."""
        self.kill(name, 9 if hard else 15)

    def start_component(self, name: str):
        self.start(name)
        if name == API_SERVER:
            self.wait_ready()

    def restart_component(self, name: str, down: float = 0, hard: bool = True):
        """Stopped, left down for so many seconds, started."""
        self.stop(name, hard)
        time.sleep(down)
        self.start_component(name)

    # --- etcd's data

    def snapshot(self, name: str = "snapshot") -> Path:
        """What etcd holds now. It stands still for a moment: there is no etcdutl, and a copy of its folder is only
        whole when nobody writes into it."""
        kept = self.folder / name
        shutil.rmtree(kept, ignore_errors=True)
        self.stop("etcd", hard=False)
        shutil.copytree(self.folder / "etcd", kept)
        self.start("etcd")
        self.wait_ready()
        return kept

    def restore(self, kept: Path):
        """The cluster as it was at the snapshot. Everybody who remembers the time after it goes with etcd."""
        everybody = (*COMPONENTS, *self._extra_names())
        for name in reversed(everybody):
            self.stop(name)
        shutil.rmtree(self.folder / "etcd")
        shutil.copytree(kept, self.folder / "etcd")
        for name in everybody:
            self.start_component(name)

    # --- access

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> Path:
        return self.authority.cert

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, for this computer."""
        return self.folder / "admin.kubeconfig"

    def _write_kubeconfigs(self):
        self.write_kubeconfig("admin", *ADMIN)
        for name in (CONTROLLERS, SCHEDULER):
            self.write_kubeconfig(name, f"system:{name}", server=INSIDE)

    def write_kubeconfig(self, name: str, user: str, group: str = "", server: str = "") -> Path:
        """With a client certificate for `user` in `group`; for this computer unless another `server` is given."""
        cert, key = self.authority.client(user, group)
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", server or self.server, self.ca, cert, key)

    def token_kubeconfig(self, name: str, token: str, namespace: str = "default", server: str = "") -> Path:
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", server or self.server, self.ca, token=token,
                                namespace=namespace)

    def client(self, user_agent: str = "e2e-test", user: str = ADMIN[0], group: str = ADMIN[1], **more) -> Client:
        cert, key = self.authority.client(user, group)
        return Client(Access(self.server, str(self.ca), str(cert), str(key)), user_agent=user_agent, **more)

    def token_client(self, token: str, user_agent: str = "e2e-test", server: str = "") -> Client:
        return Client(Access(server or self.server, str(self.ca), token=token), user_agent=user_agent)

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.log"

    def audit(self) -> AuditLog:
        return AuditLog(self.audit_log)

    def tails(self, lines: int = 12) -> dict:
        """The last lines of the logs of those that move pods."""
        return {name: self.log_tail(name, lines) for name in (CONTROLLERS, SCHEDULER)}

    # --- command lines

    def services(self) -> list:
        # the others would end at once without an API server
        return [Service("etcd", self._etcd()), Service(API_SERVER, self._api_server()),
                Service(CONTROLLERS, self._controllers(), wanted=False),
                Service(SCHEDULER, self._scheduler(), wanted=False)]

    def _etcd(self) -> tuple:
        return (self.programs["etcd"], "--name=bed", f"--data-dir={self.folder / 'etcd'}", f"--listen-client-urls={ETCD}",
                f"--advertise-client-urls={ETCD}", f"--listen-peer-urls={PEER}", f"--initial-advertise-peer-urls={PEER}",
                f"--initial-cluster=bed={PEER}", "--unsafe-no-fsync", "--log-level=warn")

    def _api_server(self) -> tuple:
        cert, key = self.authority.server("kube-apiserver", NAMES)
        public, private = self.authority.signing_key("service-account")
        kubelets = self.authority.client("kube-apiserver-kubelet-client", "system:masters")
        audit = (f"--audit-policy-file={AUDIT_POLICY}", f"--audit-log-path={self.audit_log}", "--audit-log-format=json",
                 "--audit-log-mode=blocking", "--audit-log-maxsize=4000") if self.audited else ()
        return (self.programs[API_SERVER], f"--etcd-servers={ETCD}", "--secure-port=443", "--bind-address=0.0.0.0",
                f"--advertise-address={ADDRESS}", f"--cert-dir={self.folder / 'pki'}", f"--tls-cert-file={cert}",
                f"--tls-private-key-file={key}", f"--client-ca-file={self.ca}", "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                f"--kubelet-client-certificate={kubelets[0]}", f"--kubelet-client-key={kubelets[1]}",
                # names of nodes resolve nowhere: logs and exec would wait for a DNS server
                "--kubelet-preferred-address-types=InternalIP",
                "--service-account-issuer=https://kubernetes.default.svc", f"--service-account-key-file={public}",
                f"--service-account-signing-key-file={private}", f"--service-cluster-ip-range={SERVICES}",
                "--allow-privileged=true", *audit)

    def _controllers(self) -> tuple:
        _, private = self.authority.signing_key("service-account")
        # with a leader's Lease, as everywhere: moonfence releases volumes only where that is renewed
        return (self.programs[CONTROLLERS], f"--kubeconfig={self.folder / CONTROLLERS}.kubeconfig",
                f"--cert-dir={self.folder / 'pki'}",
                f"--flex-volume-plugin-dir={self.folder / 'flex'}",  # by default it makes a folder in /usr
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={private}", f"--root-ca-file={self.ca}",
                *self.settings.controller_flags())

    def _scheduler(self) -> tuple:
        return (self.programs[SCHEDULER], f"--kubeconfig={self.folder / SCHEDULER}.kubeconfig",
                f"--cert-dir={self.folder / 'pki'}")

