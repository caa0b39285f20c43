"""sushy-tools' Redfish emulator as the BMC of one machine: a process of bmc.py's.

    bmc_emulator.py '{"folder": "…", "address": "127.0.0.1", "uuid": "…", "password": "…"}'

All that it serves is the emulator's own. But what it reads as the machine's power, and what it does to that, is asked of
the socket `power` in its folder: a line of JSON each way.
"""

import json
import os
import socket
import sys
from pathlib import Path

import bcrypt
from sushy_tools.emulator import main as emulator
from sushy_tools.emulator.resources.systems import fakedriver
from werkzeug.serving import make_server

USERS = "users"


def ask(**order) -> dict:
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect("power")
        caller.sendall(json.dumps(order).encode() + b"\n")
        return json.loads(caller.makefile("r").readline())


class Driver(fakedriver.FakeDriver):
    """The emulator's fake machine, with a real one's power."""

    def get_power_state(self, identity):
        self.uuid(identity)  # refuses a machine that it has not
        return ask(do="read")["power"]

    def set_power_state(self, identity, state):
        self.uuid(identity)
        ask(do="reset", type=state)


def main(folder: str, address: str, uuid: str, password: str):
    os.chdir(folder)
    # the class is named in the emulator's own code; it has no setting for another one
    fakedriver.FakeDriver = Driver
    config = {"SUSHY_EMULATOR_FAKE_DRIVER": True, "SUSHY_EMULATOR_STATE_DIR": "state",
              "SUSHY_EMULATOR_FAKE_SYSTEMS": [{"uuid": uuid, "name": "machine", "power_state": "On", "nics": []}]}
    if password:
        Path(USERS).write_text(f"admin:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()}\n")
        config["SUSHY_EMULATOR_AUTH_FILE"] = USERS
    emulator.app.configure(extra_config=config)
    server = make_server(address, 0, emulator.app, threaded=True)
    ask(do="serve", port=server.port)
    server.serve_forever()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
