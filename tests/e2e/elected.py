"""Controllers that were elected, as their Leases say: whoever asks whether they live sees renewals."""

import contextlib
import http.client
import threading

from .hollow_objects import now_micro
from .kube import ApiError, Client


class RenewedLease:
    """A Lease that somebody holds and renews, as kube-controller-manager and an external-attacher do."""

    def __init__(self, client: Client, namespace: str, name: str, seconds: int = 15, every: float = 2):
        self.client, self.namespace, self.name, self.every = client, namespace, name, every
        self.text = f"{namespace}/{name}"  # what a configuration calls it
        self._seconds = seconds
        self._over, self._thread = threading.Event(), None

    def start(self) -> "RenewedLease":
        if not self.client.find("leases", self.name, self.namespace):
            self.client.create("leases", {"metadata": {"name": self.name}, "spec": self._spec()}, self.namespace)
        self._over.clear()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._thread.start()
        return self

    def fall_silent(self):
        """The holder is gone; what it wrote stays."""
        self._over.set()
        if self._thread:
            self._thread.join()

    def remove(self):
        self.fall_silent()
        self.client.delete("leases", self.name, self.namespace, missing_ok=True)

    def _spec(self) -> dict:
        return {"holderIdentity": "test", "leaseDurationSeconds": self._seconds, "renewTime": now_micro()}

    def _renew(self):
        while not self._over.wait(self.every):
            # a server that a test ends or freezes is asked again
            with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
                self.client.patch("leases", self.name, {"spec": self._spec()}, self.namespace)

    def __enter__(self) -> "RenewedLease":
        return self.start()

    def __exit__(self, *_):
        self.remove()
