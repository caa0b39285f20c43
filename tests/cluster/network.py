"""The network of a bed: a switch, and a cable to each machine, all in network namespaces of the bed's own.

Addresses live in these namespaces alone, so every bed has the same ones.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from . import drops

NETNS = Path("/run/netns")
SUBNET = "10.77.0"
PODS = "10.244"
SERVICE = "10.96.0.1"  # of the service `kubernetes`; there is no kube-proxy, the control plane has this address itself
SERVICES = "10.96.0.0/24"
CONTROL_PLANE = 2  # the number of its machine; node N has 10 + N
MOST_NODES = 100


@dataclass(frozen=True)
class Host:
    """A machine's place in the network."""

    namespace: str
    number: int

    @property
    def address(self) -> str:
        return f"{SUBNET}.{self.number}"

    @property
    def port(self) -> str:
        """Its end of the cable at the switch."""
        return f"port{self.number}"

    @property
    def mac(self) -> str:
        # The same after a reboot: with a new one the others would talk to the old card until their neighbour
        # tables are out of date.
        return f"02:00:0a:4d:00:{self.number:02x}"

    @property
    def pods(self) -> str:
        return f"{PODS}.{self.number}.0/24"


def ip(*lines: str, inside: str = ""):
    """Runs lines of `ip`, in a network namespace when one is given."""
    where = ["-n", inside] if inside else []
    done = subprocess.run(["ip", *where, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(where)} could not do `{'; '.join(lines)}`: {done.stderr.strip()}")


def tc(*lines: str, inside: str):
    """Runs lines of `tc` in a network namespace."""
    done = subprocess.run(["tc", "-n", inside, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"tc -n {inside} could not do `{'; '.join(lines)}`: {done.stderr.strip()}")


def namespaces(bed: str) -> list:
    """The network namespaces that carry the bed's name."""
    return sorted(path.name for path in NETNS.glob(f"{bed}-*")) if NETNS.is_dir() else []


def remove(namespace: str):
    """A namespace, and with it every interface in it and the other end of its cable."""
    if (NETNS / namespace).exists():
        ip(f"netns del {namespace}")


class Network:
    def __init__(self, bed: str):
        self.switch = f"{bed}-switch"

    def create(self):
        ip(f"netns add {self.switch}")
        # nothing is plugged into the second one: what is sent there is lost
        ip("link add bridge type bridge", "link set bridge up", "link add nowhere type bridge", "link set nowhere up",
           inside=self.switch)

    def attach(self, host: Host, others: list, services: bool):
        """A namespace with a cable to the switch, and the ways to the pods of the `others`. `services`: the
        address of the API server's service is here, not elsewhere."""
        ip(f"netns add {host.namespace}")
        ip(f"link add {host.port} type veth peer name eth0 netns {host.namespace}",
           f"link set {host.port} master bridge up", inside=self.switch)
        ip("link set lo up", f"link set eth0 address {host.mac} up", f"addr add {host.address}/24 dev eth0",
           f"addr add {SERVICE}/32 dev lo" if services else f"route add {SERVICE} via {SUBNET}.{CONTROL_PLANE}",
           *(f"route add {other.pods} via {other.address}" for other in others if other.number != host.number),
           inside=host.namespace)
        # pods of a node reach others through it
        subprocess.run(["nsenter", f"--net={NETNS / host.namespace}", "sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"],
                       check=True)

    def detach(self, host: Host):
        # The cable first, and at once: the kernel takes what is in a namespace away some time after the namespace, and
        # until then a machine that is switched on again cannot have its port.
        if (NETNS / self.switch).exists() and host.port in self._ports():
            ip(f"link del {host.port}", inside=self.switch)
        remove(host.namespace)

    def _ports(self) -> list:
        told = subprocess.run(["ip", "-n", self.switch, "-json", "link", "show"], capture_output=True, text=True, check=True)
        return [each["ifname"] for each in json.loads(told.stdout)]

    def cable(self, host: Host, plugged: bool):
        ip(f"link set {host.port} {'up' if plugged else 'down'}", inside=self.switch)

    def part(self, host: Host, other: Host, parted: bool):
        """Whether what runs on one machine, in pods, reaches the other machine."""
        ip(f"route {'add' if parted else 'del'} blackhole {other.address}/32", inside=host.namespace)

    def drop(self, host: Host, arriving: str, leaving: str):
        """Of the packets to the machine, and from it, those are lost that these programs choose (drops.py)."""
        self.drop_nothing(host)
        tc(f"qdisc add dev {host.port} clsact",
           *(f"filter add dev {host.port} {way} bpf bytecode '{program}' action mirred egress redirect dev nowhere"
             for way, program in (("egress", arriving), ("ingress", leaving))), inside=self.switch)

    def lose(self, host: Host, share: float):
        """Each way."""
        self.drop(host, drops.by_chance(share), drops.by_chance(share))

    def only_control_plane(self, host: Host):
        """Of all machines it reaches that one, and no other."""
        self.drop(host, drops.unless_from(CONTROL_PLANE), drops.unless_to(CONTROL_PLANE))

    def drop_nothing(self, host: Host):
        told = subprocess.run(["tc", "-n", self.switch, "qdisc", "show", "dev", host.port], capture_output=True, text=True)
        if "clsact" in told.stdout:
            tc(f"qdisc del dev {host.port} clsact", inside=self.switch)

    def plugged(self, host: Host) -> bool:
        done = subprocess.run(["ip", "-n", self.switch, "link", "show", host.port], capture_output=True, text=True)
        return "state UP" in done.stdout
