"""Runs the engine under test, `moonfence run`, as its own ServiceAccount with no more rights than it needs.

    def test_example(cluster, nodes, workloads, start_engine):       # the fixture is in conftest.py
        engine = start_engine(mode="enforce", config={"cacheExpiry": "1h"})
        ...
        assert [d.name for d in engine.deletes()] == ["web-0"]      # by the API server's audit log
        assert engine.incidents("node-1") == 1                      # its down evaluations of that node
        assert engine.passes("node-1") == 1                         # its pod lists for it, looks after a deletion too

start_engine(**arguments) makes an Engine, starts it and waits for /readyz. Arguments, all optional:

    policy      Lua file                  default policies/noobaa/policy.lua; None: the policies are in the
                ConfigMap moonfence-policies of the fixture `workloads`' namespace (policies.py)
    namespace   --policy-namespace        default the namespace of the fixture `workloads`
    spaces      where it may delete       default that namespace alone
    mode        --mode                    default enforce; None: not given
    config      dict for --config         default: the engine's own, but for the brake (UNBRAKED); or the whole text
    server      API server to talk to     default the real one; give proxy.server for a scripted one
    kubeconfig  file                      default one with a token of the account (Engine.account)
    elect       --leader-elect            default False: most tests restart engines, and would wait for the Lease
                to run out; None: not given
    rules       rights of the account     default RULES, the table of docs/reference.md
    flags       more words for the command line
    env         more environment variables
    status      False: no status page
    retires     True: a binding lets it put nodes out of service, so it may patch nodes
    ready       False: do not wait for /readyz
    made_by     the class: Replica runs the image as the shipped Deployment says (replica.py)
    witnessed   False: the nodes' states at the deletions are not looked up at the end of the test; for tests
                that restart the API server or last longer than a minute, whose events it forgets (witness.py)

Engine: start() again after it ended; stop() SIGTERM, must exit with 0; kill9(); wait_exit(code) when it
ends by itself; wait_ready(); get(path) from the health server, metrics() text, status_port; pid; alive(); log(),
records() its own audit records (for reports, not for assertions); user, its name in audit logs;
audit() the audit log since it was made; requests(), deletes(), lists(node), passes(node): what it did, by
the API server's audit log. Engine.check() runs at the end of every test: nothing but DELETEs of pods of its
namespace with grace period 0 and a UID precondition, none unless the mode is enforce, none while the node
was Ready or not tainted.

At the end of a test every engine is ended by pid and must have left as expected: exit code 0, no report
of a sanitizer in its log. Its log is printed, which pytest shows when the test failed. The binary is
MOONFENCE_BINARY, by default build/release/moonfence; one with sanitizers will do.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Optional
from urllib.parse import parse_qs, urlsplit

from .audit import AuditLog, that_did_it
from .control_plane import REPO
from .growing_file import whole_lines
from .kube import ApiError, wait_for
from .processes import free_port
from .witness import Witness

NOOBAA = REPO / "policies" / "noobaa" / "policy.lua"
# Tests have clusters of one to three nodes, in which one that fails is half of them or more, and a benchmark fails
# many nodes one after another. What the brake does has tests of its own.
UNBRAKED = "{maxDown: off, maxPerWindow: off}"
START_LIMIT = 150  # a bound, not a wait; with sanitizers and other work on the machine it is slow
STOP_LIMIT = 30
SANITIZER = re.compile(r"ERROR: \w+Sanitizer|SUMMARY: \w+Sanitizer|: runtime error: |WARNING: ThreadSanitizer")

# what docs/reference.md grants, and nothing else
RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "delete"]},
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
)


# what it needs beside them for policies that look at volumes, owners and siblings, and delete attachments
STORAGE_RULES = (
    {"apiGroups": [""], "resources": ["persistentvolumeclaims", "persistentvolumes"], "verbs": ["get", "list"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["get", "list", "delete"]},
    {"apiGroups": ["apps"], "resources": ["replicasets", "statefulsets"], "verbs": ["get"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
)


# what it needs beside them to release volumes; of Leases only that of kube-controller-manager
RELEASE_RULES = (
    {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]},
)

# what it needs beside them to taint nodes itself and to take its taint off again
QUARANTINE_RULES = (
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["list"]},
    {"apiGroups": [""], "resources": ["persistentvolumes"], "verbs": ["get"]},
)


# what it needs beside them to take it off a node that was not booted again
KUBELET_RULES = ({"apiGroups": [""], "resources": ["nodes/proxy"], "verbs": ["get"]},)


# what the engine needs beside them in its own namespace
POLICY_RULES = (
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
)

# where kubelets keep their Leases
NODE_LEASES = "kube-node-lease"
NODE_LEASE_RULES = ({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list"]},)


def binary() -> Path:
    path = Path(os.environ.get("MOONFENCE_BINARY") or REPO / "build" / "release" / "moonfence")
    if not path.is_file():
        raise RuntimeError(f"{path} does not exist: build it, or set MOONFENCE_BINARY")
    return path.absolute()


@dataclass
class Account:
    """A ServiceAccount and its ClusterRole, both of the same name."""

    cluster: object
    namespace: str
    name: str

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def role(self) -> str:
        return f"{self.namespace}-{self.name}"

    def create(self, rules=RULES) -> "Account":
        client = self.cluster.client
        client.create("serviceaccounts", {"metadata": {"name": self.name}}, self.namespace)
        self.grant(self.name, POLICY_RULES, self.namespace)
        self.grant(self.role, NODE_LEASE_RULES, NODE_LEASES)
        client.create("clusterroles", {"metadata": {"name": self.role}, "rules": list(rules)})
        client.create("clusterrolebindings", {
            "metadata": {"name": self.role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": self.role},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}]})
        self._wait_rights(self.token(), NODE_LEASE_RULES[0], NODE_LEASES)
        if rules:
            self._wait_rights(self.token(), rules[0])
        return self

    def grant(self, name: str, rules, namespace: str):
        client = self.cluster.client
        client.create("roles", {"metadata": {"name": name}, "rules": list(rules)}, namespace)
        client.create("rolebindings", {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}]}, namespace)

    def _wait_rights(self, token: str, rule: dict, namespace: str = ""):
        # the API server's authorizer learns of a role by a watch
        review = {"spec": {"resourceAttributes": {
            "group": rule["apiGroups"][0], "resource": rule["resources"][0], "verb": rule["verbs"][0],
            "namespace": namespace}}}
        someone = self.cluster.control_plane.token_client(token)
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        wait_for(f"{self.user} has its rights", lambda: someone.request("POST", path, review)["status"]["allowed"], 30,
                 0.02)

    def allow(self, rules):
        """Gives it other rights, from now on."""
        self.cluster.client.patch("clusterroles", self.role, {"rules": list(rules)})

    def token(self, seconds: int = 3600) -> str:
        return self.cluster.client.token(self.name, self.namespace, seconds)

    def remove(self):
        for kind in ("clusterrolebindings", "clusterroles"):
            self.cluster.client.delete(kind, self.role, missing_ok=True)
        for kind in ("rolebindings", "roles"):
            self.cluster.client.delete(kind, self.role, NODE_LEASES, missing_ok=True)


class Engine:
    def __init__(self, cluster, folder: Path, account: Account, namespace: str, number: int = 1,
                 policy: Optional[Path] = NOOBAA, mode: Optional[str] = "enforce", config: dict | str | None = None, server: str = "", kubeconfig=None,
                 flags: tuple = (), env: Optional[dict] = None, witnessed: bool = True, elect: Optional[bool] = False,
                 spaces: Optional[tuple] = None, status: bool = True, retires: bool = False):
        self.cluster, self.folder, self.account, self.namespace = cluster, Path(folder), account, namespace
        self.name = f"engine-{number}"
        self.policy, self.mode, self.flags, self.env = policy, mode, tuple(flags), env or {}
        self.elect, self.spaces, self.status = elect, spaces or (namespace,), status
        self.kubeconfig = kubeconfig or cluster.control_plane.token_kubeconfig(
            f"{account.namespace}-{account.name}-{number}", account.token(), server=server)
        self.token_file: Optional[Path] = None  # mounted
        self.config = self.folder / f"{self.name}.yaml"
        if not isinstance(config, str):
            config = "".join(f"{k}: {v}\n" for k, v in {"api": 1, "brake": UNBRAKED, **(config or {})}.items())
        self.config.write_text(config)
        # which parts of a node it may patch
        self.node_parts = {part for part, setting in (("", r"^quarantine: (missing|always)$"), ("status", r"^(release|publishEvidence): on$"))
                           if re.search(setting, config, re.M)} | ({""} if retires else set())
        self.fails_pods = bool(re.search(r"^failPods: on$", config, re.M))
        self.health_port, self.metrics_port, self.status_port = free_port(), free_port(), free_port()
        self.log_file = self.folder / f"{self.name}.log"
        self.record_file = self.folder / f"{self.name}.audit.jsonl"
        self.witness = Witness(cluster.client, namespace) if witnessed else None
        self._audit = cluster.audit()
        self._process: Optional[subprocess.Popen] = None
        self._faults: list = []

    # --- life

    def command(self) -> list:
        words = [binary(), "run", "--kubeconfig", self.kubeconfig, "--namespace", self.account.namespace,
                 "--metrics-bind-address", f"127.0.0.1:{self.metrics_port}",
                 "--health-probe-bind-address", f"127.0.0.1:{self.health_port}",
                 "--status-bind-address", f"127.0.0.1:{self.status_port}" if self.status else "0",
                 "--audit-log", self.record_file, "--log-level", "debug"]
        words += ["--policy", self.policy, "--policy-namespace", self.namespace, "--hold-down", "0s"] if self.policy else []
        words += ["--mode", self.mode] if self.mode else []
        words += [f"--leader-elect={str(self.elect).lower()}"] if self.elect is not None else []
        words += ["--config", self.config]
        return [str(word) for word in (*words, *self.flags)]

    def start(self, ready: bool = True) -> "Engine":
        if self.alive():
            raise RuntimeError(f"{self.name} runs already")
        self._process = self.launch()
        return self.wait_ready() if ready else self

    def launch(self) -> subprocess.Popen:
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy") and k != "KUBECONFIG"}
        env.update({"POD_NAME": self.name, **self.env})
        # a test run that is killed outright still leaves nothing behind
        setpriv = shutil.which("setpriv") or "setpriv"
        with open(self.log_file, "ab") as log:
            return subprocess.Popen([setpriv, "--pdeathsig", "KILL", *self.command()], stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL, start_new_session=True, env=env)

    def wait_ready(self, seconds: float = START_LIMIT) -> "Engine":
        def ready():
            if not self.alive():
                raise RuntimeError(f"{self.name} ended with {self._process.poll()}:\n{self.log()[-4000:]}")
            return self.get("/readyz")[0] == 200
        wait_for(f"{self.name} is ready", ready, seconds, 0.02)
        return self

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill9(self):
        """As a power cut would; the next start() is a restart. It must have run until now."""
        if not self.alive():
            self._faults.append(f"ended by itself with {self._process.poll()}")
        self._process.kill()
        self._process.wait()
        self._process = None

    def stop(self, code: int = 0) -> float:
        """SIGTERM; it must leave with `code`. How long that took, in seconds."""
        began = time.monotonic()
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
        self.wait_exit(code, STOP_LIMIT)
        return time.monotonic() - began

    def wait_exit(self, code: int, seconds: float = STOP_LIMIT):
        """Waits until it has ended, which must be with `code`."""
        process, self._process = self._process, None
        try:
            left = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"{self.name} did not end within {seconds} s") from None
        assert left == code, f"{self.name} left with {left}, not {code}:\n{self.log()[-4000:]}"

    def end(self):
        """The end of a test: ends it whatever happened, then complains about what should not have."""
        try:
            if self._process is not None:
                if not self.alive():
                    self._faults.append(f"ended by itself with {self._process.poll()}")
                    self._process = None
                else:
                    try:
                        self.stop()
                    except AssertionError as fault:
                        self._faults.append(str(fault))
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
        report = SANITIZER.search(self.log())
        if report:
            self._faults.append(f"a sanitizer spoke: {self.log()[report.start():][:4000]}")
        assert not self._faults, f"{self.name}: {self._faults}"

    # --- what it says of itself

    def get(self, path: str, port: Optional[int] = None, host: str = "127.0.0.1") -> tuple:
        """(status, text) from its health server."""
        try:
            with urllib.request.urlopen(f"http://{host}:{port or self.health_port}{path}", timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metrics(self) -> str:
        return self.get("/metrics", self.metrics_port)[1]

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def records(self) -> list:
        # an engine that was killed may have left half a line, which its successor ended
        return [json.loads(line) for line in whole_lines(self.record_file) if line.endswith("}")]

    # --- what the API server says of it

    @property
    def user(self) -> str:
        return self.account.user

    def audit(self) -> AuditLog:
        """The API server's audit log since this engine was made."""
        return self._audit

    def requests(self, **filters) -> list:
        """Its requests in the audit log, filtered as in AuditLog.find()."""
        return self._audit.find(by=re.escape(self.user) + "$", **filters)

    def deletes(self, **filters) -> list:
        return self.requests(verb="delete,deletecollection", **filters)

    def done(self, resource: str) -> int:
        """How many of its deletions of `resource` took effect; the object that one was about is gone."""
        asked = self.deletes(resource=resource)

        def is_gone(entry) -> bool:
            found = self.cluster.client.find(resource, entry.name, entry.namespace)
            return not found or found["metadata"]["uid"] != entry.uid_precondition
        by_uid = {e.uid_precondition: [each for each in asked if each.uid_precondition == e.uid_precondition] for e in asked}
        return sum(len(that_did_it(each, is_gone(each[0]))) for each in by_uid.values())

    def fenced(self) -> list:
        """Its deletions, but of its own records: one that was written ahead and is not needed goes again."""
        return [entry for entry in self.deletes() if entry.resource != "configmaps"]

    def lists(self, node: str) -> list:
        """Its pod lists for a node: one an evaluation of the node."""
        def of(entry):
            return parse_qs(urlsplit(entry.uri).query).get("fieldSelector") == [f"spec.nodeName={node}"]
        return [entry for entry in self.requests(verb="list", resource="pods") if of(entry)]

    def incidents(self, node: str) -> int:
        return len([r for r in self.records() if r["kind"] == "incident_opened" and r["node"] == node])

    def passes(self, node: str) -> int:
        return len(self.lists(node))

    def check(self):
        """What holds for everything that it ever does, whatever the test is about."""
        for entry in self.requests(verb="create,update,patch,delete,deletecollection"):
            own = entry.resource == "configmaps" and entry.namespace == self.account.namespace
            if own and not self.policy and entry.name in ("moonfence-status", "moonfence-lastgood"):
                assert entry.verb in ("create", "patch"), entry
            elif own and (entry.name or "").startswith("moonfence-incident-"):
                assert entry.verb in ("create", "patch", "delete"), entry
            elif own and not entry.name:
                assert entry.verb == "create", entry
            elif entry.resource == "leases":
                assert self.elect is not False and entry.verb in ("create", "update"), entry
            elif entry.resource == "volumeattachments":
                assert entry.verb == "delete" and (entry.uid_precondition or entry.status in (401, 403)), entry
            elif entry.resource in ("tokenreviews", "subjectaccessreviews"):
                assert entry.verb == "create" and "--secure-serving" in self.flags, entry
            elif entry.resource == "selfsubjectaccessreviews":
                assert entry.verb == "create", entry
            elif entry.resource == "moonfenceremediations":
                assert (entry.verb, entry.subresource) == ("patch", "status"), entry
            elif entry.resource == "fencingincidents":
                assert (entry.verb, entry.subresource) in (("create", ""), ("patch", "status")), entry
                assert entry.namespace == self.account.namespace, entry
            elif entry.resource == "networkfences":
                assert (entry.verb, entry.subresource) == ("create", ""), entry
            elif entry.resource == "baremetalhosts":
                assert (entry.verb, entry.subresource) == ("patch", ""), entry
            elif entry.resource == "nodes":
                assert entry.verb == "patch" and entry.subresource in self.node_parts, entry
            elif entry.resource == "pods" and entry.verb == "patch":
                assert entry.subresource == "status" and self.fails_pods and self.mode in ("enforce", None), entry
                assert entry.namespace in self.spaces, entry
            elif entry.resource != "events":
                assert (entry.verb, entry.resource, entry.subresource) == ("delete", "pods", ""), entry
        for entry in self.deletes(resource="pods"):
            assert self.mode in ("enforce", None), f"deleted in mode {self.mode}: {entry}"
            assert entry.namespace in self.spaces, entry
            if entry.status in (401, 403):
                continue  # refused before its body was read, so there is none in the log
            assert entry.grace == 0, f"deleted without grace period 0: {entry}"
            assert entry.uid_precondition, f"deleted without precondition: {entry}"
        if self.mode == "off":
            assert not self.requests(resource="pods")
        if self.witness:
            self.witness.check([e.uid_precondition for e in self.deletes(resource="pods") if e.status == 200])


class Engines:
    """The engines of one test."""

    def __init__(self, cluster, folder: Path, namespace: str):
        self.cluster, self.folder, self.namespace = cluster, folder, namespace
        self.accounts: dict = {}
        self.made: list = []

    def __call__(self, ready: bool = True, rules=RULES, account: str = "moonfence", made_by: type = Engine,
                 **arguments) -> Engine:
        if account not in self.accounts:
            self.accounts[account] = Account(self.cluster, self.namespace, account).create(rules)
        arguments.setdefault("namespace", self.namespace)
        engine = made_by(self.cluster, self.folder, self.accounts[account], number=len(self.made) + 1, **arguments)
        self.made.append(engine)
        return engine.start(ready)

    def end(self):
        faults = []
        for engine in self.made:
            for step in (engine.end, engine.check):
                try:
                    step()
                except (AssertionError, ApiError, OSError, TimeoutError) as fault:
                    faults.append(fault)
            print(f"--- log of {engine.name}\n{engine.log()[-20000:]}")
            print(f"--- records of {engine.name}", *map(json.dumps, engine.records()[-60:]), sep="\n")
        for account in self.accounts.values():
            account.remove()
        if faults:
            raise faults[0]
