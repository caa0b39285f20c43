"""Tokens of service accounts that the API server would not make: expired ones, signed with its own key."""

import base64
import json
import subprocess
import time


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _raw_signature(der: bytes) -> bytes:
    """r and s as 32 bytes each, out of the ASN.1 sequence of two integers that openssl writes."""
    numbers, at = [], 2
    for _ in range(2):
        length = der[at + 1]
        numbers.append(int.from_bytes(der[at + 2:at + 2 + length], "big").to_bytes(32, "big"))
        at += 2 + length
    return b"".join(numbers)


def expired_token(authority, namespace: str, account: dict) -> str:
    """A token of the ServiceAccount object that ran out a minute ago."""
    _, private = authority.signing_key("service-account")
    name, uid = account["metadata"]["name"], account["metadata"]["uid"]
    now, issuer = int(time.time()), "https://kubernetes.default.svc"
    claims = {"aud": [issuer], "iss": issuer, "iat": now - 700, "nbf": now - 700, "exp": now - 60,
              "sub": f"system:serviceaccount:{namespace}:{name}",
              "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}}
    signed = ".".join(_text(json.dumps(part).encode()) for part in ({"alg": "ES256"}, claims))
    der = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(private)], input=signed.encode(),
                         stdout=subprocess.PIPE, check=True).stdout
    return f"{signed}.{_text(_raw_signature(der))}"
