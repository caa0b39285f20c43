"""Reads the API server's audit log: who did what to which object, when, and with which body.

The server writes an entry before the client sees the end of the answer (mode blocking), so what a
test has seen happen is in the log. A watch has two entries: its start and its end.
"""

import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Optional

from .growing_file import next_line, whole_lines

ENTRY_BEGINS = '{"kind":"Event","apiVersion":"audit.k8s.io/'


def _time(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() if text else 0.0


def whole_entry(line: str) -> str:
    """The entry of a line. A server that is killed may leave half an entry without its end of line; the next
    server's first entry then follows in the same line, and only that one is whole."""
    return line[line.rfind(ENTRY_BEGINS):] if ENTRY_BEGINS in line else line


@dataclass
class Entry:
    """One audited request. Times are seconds since the epoch, by the API server's clock."""

    user: str
    agent: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    uri: str
    status: int
    stage: str
    received: float
    staged: float
    body: Any
    raw: dict = field(repr=False)

    @property
    def uid_precondition(self) -> Optional[str]:
        return ((self.body or {}).get("preconditions") or {}).get("uid")

    @property
    def grace(self) -> Optional[int]:
        return (self.body or {}).get("gracePeriodSeconds")

    @staticmethod
    def parse(line: str) -> "Entry":
        raw = json.loads(whole_entry(line))
        ref = raw.get("objectRef") or {}
        return Entry(
            user=raw.get("user", {}).get("username", ""), agent=raw.get("userAgent", ""), verb=raw["verb"],
            resource=ref.get("resource", ""), subresource=ref.get("subresource", ""),
            namespace=ref.get("namespace", ""), name=ref.get("name", ""), uri=raw["requestURI"],
            status=(raw.get("responseStatus") or {}).get("code", 0), stage=raw["stage"],
            received=_time(raw.get("requestReceivedTimestamp", "")), staged=_time(raw.get("stageTimestamp", "")),
            body=raw.get("requestObject"), raw=raw)


def that_did_it(entries: list, is_gone: bool) -> list:
    """Of the deletions of one object those that did it. An API server that stood still for longer than a deletion may
    last, on a busy machine, answers 504: it has done it or not, and whether the object is gone tells."""
    return [e for e in entries if e.status == 200] or [e for e in entries if e.status == 504 and is_gone][:1]


def is_once(entries: list) -> bool:
    """No deletion of the object follows one that was answered."""
    return bool(entries) and all(e.status == 504 for e in entries[:-1])


class AuditLog:
    """A view of the log from a position on. `mark()` gives a later view: only what follows counts."""

    def __init__(self, path, offset: int = 0):
        self.path = Path(path)
        self.offset = offset

    def mark(self) -> "AuditLog":
        """A view that begins now. An entry that is being written counts as one that follows."""
        return AuditLog(self.path, next_line(self.path))

    def entries(self) -> list:
        return [Entry.parse(line) for line in whole_lines(self.path, self.offset)]

    def find(self, by: str = None, agent: str = None, verb: str = None, resource: str = None,
             name: str = None, namespace: str = None, subresource: str = None, status: int = None) -> list:
        """Entries that match all that is given. `by` (user name), `agent` and `name` are regular
        expressions that must match from the start; `verb` may list several, separated by commas."""
        def wanted(e: Entry) -> bool:
            return ((by is None or re.match(by, e.user)) and (agent is None or re.match(agent, e.agent))
                    and (verb is None or e.verb in verb.split(",")) and (resource is None or e.resource == resource)
                    and (name is None or re.match(name, e.name)) and (namespace is None or e.namespace == namespace)
                    and (subresource is None or e.subresource == subresource)
                    and (status is None or e.status == status))
        return [e for e in self.entries() if wanted(e)]

    def deletes(self, **filters) -> list:
        """Every delete and deletecollection, filtered as in find()."""
        return self.find(verb="delete,deletecollection", **filters)

    def writes(self, **filters) -> list:
        return self.find(verb="create,update,patch,delete,deletecollection", **filters)

    def users(self) -> set:
        return {e.user for e in self.entries()}
