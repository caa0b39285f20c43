"""An OCI image, byte by byte: layers, manifests, an index. Shared by scripts/image and its tests; nothing here asks the computer
or the clock."""
import gzip
import hashlib
import io
import json
import pathlib
import shutil
import tarfile

from artifact import commit, fail, stamp, version

USER = 65532
PROGRAM = "usr/bin/moonfence"
FOLDER, FILE, RUNNABLE, OPEN_FOLDER = 0o755, 0o644, 0o755, 0o1777
MEDIA = "application/vnd.oci.image"
MANIFEST, INDEX = "manifest.v1+json", "index.v1+json"


class Layer:
    """Files by name; the tar of them depends on nothing else."""

    def __init__(self):
        self.entries = {}

    def add(self, name, content=b"", mode=FILE, link=""):
        """A file, with `link` a symbolic link; a name that ends in / is a folder."""
        content = content.encode() if isinstance(content, str) else content
        self.entries[name] = (content, mode, link)
        for parent in pathlib.PurePosixPath(name.rstrip("/")).parents:
            if str(parent) != ".":
                self.entries.setdefault(f"{parent}/", (b"", FOLDER, ""))

    def take(self, tree, left_out):
        """What of an extracted tree belongs into the image."""
        with tarfile.open(tree) as tar:
            for member in tar:
                name = member.name.removeprefix("./").strip("/")
                if name in ("", ".") or left_out.match(name) or member.isdir():
                    continue  # a folder comes with its first file
                if member.issym():
                    self.add(name, link=member.linkname)
                elif member.isfile() or member.islnk():
                    self.add(name, tar.extractfile(member).read(), RUNNABLE if member.mode & 0o111 else FILE)

    def tar(self, seconds):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
            for name, (content, mode, link) in sorted(self.entries.items()):
                member = tarfile.TarInfo(name.rstrip("/"))
                member.mtime, member.mode = seconds, mode
                if link:
                    member.type, member.linkname, member.mode = tarfile.SYMTYPE, link, 0o777
                elif name.endswith("/"):
                    member.type = tarfile.DIRTYPE
                member.size = len(content) if member.isreg() else 0
                tar.addfile(member, io.BytesIO(content))
        return out.getvalue()


class Archive:
    """An OCI image layout."""

    def __init__(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        (folder / "blobs" / "sha256").mkdir(parents=True)

    def blob(self, content, media):
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / "blobs" / "sha256" / digest).write_bytes(content)
        return {"mediaType": f"{MEDIA}.{media}", "digest": f"sha256:{digest}", "size": len(content)}

    def blob_of(self, value, media):
        return self.blob(json.dumps(value, sort_keys=True).encode(), media)

    def packed(self, target, seconds):
        tree = Layer()
        for path in sorted(self.folder.rglob("*")):
            if path.is_file():
                tree.add(str(path.relative_to(self.folder)), path.read_bytes())
        target.write_bytes(tree.tar(seconds))

    def image(self, layer, architecture, seconds):
        """Adds an image of one layer; (its descriptor, bytes to download, bytes unpacked)."""
        tar = layer.tar(seconds)
        packed = self.blob(gzip.compress(tar, 9, mtime=0), "layer.v1.tar+gzip")
        config = self.blob_of({
            "architecture": architecture, "os": "linux", "created": stamp(seconds),
            "config": {"User": f"{USER}:{USER}", "Entrypoint": [f"/{PROGRAM}"], "Cmd": ["run"], "WorkingDir": "/",
                       "Env": ["PATH=/usr/bin"], "ExposedPorts": {"8080/tcp": {}, "8081/tcp": {}}, "Labels": labels(seconds)},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}"]},
            "history": [{"created": stamp(seconds), "created_by": "scripts/image"}]}, "config.v1+json")
        manifest = self.blob_of({"schemaVersion": 2, "mediaType": f"{MEDIA}.{MANIFEST}", "config": config, "layers": [packed],
                                 "annotations": labels(seconds)}, MANIFEST)
        return ({**manifest, "platform": {"architecture": architecture, "os": "linux"}},
                manifest["size"] + config["size"] + packed["size"], len(tar))

    def index(self, images, seconds):
        """Adds an index of images; its descriptor."""
        return self.blob_of({"schemaVersion": 2, "mediaType": f"{MEDIA}.{INDEX}", "manifests": images,
                             "annotations": labels(seconds)}, INDEX)

    def finish(self, top, target, seconds):
        """`top`, an image or an index, is what the archive `target` is loaded as."""
        named = {"org.opencontainers.image.ref.name": version(),
                 "io.containerd.image.name": f"docker.io/library/moonfence:{version()}"}
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [{**top, "annotations": named}]},
                                                           sort_keys=True))
        (self.folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.packed(target, seconds)


def layers_in(file):
    """Of an archive that has been written: the tar of each image's layer, by architecture. Every digest is looked at."""
    with tarfile.open(file) as archive:
        blobs = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}

    def blob(described):
        content = blobs["blobs/" + described["digest"].replace(":", "/")]
        if described["digest"] != f"sha256:{hashlib.sha256(content).hexdigest()}" or described["size"] != len(content):
            fail(f"{file.name}: {described['digest']} is something else")
        return content
    (top,) = json.loads(blobs["index.json"])["manifests"]
    found = json.loads(blob(top))
    manifests = [json.loads(blob(each)) for each in found["manifests"]] if top["mediaType"].endswith(INDEX) else [found]
    layers = {}
    for manifest in manifests:
        config, (layer,) = json.loads(blob(manifest["config"])), manifest["layers"]
        tar = gzip.decompress(blob(layer))
        if config["rootfs"]["diff_ids"] != [f"sha256:{hashlib.sha256(tar).hexdigest()}"]:
            fail(f"{file.name}: the layer for {config['architecture']} is something else")
        layers[config["architecture"]] = tar
    return layers


def labels(seconds):
    return {"org.opencontainers.image.title": "moonfence", "org.opencontainers.image.version": version(),
            "org.opencontainers.image.revision": commit(), "org.opencontainers.image.created": stamp(seconds),
            "org.opencontainers.image.licenses": "Apache-2.0"}
