"""What the scripted proxy can do to a request. One class an action; the proxy asks nothing else."""

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union


@dataclass
class Exchange:
    """One request as the proxy saw it. Times are time.monotonic_ns(), the clock of std::steady_clock."""

    method: str
    path: str
    query: str
    headers: dict
    body: bytes
    received_ns: int
    connection: int
    action: str = "forward"
    status: int = 0            # of the response that the client was sent, 0 when none
    upstream_statuses: list = field(default_factory=list)
    first_byte_ns: int = 0     # first byte of the response sent to the client
    finished_ns: int = 0

    @property
    def is_watch(self) -> bool:
        return re.search(r"(^|&)watch=(1|true)(&|$)", self.query) is not None

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None


@dataclass
class Answer:
    """Answers itself; the API server never sees the request. A dict body becomes JSON."""

    status: int
    body: Union[dict, bytes, str] = b""
    headers: dict = field(default_factory=dict)
    close: bool = False

    def payload(self) -> bytes:
        if isinstance(self.body, dict):
            return json.dumps(self.body).encode()
        return self.body.encode() if isinstance(self.body, str) else self.body


def status_answer(code: int, reason: str, message: str = "scripted", headers: Optional[dict] = None,
                  details: Optional[dict] = None) -> Answer:
    """An Answer with a metav1.Status, as the API server would send it."""
    body = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
            "reason": reason, "message": message}
    if details:
        body["details"] = details
    return Answer(code, body, headers or {})


@dataclass
class Hold:
    """Waits before forwarding until `gate` is set. A test that acts meanwhile needs no guess of how long it takes."""

    gate: threading.Event


@dataclass
class DelayAnswer:
    """Forwards at once, holds the answer back."""

    seconds: float


@dataclass
class Call:
    """Calls `function(exchange)` before forwarding; an Answer that it returns is sent instead."""

    function: Callable[[Exchange], Optional[Answer]]


@dataclass
class CommitThenReset:
    """The API server does it; the client's connection is reset before the answer."""


@dataclass
class Reset:
    """The connection is reset; the API server never sees the request."""


@dataclass
class CutBody:
    """Forwards; of the body only the first `after` bytes arrive. `how` it then ends:
    "end"    the connection is closed in good order, in the middle of the framing
    "reset"  by a TCP reset
    "whole"  not at all: the framing is made to fit, so that only the JSON tells that something is missing"""

    after: int
    how: str = "end"


@dataclass
class Stall:
    """Forwards, then falls silent after so many bytes of the body; the connection stays open."""

    after: int = 0


@dataclass
class Duplicate:
    """Sends the request to the API server twice; the client gets the first or the second answer."""

    relay_second: bool = True


@dataclass
class BlackHole:
    """Takes the request and never answers; the API server never sees it."""


@dataclass
class Forward:
    """Nothing special; with `times` it lets the first ones through before a later rule applies."""


Action = Union[Answer, Hold, DelayAnswer, Call, CommitThenReset, Reset, CutBody, Stall, Duplicate, BlackHole, Forward]


class Rule:
    """Matches a method (None: any) and regular expressions searched in path and query. Leaves the first
    `skip` matches alone, then acts `times` times (None: always). `hits` are the exchanges it acted on."""

    def __init__(self, method: Optional[str], path: str, action: Action, query: Optional[str] = None,
                 times: Optional[int] = None, skip: int = 0):
        self.method, self.action, self.times, self.skip = method, action, times, skip
        self.path, self.query = re.compile(path), re.compile(query) if query else None
        self.hits: list = []
        self.active = True

    def takes(self, exchange: Exchange) -> bool:
        """Called under the proxy's lock; counts."""
        if not self.active or (self.times is not None and len(self.hits) >= self.times):
            return False
        if self.method and self.method != exchange.method:
            return False
        if not self.path.search(exchange.path) or (self.query and not self.query.search(exchange.query)):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.hits.append(exchange)
        return True

    def remove(self):
        self.active = False
