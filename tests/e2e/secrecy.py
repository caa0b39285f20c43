"""No token may be in what an engine writes: its log at level debug and its audit records."""

import re
from pathlib import Path

# the beginning of every JWT is the base64 of {" ; its signature alone would be as bad as the whole
JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}")
TOKEN = re.compile(r"(?m)^\s*token:\s*(\S+)")


def secrets_of(engine) -> set:
    """The token of the engine's kubeconfig, or the one that is mounted, whole and by parts."""
    tokens = TOKEN.findall(Path(engine.kubeconfig).read_text()) if Path(engine.kubeconfig).is_file() else []
    if engine.token_file:
        tokens.append(engine.token_file.read_text())
    return {part for token in tokens for part in (token, *token.split(".")) if len(part) > 8}


def check_untold(engines, more: tuple = ()):
    for engine in engines:
        for path in (engine.log_file, engine.record_file):
            text = path.read_text(errors="replace") if path.exists() else ""
            assert not JWT.search(text), f"a token is in {path.name}"
            assert not [s for s in (*secrets_of(engine), *more) if s in text], f"a secret is in {path.name}"
