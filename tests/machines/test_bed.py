"""The machines themselves: what is switched off is off, what is cut off goes on, what stands still stands still."""

import os
import signal

import pytest

from e2e.kube import wait_for
from e2e.processes import living, start_times
from e2e.workloads import node_ready

from .stage import pod_spec

COUNTS = ["sh", "-c", "trap 'exit 0' TERM; while :; do echo x >>/data/count; sleep 0.1 & wait $!; done"]


@pytest.fixture
def counting(whole, workloads):
    """A pod on node-1 that writes a line ten times a second, into a file: what it said would pass through containerd."""
    spec = pod_spec(COUNTS, grace=1)
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    workloads.pod("counting", node="node-1", pod_spec={**spec, "volumes": [{"name": "data", "emptyDir": {}}]})
    return workloads.wait_running("counting")


def lines(node, pod: dict) -> int:
    """How much it has written, by the node's disk: no kubelet is asked."""
    folder = node.folder / "disk/kubelet/pods" / pod["metadata"]["uid"] / "volumes/kubernetes.io~empty-dir/data"
    return len((folder / "count").read_text().splitlines())


def wait_node(bed, name: str, state: str):
    wait_for(f"{name} has Ready={state}", lambda: node_ready(bed.client.get("nodes", name)) == state, 120)


def wait_goes_on(node, pod: dict):
    before = lines(node, pod)
    wait_for("the container writes", lambda: lines(node, pod) > before + 2, 60)


def test_power_off_ends_every_process_and_the_next_life_has_its_own_boot_id(whole, counting):
    node = whole.node(1)
    # It starts a process ten times a second: those that lived before and after the whole was read were there meanwhile.
    before = node.container_processes(counting["metadata"]["uid"])
    everything = node.group.processes()
    steady = before & node.container_processes(counting["metadata"]["uid"])
    assert steady and steady < everything and node.pid in everything
    processes = start_times(everything)
    seen = whole.client.get("nodes", node.name)["status"]["nodeInfo"]["bootID"]
    assert seen == node.boot_id == node.run("cat", "/proc/sys/kernel/random/boot_id").strip()
    node.power_off()
    assert not node.is_on() and not living(processes)
    assert not [folder for folder in node.group.folders() if folder.exists()]
    node.power_on()
    back = node.wait_ready()
    assert back["status"]["nodeInfo"]["bootID"] == node.boot_id != seen


def test_a_disk_outlives_a_reboot_and_run_does_not(whole):
    node = whole.node(1)
    node.run("touch", "/etc/kept", "/var/kept", "/run/lost")
    node.reboot()
    assert node.run("ls", "/etc/kept", "/var/kept", "/run", check=False).count("kept") == 2
    assert "lost" not in node.run("ls", "/run")
    assert not os.path.exists("/etc/kept") and not os.path.exists("/var/kept")


def test_a_machine_names_itself_whatever_the_computer_has(whole):
    # The smallest Debian has no /etc/hosts: containerd, which copies it for every pod, started none there.
    node = whole.node(1)
    assert node.run("cat", "/etc/hosts").splitlines() == ["127.0.0.1 localhost", "::1 localhost", f"127.0.1.1 {node.name}"]


def test_a_node_without_its_cable_is_given_up_and_its_containers_go_on(whole, counting):
    node = whole.node(1)
    node.cable_out()
    wait_node(whole, node.name, "Unknown")
    wait_goes_on(node, counting)
    node.cable_in()
    node.wait_ready()


def test_a_frozen_machine_stands_still_and_goes_on_afterwards(whole, counting):
    node = whole.node(1)
    node.freeze()
    stood = lines(node, counting)
    wait_node(whole, node.name, "Unknown")
    assert lines(node, counting) == stood
    node.thaw()
    wait_goes_on(node, counting)
    node.wait_ready()


def test_a_frozen_machine_can_be_switched_off(whole):
    node = whole.node(1)
    node.freeze()
    node.power_off()
    assert not node.is_on()
    node.power_on()
    node.wait_ready()


@pytest.mark.parametrize("service", ["kubelet", "containerd"])
def test_containers_outlive_a_killed_service(whole, counting, service):
    node, uid = whole.node(1), counting["metadata"]["uid"]
    before = node.container_processes(uid)
    node.kill(service)
    assert node.service(service)["pid"] == 0
    wait_goes_on(node, counting)
    node.start(service)
    wait_for(f"{service} runs", lambda: node.service(service)["pid"], 60)
    node.wait_ready()
    # of `sleep` there is a new one ten times a second
    assert len(before & node.container_processes(uid)) >= 2


def test_a_service_that_ends_by_itself_is_started_again(whole):
    node = whole.node(1)
    first = node.service("kubelet")
    node.signal("kubelet", signal.SIGKILL)
    wait_for("another kubelet runs", lambda: node.service("kubelet")["pid"] not in (0, first["pid"]), 60)
    assert node.service("kubelet")["starts"] == first["starts"] + 1


def test_an_unknown_service_is_refused_with_those_that_there_are(whole):
    with pytest.raises(ValueError, match="node-1: no service 'kubelett'; there are containerd, kubelet"):
        whole.node(1).kill("kubelett")


def test_the_api_server_comes_back_to_its_port(whole):
    version = whole.client.get("namespaces", "default")["metadata"]["uid"]
    whole.control_plane.restart_component("kube-apiserver")
    assert whole.client.get("namespaces", "default")["metadata"]["uid"] == version
