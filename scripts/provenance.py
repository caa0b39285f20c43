"""What scripts/release writes about the files it made: their provenance (SLSA 1.0 in an in-toto statement,
docs/releasing.md#provenance) and the manifest of the kubectl plug-in for krew."""
import hashlib
import json
import re
import subprocess
import tarfile
import urllib.parse

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://moonfence.io/slsa/release/v1"
BUILDER = "https://moonfence.io/slsa/scripts-release/v1"
# Of the computer that runs scripts/release; whose versions make a difference to the Debian package.
TOOLS = ("binutils", "cmake", "dpkg-dev", "g++-12", "ninja-build")
HOST_TOOL = re.compile("pkg:deb/debian/(" + "|".join(re.escape(urllib.parse.quote(name, safe="")) for name in TOOLS) + r")@[\w.%~-]+\?arch=\w+")


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def images_in(file):
    """(what it is, digest, what it says) of each index of images, each image and each configuration in an OCI archive; nothing for
    another file. What it is: the platform, if it has one, and "config". ctr gives an image that it imports its configuration's digest."""
    if not tarfile.is_tarfile(file):
        return
    with tarfile.open(file) as tar:
        def blob(digest):
            content = tar.extractfile(f"blobs/{digest.replace(':', '/')}").read()
            if digest != f"sha256:{hashlib.sha256(content).hexdigest()}":
                raise ValueError(f"{digest} is not its digest")
            return json.loads(content)
        names = set(tar.getnames())
        indexes = [json.load(tar.extractfile("index.json"))] if {"index.json", "oci-layout"} <= names else []
        while indexes:
            for each in indexes.pop()["manifests"]:
                platform, content = each.get("platform", {}), blob(each["digest"])
                named = "/".join(platform[key] for key in ("os", "architecture") if key in platform)
                yield named, each["digest"], content
                if each.get("mediaType", "").endswith(("image.index.v1+json", "manifest.list.v2+json")):
                    indexes.append(content)
                else:
                    digest = content["config"]["digest"]
                    yield f"{named} config".strip(), digest, blob(digest)


def commits_in(file):
    """What each image, index and configuration in an OCI archive names as its source."""
    for _, _, content in images_in(file):
        labels = content.get("annotations") or content.get("config", {}).get("Labels") or {}
        yield labels.get("org.opencontainers.image.revision", "")


def subjects(files, version):
    for file in files:
        yield {"name": file.name, "digest": {"sha256": sha256(file)}}
        if file.suffix == ".tar":
            for what, digest, _ in images_in(file):
                name = f"moonfence:{version}" + (f" {what}" if what else "")
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


def tool(name, number, machine, builds):
    quoted = urllib.parse.quote(name, safe=""), urllib.parse.quote(number, safe="~")
    return {"uri": f"pkg:deb/debian/{quoted[0]}@{quoted[1]}?arch={machine}", "annotations": {"builds": builds}}


def tools_of_image(files):
    """All packages of the clean root that it was built in."""
    for file in files:
        if file.name.endswith("-build-packages.txt"):
            for line in sorted(set(file.read_text().splitlines())):
                yield tool(*line.split("\t"), "image")


def tools_of_package():
    """Of this computer, which compiles the program of the Debian package."""
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version} ${Architecture} ${db:Status-Status}\n", *TOOLS],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    for name, number, machine, state in sorted(line.split() for line in said.splitlines() if line.count(" ") == 3):
        if state == "installed":
            yield tool(name, number, machine, "package")


def dependencies(files, commit):
    """What can be said of the files anywhere; the tools of the computer that made the Debian package only there."""
    return [{"name": "moonfence", "digest": {"gitCommit": commit}}, *packages(files), *tools_of_image(files)]


def statement(files, version, commit, parameters):
    """One line, which says the same of the same files: no time and no name of a machine is in it."""
    return json.dumps({
        "_type": STATEMENT, "subject": list(subjects(files, version)), "predicateType": PREDICATE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"commit": commit, "version": version, **parameters},
                "resolvedDependencies": [*dependencies(files, commit), *tools_of_package()]},
            "runDetails": {"builder": {"id": BUILDER}}}}, sort_keys=True) + "\n"


def differs(told, files, version, commit):
    """In what a statement is not what we would write of these files: the name of it, or "" if in nothing."""
    said, expected = json.loads(told), json.loads(statement(files, version, commit, {}))
    made, ours = (each["predicate"]["buildDefinition"] for each in (said, expected))
    if said["subject"] != expected["subject"]:
        return "subject"
    if told != json.dumps(said, sort_keys=True) + "\n":
        return "spelling"  # another reader may understand something else
    base_url = made["externalParameters"].pop("baseUrl", None)
    if base_url is not None and not isinstance(base_url, str):
        return "baseUrl"
    if made["externalParameters"] != ours["externalParameters"]:
        return "externalParameters"
    known = dependencies(files, commit)
    theirs = made.pop("resolvedDependencies")
    ours.pop("resolvedDependencies")
    host = [each for each in theirs[len(known):]
            if set(each) == {"uri", "annotations"} and each["annotations"] == {"builds": "package"} and HOST_TOOL.fullmatch(each["uri"])]
    if theirs != known + host:
        return "resolvedDependencies"
    return "" if said == expected else "predicate"


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
