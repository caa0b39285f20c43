"""Helm and our chart (deploy/chart), as one types it; renderings as objects."""

import functools
import json
import os
import subprocess
from pathlib import Path

import yaml

from cluster import programs

from .installation import DEPLOY, NAMESPACE, kubectl

CHART = DEPLOY / "chart"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is ten times as fast


class HelmError(AssertionError):
    """Helm said no; the text is what it said."""


class Helm:
    """`folder` is Helm's own; without a kubeconfig it renders alone."""

    def __init__(self, folder: Path, kubeconfig: Path | None = None, namespace: str = NAMESPACE, release: str = "m"):
        self.program = programs.find("helm")["helm"]
        self.namespace, self.release, self.folder = namespace, release, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(kubeconfig or folder / "none")}

    def __call__(self, *words) -> str:
        done = subprocess.run([self.program, *map(str, words)], env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=300)
        if done.returncode:
            raise HelmError(done.stderr)
        return done.stdout

    def _values(self, values: dict) -> tuple:
        file = self.folder / "values.yaml"
        file.write_text(json.dumps(values))
        return ("--values", file)

    def on_release(self, command: str, values: dict, *words) -> str:
        return self(command, self.release, CHART, "--namespace", self.namespace, *self._values(values), *words)

    def template(self, values: dict, *words) -> list:
        return [each for each in yaml.load_all(self.on_release("template", values, *words), LOADER) if each]


@functools.cache
def _kustomized(folder: Path) -> str:
    return subprocess.run([kubectl(), "kustomize", folder], stdout=subprocess.PIPE, text=True, check=True).stdout


def kustomized(folder: Path) -> list:
    return list(yaml.load_all(_kustomized(folder), LOADER))


def identity(each: dict) -> tuple:
    about = each["metadata"]
    return each["apiVersion"], each["kind"], about.get("namespace", ""), about["name"]


def by_identity(found: list) -> dict:
    kept = {identity(each): each for each in found}
    assert len(kept) == len(found), "an object twice"
    return kept
