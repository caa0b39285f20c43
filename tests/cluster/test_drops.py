"""A cable that loses packets, between machines that are network namespaces and nothing else. Needs root."""

import subprocess
import sys

import pytest

from e2e.kube import wait_for

from .network import CONTROL_PLANE, NETNS, Host, Network, remove

ECHO = """import socket
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
    end.bind(("", 9))
    print("ready", flush=True)
    while True:
        end.sendto(*end.recvfrom(9))
"""
ASK = """import socket, sys
answered = 0
for _ in range(int(sys.argv[2])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
        end.settimeout(0.02)
        try:
            end.sendto(b"x", (sys.argv[1], 9))
            answered += len(end.recv(9))
        except OSError:
            pass
print(answered)
"""


def inside(host: Host, *command) -> list:
    return ["nsenter", f"--net={NETNS / host.namespace}", sys.executable, "-c", *map(str, command)]


@pytest.fixture
def network():
    """(network, three hosts that send back what they get, of which the first has the control plane's number)"""
    hosts = [Host(f"drops-{number}", number) for number in (CONTROL_PLANE, 11, 12)]
    made, echoes = Network("drops"), []
    try:
        made.create()
        for host in hosts:
            made.attach(host, [], services=False)
            echoes.append(subprocess.Popen(inside(host, ECHO), stdout=subprocess.PIPE))
            assert echoes[-1].stdout.readline() == b"ready\n"
        yield made, hosts
    finally:
        for echo in echoes:
            echo.kill()
            echo.wait()
        for host in hosts:
            remove(host.namespace)
        remove(made.switch)


def answered(asking: Host, asked: Host, times: int = 5) -> int:
    return int(subprocess.run(inside(asking, ASK, asked.address, times), capture_output=True, check=True).stdout)


def test_a_share_of_the_packets_is_lost_each_way_and_then_none(network):
    made, (_, asking, asked) = network
    assert answered(asking, asked) == 5
    made.lose(asked, 0.5)
    assert 20 <= answered(asking, asked, 200) <= 90  # a quarter; 50 is seven times as far from either as its spread
    made.lose(asked, 1)
    assert answered(asking, asked) == 0
    made.drop_nothing(asked)
    assert answered(asking, asked) == 5


def test_one_machine_reaches_the_control_plane_alone(network):
    made, (control_plane, cut, other) = network
    made.only_control_plane(cut)
    assert answered(cut, control_plane) == answered(control_plane, cut) == 5
    assert answered(cut, other) == answered(other, cut) == 0
    assert answered(other, control_plane) == 5
    made.drop_nothing(cut)
    # each asks once a second where the other is
    wait_for("they reach each other", lambda: answered(cut, other) == answered(other, cut) == 5, 30)
