"""A real Kubernetes control plane (etcd, API server, controller manager, scheduler) on loopback."""

import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Optional

from cluster import programs

from .audit import AuditLog
from .certs import Authority, write_kubeconfig
from .kube import Access, ApiError, Client, wait_for
from .processes import Processes, free_port

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# They follow the API server by watches and, when it goes away, wait longer before each attempt to come back to it:
# client-go's reflectors up to 60 s, each resource for itself, and they begin short again only after two minutes
# without a failure. The second outage within a test or two would make the scheduler deaf for a minute.
FOLLOWERS = ("kube-controller-manager", "kube-scheduler")
MARKER = "cluster.json"


class ControlPlane:
    """One cluster under `folder`. Components keep their ports over a restart.

    grace    seconds without a heartbeat after which the controller manager gives a node up
    monitor  how often it looks
    """

    def __init__(self, folder, grace: float = 8, monitor: float = 1, die_with_us: bool = True,
                 controller_flags: tuple = (), apiserver_flags: tuple = ()):
        self.folder = Path(folder).absolute()
        self.grace, self.monitor = grace, monitor
        self.controller_flags, self.apiserver_flags = tuple(controller_flags), tuple(apiserver_flags)
        self.processes = Processes(self.folder, die_with_us)
        self.audit_log = self.folder / "audit.log"
        self.kubeconfig = self.folder / "admin.kubeconfig"
        self.programs: dict = {}
        self.version: tuple = (0, 0)
        self.authority: Optional[Authority] = None
        self.ports: dict = {}
        self.started_in = 0.0
        self.crashed: list = []  # (name, its last words) of what ended by itself and was started again
        self._lock = threading.RLock()  # of what follows and of starting and stopping components
        self._stopped: set = set(COMPONENTS)  # those that nobody wants to run now
        self._waiting: set = set()  # those of them that run again as soon as the API server is ready
        self._ending = threading.Event()

    # --- folder

    def _prepare_folder(self):
        """A fresh folder; one that is not ours is never emptied."""
        if self.folder.exists() and any(self.folder.iterdir()):
            if not (self.folder / MARKER).exists():
                raise RuntimeError(f"{self.folder} is not empty and not a cluster of ours")
            self.processes.end_all()
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / MARKER).write_text("{}\n")

    def attach(self) -> "ControlPlane":
        """Takes over the description of a cluster that another process started."""
        kept = json.loads((self.folder / MARKER).read_text())
        if not kept:
            raise FileNotFoundError(f"{self.folder / MARKER}: the cluster never came up")
        self.ports, self.programs = kept["ports"], kept["programs"]
        self.version, self.grace, self.monitor = tuple(kept["version"]), kept["grace"], kept["monitor"]
        self.authority = Authority(self.folder / "pki")
        return self

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports['kube-apiserver']}"

    @property
    def ca(self) -> Path:
        return self.authority.cert

    # --- life

    def start(self) -> "ControlPlane":
        self.programs = {name: str(path) for name, path in programs.find(*programs.CONTROL_PLANE).items()}
        began = time.monotonic()
        self.version = self._version_of("kube-apiserver")
        self._prepare_folder()
        try:
            self.authority = Authority(self.folder / "pki")
            self.ports = {n: free_port() for n in ("etcd", "etcd-peer", "kube-apiserver")}
            self._write_kubeconfigs()
            for name in COMPONENTS:
                self.start_component(name)
            self._wait_default_account()
        except BaseException:
            self.stop()
            raise
        self.started_in = time.monotonic() - began
        (self.folder / MARKER).write_text(json.dumps({
            "ports": self.ports, "programs": self.programs, "version": self.version, "grace": self.grace,
            "monitor": self.monitor}, indent=1) + "\n")
        return self

    def stop(self):
        """Ends every process that was recorded in the folder; files stay for a look at the logs."""
        self._ending.set()
        with self._lock:
            self._stopped = set(COMPONENTS)
            self.processes.end_all(patience=2)

    def start_component(self, name: str, ready: bool = True):
        command = {"etcd": self._etcd, "kube-apiserver": self._apiserver,
                   "kube-controller-manager": self._controllers, "kube-scheduler": self._scheduler}[name]()
        # nothing from outside: a proxy in the environment must not see loopback traffic
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and not k.startswith("ETCD_")}
        with self._lock:
            if name == "kube-apiserver":
                self._end_followers()
            self._stopped.discard(name)
            self._waiting.discard(name)
            if not self.processes.alive(name):  # the supervisor may have been faster
                self.processes.end(name)  # takes a dead one off the record
                self.processes.start(name, command, env)
        if ready and name == "kube-apiserver":
            self.wait_ready()
            self._start_followers()

    def stop_component(self, name: str, hard: bool = False):
        """`hard` kills at once; otherwise it gets a moment to leave (open watches would keep the API
        server for a minute)."""
        with self._lock:
            self._stopped.add(name)
            self._waiting.discard(name)
            self.processes.end(name, patience=0.5 if name == "kube-apiserver" else 2, hard=hard)

    def restart(self, name: str, hard: bool = False, down: float = 0, ready: bool = True):
        """Stops a component, leaves it down for so many seconds, starts it on the same port."""
        self.stop_component(name, hard)
        time.sleep(down)
        self.start_component(name, ready)

    def _end_followers(self):
        """Before another API server begins, those that outlived the last one end: they would come back late, and
        the controller manager would take the outage for the silence of every node."""
        for name in FOLLOWERS:
            if self.processes.alive(name):
                self.stop_component(name, hard=True)
                self._waiting.add(name)

    def _start_followers(self):
        with self._lock:
            for name in FOLLOWERS:
                if name in self._waiting:
                    self.start_component(name)

    def revive(self) -> list:
        """Starts again what ended by itself; the names."""
        with self._lock:
            dead = [name for name in COMPONENTS if not self.processes.alive(name)]
            for name in dead:
                self.start_component(name)
            return dead

    def supervise(self):
        """From now on a component that ends by itself is started again within a second, as a kubelet does with
        the static pods of a real control plane: a test must neither hang on such a crash nor spoil the next one."""
        # the thread lives as long as we do: its children are told to die with it
        threading.Thread(target=self._supervise, daemon=True).start()

    def _supervise(self):
        while not self._ending.wait(0.5):
            with self._lock:
                for name in COMPONENTS:
                    if name not in self._stopped and not self.processes.alive(name):
                        self.crashed.append((name, self._last_words(name)))
                        self.start_component(name, ready=False)
                if self._waiting and self._answers():
                    self._start_followers()

    def _answers(self) -> bool:
        try:
            return self.client(timeout=1).request("GET", "/readyz") == "ok"
        except (ApiError, OSError, http.client.HTTPException):
            return False

    def tails(self, lines: int = 12) -> dict:
        """The last lines of the logs of those that move pods: {component: text}."""
        return {name: self.processes.log_tail(name, lines) for name in FOLLOWERS}

    def _last_words(self, name: str) -> str:
        lines = self.processes.log_tail(name, 400).splitlines()
        said = [line for line in lines if re.match(r"panic:|fatal error:|F\d{4} |runtime: ", line)]
        return "\n".join(said[-3:] or lines[-5:])

    def wait_ready(self, seconds: float = 180):
        client = self.client()

        def ready():
            if not self.processes.alive("kube-apiserver"):
                raise RuntimeError("kube-apiserver ended:\n" + self.processes.log_tail("kube-apiserver"))
            return client.request("GET", "/readyz") == "ok"
        wait_for("the API server is ready", ready, seconds, 0.05)

    def _wait_default_account(self):
        # pods are refused until the controller manager has made the service account of the namespace
        client = self.client()
        wait_for("the default service account", lambda: client.find("serviceaccounts", "default", "default"), 180)

    # --- access

    def _write_kubeconfigs(self):
        self.write_kubeconfig("admin", "e2e-admin", "system:masters")
        self.write_kubeconfig("controller-manager", "system:kube-controller-manager")
        self.write_kubeconfig("scheduler", "system:kube-scheduler")
        self.write_kubeconfig("hollow-nodes", "hollow-nodes", "system:masters")
        self.write_kubeconfig("hollow-attacher", "hollow-attacher", "system:masters")

    def write_kubeconfig(self, name: str, user: str, group: str = "", server: str = "") -> Path:
        """A kubeconfig with a client certificate for `user` in `group`; `<folder>/<name>.kubeconfig`."""
        cert, key = self.authority.client(user, group)
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", server or self.server, self.ca, cert, key)

    def token_kubeconfig(self, name: str, token: str, namespace: str = "default", server: str = "") -> Path:
        """A kubeconfig with a bearer token, for the API server or for a proxy in front of it."""
        return write_kubeconfig(self.folder / f"{name}.kubeconfig", server or self.server, self.ca, token=token,
                                namespace=namespace)

    def client(self, user_agent: str = "e2e-test", user: str = "e2e-admin", group: str = "system:masters",
               **more) -> Client:
        cert, key = self.authority.client(user, group)
        return Client(Access(self.server, str(self.ca), str(cert), str(key)), user_agent=user_agent, **more)

    def token_client(self, token: str, user_agent: str = "e2e-test", server: str = "") -> Client:
        return Client(Access(server or self.server, str(self.ca), token=token), user_agent=user_agent)

    def audit(self) -> AuditLog:
        return AuditLog(self.audit_log)

    # --- command lines

    def _etcd(self):
        url, peer = (f"http://127.0.0.1:{self.ports[n]}" for n in ("etcd", "etcd-peer"))
        return [self.programs["etcd"], "--name=test", f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={url}", f"--advertise-client-urls={url}", f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=test={peer}",
                "--unsafe-no-fsync", "--quota-backend-bytes=8589934592", "--log-level=warn"]

    def _apiserver(self):
        cert, key = self.authority.server("kube-apiserver")
        public, private = self.authority.signing_key("service-account")
        return [self.programs["kube-apiserver"],
                f"--etcd-servers=http://127.0.0.1:{self.ports['etcd']}",
                "--bind-address=127.0.0.1", f"--secure-port={self.ports['kube-apiserver']}",
                # the endpoints of the service `kubernetes` must not be loopback, and nobody uses them
                "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
                f"--cert-dir={self.folder / 'pki'}", f"--tls-cert-file={cert}", f"--tls-private-key-file={key}",
                f"--client-ca-file={self.ca}", "--authorization-mode=Node,RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={private}", f"--service-account-key-file={public}",
                "--service-cluster-ip-range=10.96.0.0/16",
                f"--audit-policy-file={HERE / 'audit_policy.yaml'}", f"--audit-log-path={self.audit_log}",
                "--audit-log-format=json", "--audit-log-mode=blocking", "--audit-log-maxsize=4000",
                # 500 nodes and a test must not be throttled by fairness
                "--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000",
                *self.apiserver_flags]

    def _version_of(self, name: str) -> tuple:
        said = subprocess.run([self.programs[name], "--version"], capture_output=True, text=True).stdout
        return tuple(int(number) for number in re.search(r"v(\d+)\.(\d+)", said).groups())

    def _controllers(self):
        _, private = self.authority.signing_key("service-account")
        return [self.programs["kube-controller-manager"],
                f"--kubeconfig={self.folder / 'controller-manager.kubeconfig'}",
                "--leader-elect=false", "--secure-port=0",
                # each controller as its own user: the audit log then says which one did it
                "--use-service-account-credentials=true",
                f"--service-account-private-key-file={private}", f"--root-ca-file={self.ca}",
                f"--node-monitor-grace-period={self.grace}s", f"--node-monitor-period={self.monitor}s",
                f"--node-startup-grace-period={self.grace}s",
                # real clusters evict the pods of one node each 10 s, and none at all while too many nodes are
                # down; tests fail their nodes one after the other and cannot queue for that
                "--node-eviction-rate=100", "--secondary-node-eviction-rate=100", "--large-cluster-size-threshold=0",
                "--kube-api-qps=200", "--kube-api-burst=400", *self.controller_flags]

    def _scheduler(self):
        return [self.programs["kube-scheduler"], f"--kubeconfig={self.folder / 'scheduler.kubeconfig'}",
                "--leader-elect=false", "--secure-port=0",
                "--kube-api-qps=200", "--kube-api-burst=400"]
