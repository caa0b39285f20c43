"""The contract suite (tests/contract) against a real API server; ctest runs it against the simulated one."""

import os
import subprocess
import xml.etree.ElementTree as tree
from pathlib import Path

from .control_plane import REPO


def contract_program() -> Path:
    """What MOONFENCE_CONTRACT_TEST names (scripts/test does), or that of the preset dev."""
    return Path(os.environ.get("MOONFENCE_CONTRACT_TEST") or REPO / "build" / "dev" / "tests" / "contract_test")


def test_the_simulated_api_server_keeps_the_contract(cluster, tmp_path):
    # a server that has just begun knows no history, so that an old version is too old
    cluster.control_plane.restart("kube-apiserver")
    results = tmp_path / "contract.xml"
    done = subprocess.run(
        [str(contract_program()), "--gtest_brief=1", f"--gtest_output=xml:{results}"],
        env={**os.environ, "MOONFENCE_CONTRACT_KUBECONFIG": str(cluster.control_plane.kubeconfig),
             "MOONFENCE_CONTRACT_ETCD": f"http://127.0.0.1:{cluster.control_plane.ports['etcd']}"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-20000:]
    assert int(tree.parse(results).getroot().get("tests")) >= 60
