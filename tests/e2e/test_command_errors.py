"""What is wrong with a command line, a kubeconfig, a cluster or a right: every command that asks a cluster leaves with the
exit code that its help promises, and names the next step. Nothing is ever written."""

import json
import re
import shutil
import subprocess

import pytest

from .engine import binary
from .kube import wait_for
from .policies import DELETES, PolicyMap, policy_text
from .tool import same_as_golden

NOTHING, FAILED, USAGE, CONFIG, POLICY, NOT_FOUND, WOULD_ACT, CAPTURE_USAGE = 0, 1, 2, 3, 4, 5, 10, 64
ID = "0123456789"
VERBS = ("plan", "explain", "status", "incidents", "incident", "fencer", "rehearse", "capture")
FORMS = {"plan": ("table", "wide", "json", "yaml"), "explain": ("text", "json", "yaml"), "status": ("table", "json", "yaml"),
         "incidents": ("table", "json", "yaml"), "incident": ("table", "json", "yaml"),
         "fencer": ("table", "json", "yaml"), "rehearse": ("",), "capture": ("",)}


def line(verb: str, folder, node: str = "n1", pod: str = "default/p", incident: str = ID) -> list:
    """A sound command line."""
    return {"plan": ["plan", node], "explain": ["explain", pod], "status": ["status"], "incidents": ["incidents"],
            "incident": ["incident", incident], "fencer": ["fencer", "check", node],
            "rehearse": ["fencer", "rehearse", node, "--yes", node], "capture": ["policy", "capture", node, "-o", str(folder / "captured")]}[verb]


def in_form(verb: str, form: str) -> list:
    return ["-o", form] if form else []


def run(*words, **more) -> subprocess.CompletedProcess:
    return subprocess.run([binary(), *map(str, words)], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more)


def kubeconfig(folder, server: str = "http://127.0.0.1:1", context: str = "here"):
    file = folder / "kubeconfig"
    file.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": context, "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}]}))
    return file


def refused(done, code: int, *said: str):
    """Nothing is printed that a program could take for an answer."""
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("moonfence: ") and "\x1b" not in done.stderr
    for text in said:
        assert text in done.stderr, done.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_kubeconfigs_that_are_of_no_use(verb, tmp_path):
    words = line(verb, tmp_path)
    refused(run(*words, "--kubeconfig", tmp_path / "none"), CONFIG, "no such file", "(check the path and who may read it)")
    broken = tmp_path / "broken"
    broken.write_text("apiVersion: v1\nclusters: [\n")
    refused(run(*words, "--kubeconfig", broken), CONFIG, "not YAML", "config view tells)")
    broken.write_text("")
    refused(run(*words, "--kubeconfig", broken), CONFIG, "has no current-context", "(give --context, or run kubectl config use-context NAME)")
    refused(run(*words, "--kubeconfig", kubeconfig(tmp_path), "--context", "there"), CONFIG,
            'has no context "there"; there are: here (give --context with one of these)')


@pytest.mark.parametrize("verb,form", [(verb, form) for verb in VERBS for form in FORMS[verb]])
def test_an_api_server_that_cannot_be_reached(verb, form, tmp_path):
    for server, said in (("http://127.0.0.1:1", "(is the API server running, and may this machine reach that address? In a pod a NetworkPolicy "),
                         (f"http://{'x' * 70}.invalid", "(check server and proxy-url in the kubeconfig, and this machine's DNS)")):
        done = run(*line(verb, tmp_path), *in_form(verb, form), "--kubeconfig", kubeconfig(tmp_path, server))
        if verb != "status":
            refused(done, FAILED, said)
        else:  # it shows what it could read, here nothing, and never says that something is not there
            told = done.stderr if form == "table" else done.stdout
            assert done.returncode == FAILED and told.count("cannot be read: ") == 4 and told.count(said) == 4, done
            if form == "table":
                assert re.findall(r"^([A-Z]+) +unknown(?:: could not be read)?$", done.stdout, re.M) == [
                    "LEADER", "MODE", "STATE", "POLICIES", "BRAKE", "NODES", "INCIDENTS"]
            elif form == "json":
                assert [json.loads(done.stdout)[key] for key in ("leader", "report", "nodes", "openIncidents")] == [None] * 4
    assert not (tmp_path / "captured").exists()


