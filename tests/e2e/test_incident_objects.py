"""Incidents as FencingIncident objects (docs/incident-record.md) on a real control plane: what other tools see of one, and that nothing
waits for them where the kind or the right is missing."""

import json
import os
import subprocess

import pytest

from .engine import RULES
from .installation import DEPLOY, Installation, kubectl, objects, one, rights_of
from .kube import ApiError, wait_for

ON = {"incidentObjects": "on"}
FOLDER = DEPLOY / "rights" / "incidents"


def our_rules() -> list:
    """What the engine gets beside the rest: the shipped role."""
    return [*RULES, *one(rights_of("incidents"), "Role", "moonfence-incidents")["rules"]]


@pytest.fixture
def kind(cluster):
    """kind() installs it."""
    shipped = Installation(cluster)

    def install():
        shipped.apply(objects(FOLDER / "kinds.yaml"))
        path = "/apis/moonfence.io/v1alpha1/fencingincidents"
        wait_for("the kind is served", lambda: "items" in cluster.client.request("GET", path), 60)
    yield install
    shipped.remove_all()


@pytest.fixture
def told(cluster, workloads, tmp_path):
    """told("get fencingincidents"): what kubectl prints in the engine's namespace."""
    def run(command: str) -> str:
        env = {"PATH": os.environ["PATH"], "KUBECONFIG": str(cluster.control_plane.kubeconfig), "HOME": str(tmp_path)}
        done = subprocess.run([kubectl(), "-n", workloads.namespace, *command.split()], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def shown(told) -> list:
    return json.loads(told("get fencingincidents -o json"))["items"]


def restarted(engine):
    engine.stop()
    engine.start()


def note(engine) -> str:
    return next(line for line in engine.get("/readyz?verbose")[1].splitlines() if "incident-objects" in line)


def test_fi_01_an_incident_is_seen_by_kubectl_and_what_others_write_there_is_put_right(
        cluster, kind, told, victims_of, workloads, start_engine):
    victims = victims_of(1)
    engine = start_engine(config=ON, rules=our_rules())
    wait_for("it says that the kind is missing", lambda: "the kind FencingIncident is not installed" in note(engine), 20)
    assert engine.get("/readyz")[0] == 200
    kind()
    engine.account.allow(RULES)
    restarted(engine)
    wait_for("it says that the right is missing", lambda: "moonfence may not read FencingIncident objects" in note(engine), 20)
    engine.account.allow(our_rules())
    restarted(engine)
    victims.fail("silent")
    victims.wait_replaced()
    wait_for("it is shown", lambda: any("status" in each for each in shown(told)), 30)
    (each,) = shown(told)
    name = each["metadata"]["name"]
    (owner,) = each["metadata"]["ownerReferences"]
    record = cluster.client.get("configmaps", name, workloads.namespace)
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ConfigMap", name, record["metadata"]["uid"])
    assert each["status"]["node"] == {"name": victims.node, "uid": cluster.client.get("nodes", victims.node)["metadata"]["uid"]}
    head, line = told("get fencingincidents").splitlines()
    assert head.split() == ["NAME", "NODE", "PHASE", "REASON", "DELETED", "WAITING", "NOTDELETED", "OPENED"]
    assert line.split()[:2] == [name, victims.node]
    cluster.hollow.heal(victims.node)
    told(f"wait --for=condition=Settled fencingincident/{name} --timeout=120s")
    (over,) = shown(told)
    assert (over["status"]["phase"], over["status"]["reason"]) == ("Closed", "node_ready")
    assert over["status"]["pods"]["deleted"] == 1
    assert {c["type"]: c["status"] for c in over["status"]["conditions"]} == {"Settled": "True", "Reconciling": "False", "Stalled": "False"}
    assert note(engine).endswith(" ok")
    # What somebody else writes there is believed by nobody, and the next leader puts it right.
    told(f"patch fencingincident {name} --subresource=status --type=merge -p {json.dumps({'status': {'phase': 'x', 'pods': {'deleted': 7}}}, separators=(',', ':'))}")
    restarted(engine)
    wait_for("it is right again", lambda: shown(told)[0]["status"] == over["status"], 30)


@pytest.mark.slow  # the garbage collector looks for new kinds twice a minute
def test_fi_01_the_object_goes_with_its_record_and_one_of_somebody_else_is_left_alone(
        cluster, kind, told, victims_of, workloads, start_engine):
    kind()
    victims = victims_of(1)
    engine = start_engine(config=ON, rules=our_rules())
    victims.fail("silent")
    victims.wait_replaced()
    wait_for("it is over", lambda: [c for each in shown(told) for c in each.get("status", {}).get("conditions", [])
                                    if c["type"] == "Settled" and c["status"] == "True"], 120)
    (name,) = [each["metadata"]["name"] for each in shown(told)]
    engine.stop()
    told(f"delete fencingincident {name}")
    theirs = cluster.client.request(
        "POST", f"/apis/moonfence.io/v1alpha1/namespaces/{workloads.namespace}/fencingincidents",
        {"apiVersion": "moonfence.io/v1alpha1", "kind": "FencingIncident", "metadata": {"name": name}})
    engine.start()
    wait_for("it is told", lambda: "is left alone" in note(engine), 30)
    assert shown(told) == [theirs]
    told(f"delete fencingincident {name}")
    engine.stop()
    engine.start()
    wait_for("it is shown again", lambda: any("status" in each for each in shown(told)), 30)
    engine.stop()
    told(f"delete configmap {name}")
    wait_for("it is gone with its record", lambda: shown(told) == [], 120)
    with pytest.raises(ApiError):
        cluster.client.get("configmaps", name, workloads.namespace)
