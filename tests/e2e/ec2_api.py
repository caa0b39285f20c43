"""AWS EC2 played by moto (getmoto/moto, pinned in tests/cluster/modules/moto), behind a gate that checks signatures: ec2_server.py.

    ec2 = Ec2Api(token="")            # serves at ec2.url until ec2.stop(); ec2.access_key and secret_key are the right ones
    made = ec2.run("10.0.0.5")        # an instance with that address: {"id": …, "zone": …}
    ec2.become(made, "stopped", 80, "Client.UserInitiatedHibernate")
    ec2.terminate(made)
    ec2.state(made)                   # what moto has it in
    ec2.gate(refuse="RequestLimitExceeded", clock=3600)
    ec2.seen()                        # [[action, word that it was refused with or ""]] of each request
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster import programs, wheel

MOTO = programs.MODULES / "moto" / "requirements.txt"
DEBIAN = {"flask": "python3-flask", "requests": "python3-requests", "cryptography": "python3-cryptography", "yaml": "python3-yaml"}


class Ec2Api:
    region = "eu-central-1"
    access_key, secret_key = "AKIDEXAMPLE", "wJalr+XUtn/FEMI=K7MDENG"

    def __init__(self, token: str = ""):
        absent = [package for module, package in DEBIAN.items() if not importlib.util.find_spec(module)]
        if absent:
            pytest.fail(f"moto needs {', '.join(absent)}; apt-get install {' '.join(absent)}")
        given = {"access_key": self.access_key, "secret_key": self.secret_key, "token": token, "region": self.region}
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("ec2_server.py"), json.dumps(given)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(wheel.installed(MOTO))})
        self.url = f"http://127.0.0.1:{json.loads(self.process.stdout.readline())['port']}"

    def ask(self, do: str, **order) -> dict:
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def run(self, address: str) -> dict:
        return self.ask("run", address=address)

    def become(self, made: dict, state: str, code: int, reason: str):
        self.ask("become", id=made["id"], state=state, code=code, reason=reason)

    def terminate(self, made: dict):
        self.ask("terminate", id=made["id"])

    def state(self, made: dict) -> str:
        return self.ask("state", id=made["id"])["state"]

    def gate(self, refuse: str = "", clock: float = 0.0):
        self.ask("gate", refuse=refuse, clock=clock)

    def seen(self) -> list:
        return self.ask("seen")["seen"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
