"""What scripts/release writes about the files it made: their provenance (SLSA 1.0 in an in-toto statement,
docs/releasing.md#provenance) and the manifest of the kubectl plug-in for krew."""
import hashlib
import json
import subprocess
import tarfile
import urllib.parse

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://moonfence.io/slsa/release/v1"
BUILDER = "https://moonfence.io/slsa/scripts-release/v1"
# Whose versions make a difference to what is built, beside the packages that the bill of materials has.
TOOLS = ("binutils", "cmake", "dpkg-dev", "g++-12", "g++-12-aarch64-linux-gnu", "mmdebstrap", "ninja-build")


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def images_in(file):
    """(platform or "", digest) of each image and each index of images in an OCI archive; nothing for another file."""
    if not tarfile.is_tarfile(file):
        return
    with tarfile.open(file) as tar:
        names = set(tar.getnames())
        indexes = ["index.json"] if {"index.json", "oci-layout"} <= names else []
        while indexes:
            for each in json.load(tar.extractfile(indexes.pop()))["manifests"]:
                platform = each.get("platform", {})
                yield "/".join(platform[key] for key in ("os", "architecture") if key in platform), each["digest"]
                if each.get("mediaType", "").endswith(("image.index.v1+json", "manifest.list.v2+json")):
                    indexes.append(f"blobs/{each['digest'].replace(':', '/')}")


def subjects(files, version):
    for file in files:
        yield {"name": file.name, "digest": {"sha256": sha256(file)}}
        if file.suffix == ".tar":
            for platform, digest in images_in(file):
                name = f"moonfence:{version}" + (f" {platform}" if platform else "")
                yield {"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}}


def packages(files):
    """The packages of the bills of materials, each once."""
    found = {}
    for file in files:
        if not file.name.endswith(".spdx.json"):
            continue
        for package in json.loads(file.read_text())["packages"]:
            for reference in package.get("externalRefs", []):
                if reference["referenceType"] == "purl":
                    sums = {each["algorithm"].lower(): each["checksumValue"] for each in package.get("checksums", [])}
                    found[reference["referenceLocator"]] = {"uri": reference["referenceLocator"], **({"digest": sums} if sums else {})}
    return [found[uri] for uri in sorted(found)]


def tools():
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture} ${db:Status-Status}\n", *TOOLS],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for name, number, machine, state in sorted(line.split() for line in said.splitlines() if line.count(" ") == 3):
        if state == "installed":
            quoted = urllib.parse.quote(name, safe=""), urllib.parse.quote(number, safe="~")
            yield {"uri": f"pkg:deb/debian/{quoted[0]}@{quoted[1]}?arch={machine}"}


def statement(files, version, commit, parameters):
    """One line, which says the same of the same files: no time and no name of a machine is in it."""
    return json.dumps({
        "_type": STATEMENT, "subject": list(subjects(files, version)), "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "version": version, **parameters},
                "resolvedDependencies": [{"name": "moonfence", "digest": {"gitCommit": commit}}, *packages(files), *tools()]},
            "runDetails": {"builder": {"id": BUILDER}}}}, sort_keys=True) + "\n"


PLUGIN = """\
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: moonfence
spec:
  version: v{version}
  homepage: {base_url}
  shortDescription: Explain and plan fencing of dead nodes
  description: |
    Says what moonfence, a fencing daemon, would do in this cluster if a node died now (plan), why a pod was or was not
    deleted (explain), and which policies are in force and which nodes are down (status).
  caveats: |
    The commands ask the cluster with your own rights. `kubectl moonfence status` needs moonfence in the cluster.
  platforms:
"""
PLATFORM = """\
  - selector:
      matchLabels: {{os: linux, arch: {architecture}}}
    uri: {base_url}/{name}
    sha256: {digest}
    bin: kubectl-moonfence
"""


def krew_manifest(files, version, base_url):
    """Of the archives of the plug-in among the files; "" when there is none."""
    prefix, suffix = f"kubectl-moonfence-{version}-linux-", ".tar.gz"
    archives = [file for file in files if file.name.startswith(prefix) and file.name.endswith(suffix)]
    platforms = [PLATFORM.format(architecture=file.name.removeprefix(prefix).removesuffix(suffix), base_url=base_url,
                                 name=file.name, digest=sha256(file)) for file in archives]
    return PLUGIN.format(version=version, base_url=base_url) + "".join(platforms) if platforms else ""
