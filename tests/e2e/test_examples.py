"""deploy/examples: a policy for a storage vendor that moonfence does not know, as an administrator would bring it."""

import yaml

from .control_plane import REPO
from .faults import holds
from .kube import wait_for
from .stage import Stage, Subject
from .storage_api import BasaltApi

FOLDER = REPO / "deploy" / "examples" / "basalt"
DRIVER = "csi.basalt.example.com"


def test_a_vendor_of_ones_own_is_a_lua_file_and_an_endpoint(cluster, tmp_path):
    """Its files as they are, bound in mode enforce; Kubernetes calls every node Ready throughout."""
    stage = Stage(cluster, tmp_path, "basalt", [
        Subject("moved", "shop", "lost", (DRIVER, DRIVER)), Subject("stays", "shop", "lost", (DRIVER,), labels={
            "basalt.example.com/stay": "true"}), Subject("other", "shop", "lost", ("ebs.csi.example.com",))])
    api = BasaltApi("basalt-token")
    try:
        stage.add_nodes("lost")
        stage.build()
        stage.add_nodes("spare-1", "spare-2")
        api.nodes = {stage.node(short): "up" for short in ("lost", "spare-1", "spare-2")}
        safe = {"lease": None, "copies": [{"host": stage.node("spare-1"), "state": "current"}]}
        api.volumes = {stage.handle(row, claim): dict(safe) for row in stage.subjects
                       for claim in stage.subjects[row].claims}
        last = api.volumes[stage.handle("moved", "data-moved-1")]
        last["lease"] = {"host": stage.node("lost")}
        (tmp_path / "token").write_text("basalt-token\n")
        config = yaml.safe_load((FOLDER / "config.yaml").read_text())
        endpoint = {"url": api.url, "auth": {**config["endpoints"]["basalt"]["auth"], "tokenFile": str(tmp_path / "token")}}
        (binding,) = yaml.safe_load((FOLDER / "moonfence.yaml").read_text())["bindings"]
        stage.start(f"- {{policy: {binding['policy']}, source: {binding['source']}, namespaces: [shop], mode: enforce, holdDown: 0s}}\n",
                    config["fencingDrivers"], config={"endpoints": {"basalt": endpoint}},
                    **{"basalt.lua": (FOLDER / "policy.lua").read_text(),
                       "basalt_test.lua": (FOLDER / "policy_test.lua").read_text(),
                       "basalt.orders.json": (FOLDER / "orders.json").read_text()})
        cluster.client.patch("nodes", stage.node("lost"), {"spec": {"unschedulable": True}})
        wait_for("the second page is asked for", lambda: any("?after=" in path for path in api.gets), 20)

        api.nodes[stage.node("lost")] = "suspect"
        holds(6, lambda: not stage.engine.deletes())
        api.nodes[stage.node("lost")] = "expelled"
        stage.wait_judged("moved", "policy_waits")
        holds(3, lambda: not stage.engine.deletes())
        last["lease"] = None
        pod = stage.wait_deleted("moved", 60)
        for number in range(2):
            assert stage.wait_detached("moved", number).received >= pod.staged
        stage.wait_judged("other", "policy_skips")
        for row in ("stays", "other"):
            stage.assert_kept(row)
        assert stage.unaccounted("moved") == [] and "basalt-token" not in stage.engine.log()
    finally:
        api.stop()
        stage.close()
