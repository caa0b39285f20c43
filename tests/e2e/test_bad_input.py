"""Whatever it is given that cannot be used: one message with a next step, and the exit code of the documentation.
What may still be mended is waited for."""

import os
import re
import socket
import subprocess

import pytest

from .certs import Authority, write_kubeconfig
from .engine import NOOBAA, RULES, Account, binary
from .faults import Doorbell, deletions, holds, metric
from .jwt import expired_token
from .kube import ApiError, wait_for
from .processes import free_port
from .secrecy import check_untold

USAGE, CONFIG, POLICY = 2, 3, 4
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: test, user: {token: never-to-be-shown}}]
contexts: [{name: test, context: {cluster: test, user: test}}]
current-context: test
"""
GOOD = NOOBAA.read_text()


def line_of(text: str) -> int:
    """Its line in the good policy."""
    return GOOD[:GOOD.index(text)].count("\n") + 1


@pytest.fixture
def run(tmp_path):
    """run(*words, policy=…, …) starts an engine that cannot start -> (exit code, standard error)."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)

    def make(*words, **flags):
        wanted = {"policy": NOOBAA, "policy-namespace": "noobaa", "kubeconfig": "kubeconfig",
                  "metrics-bind-address": "0", "health-probe-bind-address": "0",
                  "status-bind-address": "0", **flags}
        command = [str(binary()), "run", *words]
        for flag, value in wanted.items():
            command += [] if value is None else [f"--{flag}", str(value)]
        env = {k: v for k, v in os.environ.items() if not k.startswith("KUBE")} | {"HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120,
                              errors="replace", stdin=subprocess.DEVNULL)
        assert done.stdout == "" and "never-to-be-shown" not in done.stderr
        return done.returncode, done.stderr
    return make


def tell(said: tuple, code: int, *words):
    """One message, in one line (a wrong command line adds where help is), that has all these words."""
    left, text = said
    lines = text.rstrip("\n").split("\n")
    assert left == code, text
    assert lines[0].startswith("moonfence") and len(lines) == (2 if code == USAGE else 1), text
    hint = "--help" in lines[-1] if code == USAGE else re.search(r"\(.* .* .*\)$", lines[0])
    assert hint, f"no next step: {text}"
    assert "".join(lines).isprintable(), repr(text)
    for word in words:
        assert word in text, f"{word}: {text}"


# --- the command line

@pytest.mark.parametrize("words,flags,said", [
    (["--bogus"], {}, ["--bogus"]),
    ([], {"policy": None}, ["--policy", "missing"]),
    ([], {"policy-namespace": None}, ["--policy-namespace", "missing"]),
    ([], {"policy-namespace": "Noo Baa"}, ["--policy-namespace", "Noo Baa"]),
    ([], {"namespace": "moon/fence"}, ["--namespace", "moon/fence"]),
    ([], {"mode": "destroy"}, ["--mode", "destroy", "enforce", "observe", "off"]),
    ([], {"log-level": "loud"}, ["--log-level", "loud", "debug"])])
def test_a_wrong_command_line_ends_with_2(run, words, flags, said):
    tell(run(*words, **flags), USAGE, *said)


# --- kubeconfig

@pytest.mark.parametrize("content,said", [
    (None, ["no such file"]),
    (b"", ["current-context"]),
    (b"\x7fELF\x02\x01\xff\xfe" * 99, []),
    (b"clusters: [1\nusers: }", ["line 2", "YAML"]),
    (b"just words", []),
    (KUBECONFIG.replace("current-context: test", "current-context: other").encode(), ["other", "test"]),
    (KUBECONFIG.replace("https://127.0.0.1:1", "127.0.0.1:x").encode(), ["127.0.0.1:x"])],
    ids=["missing", "empty", "binary", "malformed", "words", "context", "server"])
def test_a_kubeconfig_that_cannot_be_used_ends_with_3(run, tmp_path, content, said):
    if content is not None:
        (tmp_path / "bad").write_bytes(content)
    tell(run(kubeconfig="bad"), CONFIG, "bad", *said)


def test_an_unknown_context_ends_with_3(run):
    tell(run(context="nope"), CONFIG, "nope", "test", "--context")


@pytest.mark.parametrize("flag,code", [("kubeconfig", CONFIG), ("policy", POLICY), ("config", CONFIG),
                                       ("audit-log", CONFIG)])
def test_what_is_no_plain_file_is_not_read(run, tmp_path, flag, code):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    for name in ("folder", "fifo", "folder/missing/file"):
        tell(run(**{flag: name}), code, name)


def test_no_way_to_a_cluster_ends_with_3(run):
    tell(run(kubeconfig=None), CONFIG, "--kubeconfig")


# --- policy, configuration, addresses

