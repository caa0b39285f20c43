"""The fencer `ec2` (fencers/ec2/README.md) over real HTTP against moto's EC2. The signature of each request is recomputed by botocore
before moto sees it."""

import threading

import pytest

from .ec2_api import Ec2Api
from .engine import RULES
from .kube import wait_for
from .secrecy import check_untold
from .test_fencer_rehearse import PROVEN, cordon, leads

WORKS, BROKEN = 0, 10


@pytest.fixture
def start_ec2():
    made = []

    def start(token: str = "") -> Ec2Api:
        made.append(Ec2Api(token))
        return made[-1]
    yield start
    for each in made:
        each.stop()


def runs(cluster, ec2: Ec2Api, node: str) -> dict:
    """An instance with the node's address, whose id the Node has. A Node never gets another one, so this is once for each."""
    addresses = cluster.client.get("nodes", node)["status"]["addresses"]
    made = ec2.run(next(each["address"] for each in addresses if each["type"] == "InternalIP"))
    cluster.client.patch("nodes", node, {"spec": {"providerID": f"aws:///{made['zone']}/{made['id']}"}})
    return made


def configured(ec2: Ec2Api, folder, more: str = "", auth: str = "") -> dict:
    (folder / "access-key").write_text(ec2.access_key + "\n")
    (folder / "secret-key").write_text(ec2.secret_key + "\n")
    return {"endpoints": f"{{ec2: {{url: '{ec2.url}', auth: {{type: aws, region: {ec2.region}, accessKeyFile: {folder}/access-key, "
                         f"secretKeyFile: {folder}/secret-key{auth}}}}}}}",
            "allowedReads": "[v1/nodes]", "fencers": f"[{{fencer: ec2, switchOff: true{more}}}]"}


def written(folder, config: dict):
    (folder / "config.yaml").write_text("api: 1\n" + "".join(f"{key}: {value}\n" for key, value in config.items()))
    return folder / "config.yaml"


def test_each_state_is_read_as_what_it_is(cluster, make_nodes, workloads, tool, start_ec2, tmp_path):
    (node,) = make_nodes(1)
    ec2 = start_ec2()
    made = runs(cluster, ec2, node)
    config = written(tmp_path, configured(ec2, tmp_path))

    def says(part: str, code: int = BROKEN):
        said = tool.engine("fencer", "check", node, "--config", str(config), code=code)
        assert part in said and ec2.secret_key not in said, said
    says(" on ", WORKS)
    ec2.become(made, "stopping", 64, "Client.UserInitiatedShutdown")
    says("state stopping")
    ec2.become(made, "stopped", 80, "Client.UserInitiatedHibernate")
    says("stopped, hibernated")
    ec2.become(made, "stopped", 80, "Client.UserInitiatedShutdown")
    says("state stopped, Client.UserInitiatedShutdown")
    ec2.terminate(made)
    says("state terminated")
    assert {tuple(each) for each in ec2.seen()} == {("DescribeInstances", "")}, "it only asks, by POST, and is signed"


def test_another_instance_under_the_node_s_name_is_not_its_machine(cluster, make_nodes, workloads, tool, start_ec2, tmp_path):
    (node,) = make_nodes(1)
    ec2 = start_ec2()
    made = ec2.run("10.99.99.99")
    cluster.client.patch("nodes", node, {"spec": {"providerID": f"aws:///{made['zone']}/{made['id']}"}})
    config = written(tmp_path, configured(ec2, tmp_path))
    for state, code in (("running", 16), ("stopped", 80)):
        ec2.become(made, state, code, "Client.UserInitiatedShutdown")
        said = tool.engine("fencer", "check", node, "--config", str(config), code=BROKEN)
        assert " failed " in said and "none of the node's addresses" in said