def test_command_lines_that_are_none(tmp_path):
    file = kubeconfig(tmp_path)
    for words, said in (
            ([], "A subcommand is required"), (["plans"], "there is no command 'plans'; there are run, policy, "),
            (["plan"], "NODE is required"), (["explain"], "POD is required"), (["incident"], "ID is required"),
            (["explain", "a", "b"], "POD"), (["fencer"], "A subcommand is required"),
            (["fencer", "rehearse"], "NODE is required"), (["fencer", "rehearse", "a", "--yes", "b"], "--yes: 'b' is not the node"),
            (["fencer", "check", "-o", "wide"], "not in {table,json,yaml}"), (["status", "x"], "x"), (["plan", "n1", "--mode", "hard"], "not in {off,observe,enforce}"),
            (["plan", "n1", "-o", "xml"], "xml not in {table,wide,json,yaml}"), (["status", "-o", "wide"], "not in {table,json,yaml}"),
            (["explain", "p", "-o", "table"], "not in {text,json,yaml}"), (["incidents", "-n", "A_B"], "is no namespace"),
            (["plan", "n1", "--policy", "x.lua"], "--policy-namespace is missing: name the one namespace"),
            (["plan", "n1", "--policy-namespace", "x"], "--policy is missing")):
        refused(run(*words, *(["--kubeconfig", file] if len(words) > 1 or words == ["status"] else [])), USAGE, said, "--help")
    refused(run("explain", "a/b", "-n", "c", "--kubeconfig", file), USAGE, "(give the namespace once)")
    refused(run("explain", "a/b/c", "--kubeconfig", file), USAGE, "cannot be part of an API path")
    refused(run("policy", "capture", "n1"), CAPTURE_USAGE, "--output is required", "--help")


@pytest.mark.parametrize("verb", ("plan", "explain", "capture"))
def test_files_that_are_of_no_use(verb, tool, make_nodes, workloads, tmp_path):
    (node,) = make_nodes(1)
    workloads.pod("web-0", node=node)
    words = line(verb, tmp_path, node, f"{tool.space}/web-0")

    def told(*more) -> subprocess.CompletedProcess:
        return tool.run(*words, "--engine-namespace", tool.space, *map(str, more))
    bad = tmp_path / "bad.lua"
    bad.write_text("return policy {")
    refused(told("--policy", bad, "--policy-namespace", "d"), POLICY, "bad.lua:1: ", "(mend the policy;")
    refused(told("--policy", tmp_path / "none.lua", "--policy-namespace", "d"), POLICY, "(check the path and who may read it)")
    settings = tmp_path / "config.yaml"
    settings.write_text("api: 1\nnope: 2\n")
    refused(told("--config", settings), CONFIG, "unknown key 'nope' (known keys: ")
    refused(told("--config", tmp_path / "none.yaml"), CONFIG, "(check the path and who may read it)")
    if verb == "capture":  # a file stands where the folder should be
        (tmp_path / "captured").write_text("")
        refused(told("--assume-down"), CONFIG, "captured")
    assert tool.writes() == []


@pytest.fixture
def policies(cluster, workloads):
    return PolicyMap(cluster.client, workloads.namespace)


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_without_any_object_of_the_engine(form, tool, make_nodes, workloads):
    """No Lease, no ConfigMap of any kind: nothing is wrong, and there is nothing to show."""
    (node,) = make_nodes(1)
    names = {node: "NODE", workloads.namespace: "SPACE"}

    def told(verb: str, code: int = NOTHING):
        words = line(verb, tool.folder, node) + in_form(verb, form)
        done = tool.run(*words, "--engine-namespace", tool.space)
        assert done.returncode == code, done
        return done
    status, incidents, plan, incident = told("status"), told("incidents"), told("plan"), told("incident", NOT_FOUND)
    assert incident.stdout == "" and "`moonfence incidents` lists them" in incident.stderr
    if form == "table":
        nodes = re.compile(r"^NODES .*\n(  .*\n)*", re.M)  # those of other tests
        same_as_golden(nodes.sub("NODES\n", status.stdout) + incidents.stderr + plan.stdout + plan.stderr, "nothing_there.txt", names)
        assert incidents.stdout == ""
    elif form == "json":
        assert json.loads(status.stdout)["leader"] is None and json.loads(status.stdout)["openIncidents"] == []
        assert json.loads(incidents.stdout)["items"] == []
        assert json.loads(plan.stdout)["acts"] is False
    else:
        assert "leader: null" in status.stdout and "items: []" in incidents.stdout and "acts: false" in plan.stdout
    assert tool.writes() == []


@pytest.mark.parametrize("form", ["table", "wide", "json", "yaml"])
def test_a_node_that_is_not_there(form, tool, make_nodes, workloads, policies):
    (node,) = make_nodes(1)
    policies.write(db=policy_text("db", DELETES))
    done = tool.run("plan", "no-such-node", node, "-o", form, "--engine-namespace", tool.space)
    assert done.returncode == NOT_FOUND and "no node no-such-node (kubectl get nodes shows their names)" in done.stderr
    assert node in done.stdout, "the other one is shown"
    refused(tool.run("policy", "capture", "no-such-node", "-o", tool.folder / "captured", "--engine-namespace", tool.space),
            NOT_FOUND, "(kubectl get nodes shows their names)")
    refused(tool.run("policy", "capture", node, "-o", tool.folder / "captured", "--engine-namespace", tool.space), NOT_FOUND,
            "(--assume-down captures it as if its machine died now)")
    assert tool.writes() == []