HEAD = f"bad.lua:{line_of('return policy {')}"


@pytest.mark.parametrize("source,said", [
    (GOOD.replace("(pod, s, _, node)", "(pod, s, _, node"), [f"bad.lua:{line_of('if pod.name:starts_with(database_prefix) then')}"]),
    ("local a = nil\nlocal b = a.field\nreturn policy {}\n", ["bad.lua:2", "nil"]),
    ("error('\\27[31mno\\nno')", ["bad.lua:1"]),
    (GOOD.replace("summary =", "sumary ="), [HEAD, "sumary", "summary"]),
    (GOOD.replace('name = "noobaa"', 'name = "Noo Baa"'), [HEAD, "Noo Baa"]),
    (GOOD.replace("api = 1", "api = 2"), [HEAD, "api"]),
    ("while true do end", ["bad.lua"]),
    ("", ["bad.lua", "return policy"]),
    ("\x7fELF\x02\x01\x01" * 99, ["bad.lua:1"]),
    ("\x1bLua\x54\x00", ["bad.lua"])],
    ids=["syntax", "runtime", "error", "key", "name", "api", "endless", "empty", "binary", "bytecode"])
def test_a_policy_that_cannot_be_loaded_ends_with_4(run, tmp_path, source, said):
    (tmp_path / "bad.lua").write_text(source)
    tell(run(policy="bad.lua"), POLICY, *said)


@pytest.mark.parametrize("text,said", [
    ("api: 1\ncachExpiry: 1h\n", ["bad.yaml:2", "cachExpiry", "cacheExpiry"]),
    ("api: 1\ncacheExpiry: 1 hour\n", ["bad.yaml:2", "cacheExpiry", "1 hour"]),
    ("api: 1\nretryInterval: -5s\n", ["bad.yaml", "retryInterval"]),
    ("api: 1\nretryInterval: 30s\n", ["bad.yaml", "retryWindow", "25s", "30s"]),
    ("api: 1\ncacheExpiry: 5s\n", ["bad.yaml", "cacheExpiry", "retryWindow"]),
    ("api: 7\n", ["bad.yaml:1", "api"]),
    ("cacheExpiry: 1h\n", ["bad.yaml", "api"]),
    ("api: [\n", ["bad.yaml", "YAML"]),
    ("- api\n", ["bad.yaml"]),
    ("\x00\x01\x02", ["bad.yaml"])],
    ids=["key", "unit", "negative", "window", "expiry", "api", "no-api", "malformed", "list", "binary"])
def test_a_configuration_that_cannot_be_used_ends_with_3(run, tmp_path, text, said):
    (tmp_path / "bad.yaml").write_text(text)
    tell(run(config="bad.yaml"), CONFIG, *said)


@pytest.mark.parametrize("flag", ["metrics-bind-address", "health-probe-bind-address", "status-bind-address"])
@pytest.mark.parametrize("address", ["nonsense", "127.0.0.1:99999", "127.0.0.1:", "256.0.0.1:80", "192.0.2.1:8080"])
def test_an_address_that_is_not_ours_ends_with_3(run, flag, address):
    tell(run(**{flag: address}), CONFIG, f"--{flag}", address.rpartition(":")[0])


@pytest.mark.parametrize("flag", ["metrics-bind-address", "health-probe-bind-address", "status-bind-address"])
def test_an_address_in_use_ends_with_3(run, flag):
    with socket.create_server(("127.0.0.1", 0)) as holder:
        address = f"127.0.0.1:{holder.getsockname()[1]}"
        tell(run(**{flag: address}), CONFIG, f"--{flag}", address)


# --- what may be mended while it runs

def unready(engine, *words, check: str = "nodes-synced"):
    """It runs, is not ready, and says why where operators look: /readyz and its log."""
    def says():
        code, text = engine.get("/readyz?verbose")
        return (code == 500 and f"[-]{check} failed" in text
                and all(word in text and word in engine.log() for word in words))
    wait_for(f"{engine.name} is not ready because of {words}", says, 30, 0.05)
    assert engine.alive() and engine.get("/healthz")[0] == 200


def attempts(engine) -> float:
    """Of what fails; what succeeds beside it, such as a heartbeat, backs off from nothing."""
    return (metric(engine, "rest_client_requests_total", method="GET")
            - metric(engine, "rest_client_requests_total", method="GET", code="200"))


def backs_off(engine):
    """In six seconds: attempts after 0.8, 2.4 and 5.6 s at the soonest, and a heartbeat or two."""
    before = attempts(engine)
    holds(6, lambda: engine.alive() and engine.get("/readyz")[0] == 500)
    assert attempts(engine) - before <= 8