def test_what_is_refused_says_what_to_mend(cluster, make_nodes, workloads, tool, start_ec2, tmp_path):
    (node,) = make_nodes(1)
    ec2 = start_ec2(token="t0ken")
    runs(cluster, ec2, node)
    config = written(tmp_path, configured(ec2, tmp_path, auth=f", sessionTokenFile: {tmp_path}/token"))

    def says(word: str, *parts: str, code: int = BROKEN):
        said = tool.engine("fencer", "check", node, "--config", str(config), code=code)
        assert f" {word} " in said and all(part in said for part in parts), said
        assert "t0ken" not in said and ec2.secret_key not in said and "wrong-key" not in said
    says("failed", "/token")
    (tmp_path / "token").write_text("t0ken")
    says("on", code=WORKS)
    (tmp_path / "secret-key").write_text("wrong-key")
    says("failed", "HTTP 401 AuthFailure", "the secret key is another's")
    (tmp_path / "secret-key").write_text(ec2.secret_key)
    ec2.gate(clock=3600)
    says("failed", "HTTP 400 RequestExpired", "the clock is wrong here")
    ec2.gate(refuse="RequestLimitExceeded")
    says("unknown", "HTTP 503 RequestLimitExceeded")
    ec2.gate(refuse="UnauthorizedOperation")
    says("failed", "UnauthorizedOperation", "needs ec2:DescribeInstances")
    ec2.gate()
    says("on", code=WORKS)


def test_a_question_that_is_an_order_is_not_sent(cluster, make_nodes, workloads, tool, start_ec2, tmp_path):
    (node,) = make_nodes(1)
    ec2 = start_ec2()
    made = runs(cluster, ec2, node)
    (tmp_path / "bad.lua").write_text(f"""return fencer {{ api = 1, name = "bad", version = "1.0.0", summary = "Asks by an order",
      plan = function(node, s, got)
        if not got.x then return {{ x = fence.http("ec2", "/", {{ Action = "StopInstances", ["InstanceId.1"] = "{made['id']}" }}) }} end
      end,
      state = function(node, s, got) return "off", "it is now" end }}""")
    config = written(tmp_path, {**configured(ec2, tmp_path), "fencers": f"[{{fencer: bad, file: {tmp_path}/bad.lua}}]"})
    said = tool.engine("fencer", "check", node, "--config", str(config), code=BROKEN)
    assert " unknown " in said and "Action=StopInstances at / is no question" in said
    assert ec2.seen() == [] and ec2.state(made) == "running"


def test_a_drained_machine_is_stopped_and_that_is_read(cluster, make_nodes, workloads, tool, fencers, start_ec2, tmp_path):
    node, other = make_nodes(2)
    ec2 = start_ec2()
    made = runs(cluster, ec2, node)
    leads(cluster, fencers.space, other)
    fencers.write(config="api: 1\n" + "".join(f"{key}: {value}\n" for key, value in configured(ec2, tmp_path).items()))
    cordon(cluster, node)

    def lose_power():
        wait_for("it is stopped", lambda: ec2.state(made) == "stopped", 60)
        cluster.hollow.fail(node, "silent")
    machine = threading.Thread(target=lose_power)
    machine.start()
    said = tool.engine("fencer", "rehearse", node, "--yes", node, code=PROVEN)
    machine.join()
    assert "fencer ec2 tells endpoint ec2 to switch it off: POST /" in said and ec2.secret_key not in said
    assert [each for each in ec2.seen() if each[0] != "DescribeInstances"] == [["StopInstances", ""]]


def test_a_machine_that_may_be_alive_is_stopped_and_its_pod_goes_when_that_is_read(
        cluster, victims_of, start_engine, start_ec2, tmp_path):
    victims = victims_of(1, stateful=True)
    ec2 = start_ec2()
    made = runs(cluster, ec2, victims.node)
    engine = start_engine(config={**configured(ec2, tmp_path), "proof": "{everywhere: [off]}"}, rules=RULES)
    victims.fail("silent")
    victims.wait_replaced()
    assert ec2.state(made) == "stopped"
    (intent,) = [record for record in engine.records() if record["kind"] == "intent" and record["action"] == "delete_pod"]
    assert intent["evidence"] == "unreachable, off (ec2: state stopped, Client.UserInitiatedShutdown)"
    (told,) = [each for each in engine.records() if each.get("action") == "switch_off" and each["kind"] == "intent"]
    assert told["text"].endswith('"SkipOsShutdown":true,"Version":"2016-11-15"}')
    assert [each for each in ec2.seen() if each[0] != "DescribeInstances"] == [["StopInstances", ""]]
    check_untold([engine], (ec2.secret_key,))
