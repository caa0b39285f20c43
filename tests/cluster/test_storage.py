"""The CSI driver of the machines' volumes passes its own tests: `go test`, with the Go that builds it."""

import os
import subprocess
from pathlib import Path

import pytest

from . import programs


@pytest.fixture(scope="module")
def go():
    """Runs a command of Go on the driver; a machine without Go is told how to get it."""
    build = programs.Build.of("storage", programs.DEFAULT_KUBERNETES)
    path = programs.go_of(build.go_version)

    def run(*words):
        # the tests build the driver themselves, with the `go` in PATH
        env = programs.environment(CGO_ENABLED="0", PATH=f"{Path(path).parent}:{os.environ['PATH']}")
        done = subprocess.run([path, *words], cwd=build.module, env=env, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout[-8000:]
        return done.stdout
    return run


def test_the_compiler_and_vet_find_nothing(go):
    go("vet", "./...")


def test_its_own_tests_pass(go):
    said = go("test", "-count=1", "./...")
    assert "ok  \tmoonfence.invalid/csi-driver" in said, said