@pytest.fixture
def account(cluster, start_engine):
    """The account of the engine that is started next."""
    made = start_engine.accounts["moonfence"] = Account(cluster, start_engine.namespace, "moonfence").create()
    return made


@pytest.fixture
def token_file(cluster, tmp_path):
    """token_file(token, server) -> (file, kubeconfig that names it)."""
    def make(token: str, server: str = ""):
        file = tmp_path / "token"
        file.write_text(token)
        plane = cluster.control_plane
        return file, write_kubeconfig(tmp_path / "token.kubeconfig", server or plane.server, plane.ca,
                                      token_file=str(file))
    return make


def test_a_closed_port_is_waited_for(start_engine, proxy):
    proxy.stop_accepting()
    engine = start_engine(ready=False, server=proxy.server)
    unready(engine, f"127.0.0.1:{proxy.port}", "refused")
    backs_off(engine)
    proxy.accept_again()
    engine.wait_ready()


def test_something_that_speaks_no_tls_is_asked_seldom(start_engine):
    with Doorbell(free_port()) as door:
        engine = start_engine(ready=False, server=f"https://127.0.0.1:{door.port}")
        unready(engine, "TLS")
        backs_off(engine)
        # of its first ten seconds only: how long the engine took to say so depends on the machine
        assert 0 < door.within(10) <= 20


def test_a_server_with_a_foreign_certificate_is_not_trusted(start_engine, proxy, tmp_path):
    own = proxy.show_certificate(*Authority(tmp_path / "foreign").server("proxy"))
    engine = start_engine(ready=False, server=proxy.server)
    unready(engine, "certificate")
    backs_off(engine)
    assert not proxy.exchanges, "nothing may be sent, least of all the token"
    proxy.show_certificate(*own)
    engine.wait_ready()


@pytest.mark.parametrize("kind", ["garbage", "expired"])
def test_a_token_that_is_not_taken_is_read_again(cluster, account, start_engine, token_file, kind):
    namespace = account.namespace
    bad = "not-a-token-at-all" if kind == "garbage" else expired_token(
        cluster.control_plane.authority, namespace, cluster.client.get("serviceaccounts", account.name, namespace))
    file, kubeconfig = token_file(bad)
    engine = start_engine(ready=False, kubeconfig=kubeconfig)
    unready(engine, "401", "token")
    backs_off(engine)
    file.write_text(account.token())
    engine.wait_ready()
    check_untold([engine], (bad,))


def test_a_revoked_token_is_replaced_under_a_live_watch(cluster, account, start_engine, token_file, proxy, victims_of):
    """The account is deleted and made again; the open watch does not notice, the next request does."""
    victims = victims_of(2)
    first = account.token()
    file, kubeconfig = token_file(first, proxy.server)
    engine = start_engine(kubeconfig=kubeconfig, witnessed=False)
    cluster.client.delete("serviceaccounts", account.name, account.namespace)
    old = cluster.control_plane.token_client(first)

    def refused():
        try:
            old.list("nodes")
        except ApiError as error:
            return error.status == 401
        return False
    wait_for("the API server takes the token no more", refused, 20)
    proxy.close_watches(path="/nodes")
    unready(engine, "401", check="nodes-watch")
    cluster.client.create("serviceaccounts", {"metadata": {"name": account.name}}, account.namespace)
    second = account.token()
    file.write_text(second)
    engine.wait_ready()
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 2}
    used = {e.headers["authorization"] for e in proxy.find("DELETE")}
    assert used == {f"Bearer {second}"}
    check_untold([engine], (first, second))


def test_without_the_right_to_list_nodes_it_says_so_and_waits(start_engine, victims_of):
    victims = victims_of(1)
    engine = start_engine(ready=False, rules=RULES[1:])
    unready(engine, "403", "list", "nodes")
    backs_off(engine)
    engine.account.allow(RULES)
    engine.wait_ready()
    victims.fail()
    victims.wait_replaced()
    assert deletions(victims, engine) == {200: 1}


def test_without_the_right_to_delete_pods_it_says_so_and_tries_again(start_engine, victims_of):
    victims = victims_of(2)
    few = (RULES[0], {**RULES[1], "verbs": ["list"]}, *RULES[2:])
    engine = start_engine(rules=few, config={"retryInterval": "1s"})
    victims.fail()
    wait_for("both were refused twice", lambda: deletions(victims, engine)[403] >= 4, 20)
    outcomes = [line for line in engine.log().splitlines() if "outcome" in line and "403" in line]
    assert outcomes and all("delete" in line and "pods" in line for line in outcomes)
    assert engine.alive() and engine.get("/readyz")[0] == 200
    engine.account.allow(RULES)
    victims.wait_replaced(25)
    found = deletions(victims, engine)
    assert found[200] == 2 and set(found) == {200, 403}
    assert found[403] <= 2 * 25
