"""The shipped policy storageos on a real control plane: its health source and what it fetches, over real HTTP
from a stand-in of the storage system's REST API (storage_api.py). Kubernetes calls every node Ready throughout.
"""

import pytest

from .control_plane import REPO
from .engine import RULES, STORAGE_RULES
from .faults import holds
from .kube import wait_for
from .policies import PolicyMap
from .storage_api import StorageApi

POLL = 5  # the policy's own


@pytest.fixture
def storage(cluster, workloads, make_nodes, start_engine, tmp_path):
    """storage(...) -> (engine, api, node): a labelled StatefulSet pod with a healthy volume on `node`, which takes no
    replacement, and two other nodes."""
    served = []

    def make(lifetime: int = 300, bound: bool = False):
        (node,) = make_nodes(1)
        workloads.create_driver()
        workloads.stateful_set("web", volume=True, labels={"storageos.com/fenced": "true"}, toleration_seconds=600)
        workloads.wait_running("web-0")
        wait_for("its volume is attached", lambda: workloads.attachments())
        others = make_nodes(2)
        cluster.client.patch("nodes", node, {"spec": {"unschedulable": True}})
        api = StorageApi(workloads.namespace, lifetime=lifetime)
        served.append(api)
        api.nodes = {name: "online" for name in [node, *others]}
        api.volumes = {workloads.handle("data-web-0"): "online"}
        folder = tmp_path / "storageos"
        folder.mkdir()
        text = (REPO / "policies" / "storageos" / "policy.lua").read_text()
        text = text.replace("csi.storageos.com", workloads.driver)
        (folder / "policy.lua").write_text(text)
        if bound:
            PolicyMap(workloads.client, workloads.namespace).write(storageos=text)
        (tmp_path / "username").write_text("admin\n")
        (tmp_path / "password").write_text("first-pw\n")
        login = (f"{{type: login, path: /v2/auth/login, usernameFile: {tmp_path}/username, "
                 f"passwordFile: {tmp_path}/password, tokenHeader: Authorization, "
                 "expiresHeader: Authorization-Expires-Seconds}")
        engine = start_engine(
            **({"policy": None, "mode": None} if bound else {"policy": folder / "policy.lua"}),
            rules=[*RULES, *STORAGE_RULES], witnessed=False,
            config={"fencingDrivers": f"[{workloads.driver}]", "retryInterval": "500ms", "retryWindow": "10s",
                    "endpoints": f"{{storageos: {{url: {api.url}, timeout: 3s, auth: {login}}}}}"})
        wait_for("the source is asked", lambda: "/v2/nodes" in api.gets)
        return engine, api, node
    yield make
    for api in served:
        api.stop()


def has_moved(engine, workloads, node: str, seconds: float = 120):
    """The engine has asked for the pod's end, once, and no attachment to the node is left. Whose work that was does
    not matter here: its kubelet lives, and Kubernetes detaches by itself as soon as the pod is gone."""
    workloads.wait_running("web-0", not_on=node, seconds=seconds)
    wait_for("it is not attached there", lambda: not workloads.attachment("data-web-0", node))
    assert [entry.resource for entry in engine.deletes()] in (["pods"], ["pods", "volumeattachments"])


def test_so_21_offline_is_enough_though_kubernetes_calls_the_node_ready(workloads, storage):
    """Rows SO-02 and SO-21: pod, then attachment, within a poll."""
    engine, api, node = storage()
    holds(POLL + 1, lambda: not engine.deletes())
    api.nodes[node] = "unknown"
    holds(POLL + 1, lambda: not engine.deletes())
    api.nodes[node] = "offline"
    wait_for("the pod is deleted within a poll", lambda: engine.done("pods") == 1, POLL + 2)
    has_moved(engine, workloads, node)
    opened = [r for r in engine.records() if r["kind"] == "incident_opened"]
    assert [r["reason"] for r in opened] == ["source_failed"]
    assert set(api.logins) == {"admin"} and "first-pw" not in engine.log() and "token-" not in engine.log()


def test_so_23_nothing_happens_while_the_api_fails_and_a_new_login_heals_it(workloads, storage, tmp_path):
    """Rows SO-23 and SO-31: errors, slow answers and a refused token; the password was changed meanwhile."""
    engine, api, node = storage()
    api.fail = 503
    api.nodes[node] = "offline"
    holds(POLL + 2, lambda: not engine.deletes())
    api.fail, api.delay = 0, 1.5
    holds(POLL + 3, lambda: not engine.deletes())
    api.delay, api.password = 0, "second-pw"
    api.revoke()
    wait_for("the old password is refused", lambda: "refused" in api.logins)
    holds(2, lambda: not engine.deletes())
    (tmp_path / "password").write_text("second-pw\n")
    has_moved(engine, workloads, node)
    assert "second-pw" not in engine.log()


def test_the_policy_is_bound_by_the_config_map(workloads, storage):
    """Row SO-02, with the policy validated and bound as an administrator binds it."""
    engine, api, node = storage(bound=True)
    api.nodes[node] = "offline"
    has_moved(engine, workloads, node)


def test_so_24_a_volume_that_cannot_be_looked_up_keeps_its_pod(workloads, storage):
    """Rows SO-13, SO-14 and SO-24: no word on a volume, then an unhealthy one, then a healthy one."""
    engine, api, node = storage()
    volume = workloads.handle("data-web-0")
    api.volumes = {}
    api.nodes[node] = "offline"
    holds(POLL + 2, lambda: not engine.deletes())
    api.volumes = {volume: "offline"}
    holds(POLL + 2, lambda: not engine.deletes())
    api.volumes = {volume: "online"}
    has_moved(engine, workloads, node)


def test_a_token_is_renewed_before_it_ends(workloads, storage):
    """Row SO-31: no request is ever refused."""
    engine, api, node = storage(lifetime=8)
    wait_for("it has logged in three times", lambda: len(api.logins) >= 3, 60)
    assert "refused" not in api.logins and "endpoint_login_failed" not in engine.log()
