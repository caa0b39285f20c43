"""`moonfence fencer check` (docs/proof.md, Before the night) on a real control plane: which nodes have fencers that work, and why the
others have not. It only asks."""

from .engine import RULES, Account
from .tool import names_of_nodes, same_as_golden, steady

ALL_WORK, CONFIG, NOT_FOUND, SOME_DO_NOT = 0, 3, 5, 10


def states(document: dict) -> dict:
    return {each["node"]: each["state"] for each in document["nodes"]}


def test_one_works_one_has_none_one_has_a_wrong_password(nodes, fencers, tool):
    well, bare, wrong = nodes
    fencers.bmc_of(well)
    fencers.say(fencers.bmc_of(wrong), "wrong")
    fencers.write()
    table = tool.engine("fencer", "check", *nodes, code=SOME_DO_NOT)
    same_as_golden(table, "fencer_check.txt", {**names_of_nodes(nodes), **{bmc.url: "URL" for bmc in fencers.bmcs.values()}})
    document = tool.document("fencer", "check", *nodes, code=SOME_DO_NOT)
    assert states(document) == {well: "works", bare: "none", wrong: "broken"}
    assert [document[key] for key in ("works", "broken", "none")] == [1, 1, 1]

    for bmc in fencers.bmcs.values():
        fencers.say(bmc, bmc.password)
    assert "Nodes: 2 whose fencers work, 0 with a broken one, 0 without any." in tool.engine("fencer", "check", well, wrong, code=ALL_WORK)
    everybody = tool.document("fencer", "check", code=SOME_DO_NOT)
    assert {node: states(everybody)[node] for node in nodes} == {well: "works", bare: "none", wrong: "works"}
    assert fencers.resets() == [] and tool.writes() == []


def test_a_fencer_that_looks_at_another_machine(nodes, fencers, tool):
    bmc = fencers.bmc_of(nodes[0])
    fencers.write()
    bmc.power = "Off"
    said = tool.engine("fencer", "check", nodes[0], code=SOME_DO_NOT)
    assert "PowerState Off; but the node is Ready: it asks about another machine" in said
    bmc.power, bmc.uuid = "On", "another machine"
    assert "the BMC is another machine's" in tool.engine("fencer", "check", nodes[0], code=SOME_DO_NOT)
    assert fencers.resets() == []


def test_a_second_fencer_that_is_broken_is_known_though_the_first_one_answers(nodes, fencers, tool):
    fencers.bmc_of(nodes[0])
    own = fencers.folder / "cloud.lua"
    own.write_text("""return fencer { api = 1, name = "cloud", version = "1.0.0", summary = "asks a cloud that is not there",
        plan = function(node, s, got) if not got.vm then return { vm = fence.http("cloud", "/vm", node.name) } end end,
        state = function(node, s, got) return "on", "running" end }""")
    fencers.write(more=f"- {{fencer: cloud, file: {own}}}\n")
    (node,) = tool.document("fencer", "check", nodes[0], code=SOME_DO_NOT)["nodes"]
    assert [(each["fencer"], each["works"]) for each in node["fencers"]] == [("redfish", True), ("cloud", False)]
    assert "name it under endpoints in the engine's configuration" in node["fencers"][1]["why"]
    own.unlink()
    done = tool.run("fencer", "check", nodes[0], "-n", fencers.space)
    assert done.returncode == CONFIG and f"kubectl -n {fencers.space} exec deployment/moonfence -- moonfence fencer check" in done.stderr


def test_whoever_begins_is_told_what_to_do_next(nodes, fencers, tool):
    done = tool.run("fencer", "check", "-n", fencers.space)
    assert done.returncode == CONFIG and "moonfence-config is not there" in done.stderr and "--config" in done.stderr
    fencers.write(config="api: 1\n")
    assert tool.engine("fencer", "check", nodes[0], code=SOME_DO_NOT).startswith(
        "No fencer is configured: nothing can prove that a machine is off.\n")
    assert states(tool.document("fencer", "check", nodes[0], code=SOME_DO_NOT)) == {nodes[0]: "none"}
    gone = tool.run("fencer", "check", "nowhere", "-n", fencers.space)
    assert gone.returncode == NOT_FOUND and gone.stdout == "" and "kubectl get nodes" in gone.stderr

    bmc = fencers.bmc_of(nodes[0])
    fencers.write()
    (fencers.folder / "user").unlink()
    done = tool.run("fencer", "check", nodes[0], "-n", fencers.space)
    assert done.returncode == SOME_DO_NOT and f"names files that cannot be read here: {fencers.folder}/user; run it where the engine runs" in done.stderr
    assert bmc.gets == []


def test_the_engine_s_own_account_may_ask(cluster, nodes, fencers, tool):
    """As by kubectl exec, in its pod."""
    fencers.bmc_of(nodes[0])
    fencers.write()
    account = Account(cluster, fencers.space, "moonfence").create(RULES)
    try:
        tool.kubeconfig = cluster.control_plane.token_kubeconfig(f"{fencers.space}-check", account.token(), server="")
        assert steady(tool.engine("fencer", "check", nodes[0], code=ALL_WORK), names_of_nodes(nodes)) == (
            "NODE  FENCER  STATE  WHY\nNODE-1  redfish  on  PowerState On\nNodes: 1 whose fencers work, 0 with a broken one, 0 without any.\n")
    finally:
        account.remove()
