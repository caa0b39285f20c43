"""How long the parts of a cluster wait for each other."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """Seconds; 0 leaves what Kubernetes does by default."""

    name: str
    grace: int = 0  # without a heartbeat after which the controller manager gives a node up (default 50)
    monitor: int = 0  # how often it looks (5)
    lease: int = 0  # how long a node's Lease lasts (40); the kubelet renews it four times as often
    status: int = 0  # how often a kubelet says how it is, and which volumes it uses (10)

    def controller_flags(self) -> list:
        if not self.grace:
            return []
        return [f"--node-monitor-grace-period={self.grace}s", f"--node-startup-grace-period={self.grace}s",
                f"--node-monitor-period={self.monitor}s"]

    def kubelet(self) -> dict:
        return {**({"nodeLeaseDurationSeconds": self.lease} if self.lease else {}),
                **({"nodeStatusUpdateFrequency": f"{self.status}s"} if self.status else {})}


STOCK = Settings("stock")
# The Lease has to be as short as the grace period: with the default of 40 s a kubelet renews it every 10 s only, and
# healthy nodes would be given up again and again.
FAST = Settings("fast", grace=8, monitor=1, lease=8, status=1)
ALL = {each.name: each for each in (STOCK, FAST)}