@pytest.mark.parametrize("form", ["text", "json", "yaml"])
def test_pods_that_there_is_nothing_to_say_about(form, tool, workloads, policies):
    policies.write(db=policy_text("db", DELETES))
    refused(tool.run("explain", "no-such-pod", "-n", tool.space, "-o", form), NOT_FOUND, "(name its namespace with -n; kubectl get pods -A shows all)")
    workloads.pod("lost", node="", labels={"app": "noobaa"})
    # no node takes it
    done = tool.run("explain", "lost", "-n", tool.space, "-o", form)
    assert done.returncode == NOTHING and "kubectl describe pod tells why" in done.stdout + done.stderr


def test_settings_of_the_cluster_that_are_broken(cluster, tool, make_nodes, workloads, policies):
    (node,) = make_nodes(1)
    policies.write(db=policy_text("db", DELETES))
    cluster.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": "api: 1\nnope: 1\n"}}, tool.space)
    refused(tool.run("plan", node, "--engine-namespace", tool.space), CONFIG, "moonfence-config:2: unknown key 'nope' (known keys: ")
    cluster.client.patch("configmaps", "moonfence-config", {"data": {"config.yaml": None, "other": "x"}}, tool.space)
    done = tool.run("plan", node, "--engine-namespace", tool.space)
    assert done.returncode == NOTHING and "has no config.yaml: the engine's defaults are supposed; --config names a file" in done.stderr
    policies.edit(moonfence_yaml="api: 1\nbindings: [")
    done = tool.run("plan", node, "--assume-down", "--engine-namespace", tool.space)
    assert done.returncode == NOTHING and "moonfence status shows them" in done.stdout, done


@pytest.fixture
def stranger(cluster, tool):
    """A user whom RBAC gives nothing, with a certificate of the cluster."""
    return cluster.control_plane.write_kubeconfig(f"stranger-{tool.space}", f"stranger-{tool.space}")


@pytest.mark.parametrize("verb", VERBS)
def test_who_may_read_nothing(verb, tool, stranger, make_nodes, workloads):
    (node,) = make_nodes(1)
    done = run(*line(verb, tool.folder, node, f"{tool.space}/web-0"), "--engine-namespace", tool.space, "--kubeconfig", stranger)
    assert done.returncode == FAILED, done
    assert "orbidden" in done.stderr and re.search(r"docs/reference.md( lists)?", done.stderr), done.stderr
    assert "within 15 s" not in done.stderr, "a refusal is no reason to wait"
    assert "nobody: there is no Lease" not in done.stdout


def test_credentials_that_the_api_server_does_not_know(cluster, tool):
    unknown = cluster.control_plane.token_kubeconfig(f"unknown-{tool.space}", "no-such-token")
    for verb in ("explain", "incidents"):
        refused(run(*line(verb, tool.folder), "--kubeconfig", unknown), FAILED, "log in again")


def test_who_may_read_only_a_part_sees_that(cluster, tool, stranger, make_nodes, workloads):
    make_nodes(1)
    user = f"stranger-{tool.space}"
    rights = f"part-{tool.space}"
    cluster.client.create("clusterroles", {"metadata": {"name": rights}, "rules": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]}]})
    cluster.client.create("clusterrolebindings", {
        "metadata": {"name": rights}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": rights},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}]})
    try:
        def status():
            return run("status", "-n", tool.space, "--kubeconfig", stranger)
        done = wait_for("the right is in force", lambda: (lambda d: d if " down\n" in d.stdout else None)(status()), 20)
        assert done.returncode == FAILED and re.search(r"^NODES +\d+ of \d+ down$", done.stdout, re.M)
        assert re.search(r"^LEADER +unknown: could not be read$", done.stdout, re.M), done.stdout
    finally:
        cluster.client.delete("clusterrolebindings", rights)
        cluster.client.delete("clusterroles", rights)


def test_the_daemon_is_a_program_beside_that_of_the_commands(tmp_path):
    """`moonfence run` becomes it, with the same words; alone it says what is missing, and has no other command."""
    shutil.copy(binary(), tmp_path / "moonfence")
    alone = subprocess.run([tmp_path / "moonfence", "run", "--kubeconfig", tmp_path / "none"], capture_output=True, text=True, timeout=60)
    refused(alone, FAILED, f"{tmp_path}/moonfenced: no such file", "(it is installed beside moonfence)")
    both = run("run", "--kubeconfig", tmp_path / "none")
    assert both.returncode == CONFIG and "kubeconfig: " in both.stderr and "no such file" in both.stderr
    daemon = binary().with_name("moonfenced")
    other = subprocess.run([daemon, "status"], capture_output=True, text=True, timeout=60)
    assert (other.returncode, other.stdout) == (2, "") and "every other command is one of moonfence" in other.stderr
