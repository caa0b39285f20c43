"""A certificate authority for one test cluster, made with the openssl program."""

import base64
import os
import subprocess
import threading
from pathlib import Path

LOOPBACK_NAMES = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc"


def _openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words[0]} failed: {done.stderr.strip()}")
    return done.stdout


class Authority:
    """Keys and certificates in `folder`; what exists there is used again."""

    def __init__(self, folder: Path):
        self.folder = Path(folder)
        self._issuing = threading.Lock()  # one for each lane of chaos may want the same one at once
        self.folder.mkdir(parents=True, exist_ok=True)
        os.chmod(self.folder, 0o700)
        self.cert, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        if not self.cert.exists():
            self._new_key(self.key)
            _openssl("req", "-x509", "-new", "-key", self.key, "-days", "3650", "-subj", "/CN=moonfence-test-ca",
                     "-addext", "basicConstraints=critical,CA:TRUE",
                     "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature", "-out", self.cert)

    @staticmethod
    def _new_key(path):
        _openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", path)
        os.chmod(path, 0o600)

    def _issue(self, name, subject, extensions):
        cert, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        with self._issuing:
            self._issue_once(name, subject, extensions, cert, key)
        return cert, key

    def _issue_once(self, name, subject, extensions, cert, key):
        if not cert.exists():
            request, wanted = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
            self._new_key(key)
            _openssl("req", "-new", "-key", key, "-subj", subject, "-out", request)
            wanted.write_text("basicConstraints=CA:FALSE\n" + extensions)
            _openssl("x509", "-req", "-in", request, "-CA", self.cert, "-CAkey", self.key, "-CAcreateserial",
                     "-days", "3650", "-extfile", wanted, "-out", cert)
            request.unlink()
            wanted.unlink()

    def server(self, name: str, names: str = LOOPBACK_NAMES):
        """(certificate, key) of a server that answers on loopback."""
        return self._issue(name, f"/CN={name}", f"extendedKeyUsage=serverAuth\nsubjectAltName={names}\n")

    def client(self, user: str, group: str = ""):
        """(certificate, key) that the API server takes for `user`, a member of `group`."""
        subject = (f"/O={group}" if group else "") + f"/CN={user}"
        return self._issue("client-" + user.replace(":", "-"), subject, "extendedKeyUsage=clientAuth\n")

    def signing_key(self, name: str):
        """(public key, private key), for service account tokens."""
        public, private = self.folder / f"{name}.pub", self.folder / f"{name}.key"
        if not public.exists():
            self._new_key(private)
            _openssl("ec", "-in", private, "-pubout", "-out", public)
        return public, private


def write_kubeconfig(path: Path, server: str, ca: Path, cert: Path = None, key: Path = None,
                     token: str = None, token_file: str = None, namespace: str = "default") -> Path:
    """A kubeconfig of one context. Certificates are embedded, so the file can be copied anywhere."""

    def data(file):
        return base64.b64encode(Path(file).read_bytes()).decode()

    user = ""
    if cert:
        user += f"    client-certificate-data: {data(cert)}\n    client-key-data: {data(key)}\n"
    if token:
        user += f"    token: {token}\n"
    if token_file:
        user += f"    tokenFile: {token_file}\n"
    text = f"""apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: {server}
    certificate-authority-data: {data(ca)}
users:
- name: test
  user:
{user or '    {}'}
contexts:
- name: test
  context:
    cluster: test
    user: test
    namespace: {namespace}
current-context: test
"""
    path = Path(path)
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text)
    return path
