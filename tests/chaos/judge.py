"""What an engine deleted, by the API server's audit log, held against what it may delete."""

from collections import Counter
from typing import Iterable

REFUSED = (401, 403)  # before the body was read, so there is none in the log


def faults_of(entries: Iterable, pods: set, attachments: set, raced: bool = False) -> list:
    """What is wrong with these deletions, in words. `pods` and `attachments` are the UIDs that may go, each of them
    once. (Two that `raced` for one may both be told 200.)"""
    faults, effective = [], Counter()
    for entry in entries:
        if entry.status in REFUSED:
            continue
        allowed = {"pods": pods, "volumeattachments": attachments}.get(entry.resource)
        what = f"{entry.verb} of {entry.resource} {entry.namespace}/{entry.name} ({entry.uid_precondition})"
        if allowed is None or entry.verb != "delete" or entry.subresource:
            faults.append(f"{what}: nothing of that kind may be deleted")
        elif not entry.uid_precondition:
            faults.append(f"{what}: without a UID precondition")
        elif entry.uid_precondition not in allowed:
            faults.append(f"{what}: must not be deleted")
        elif entry.resource == "pods" and entry.grace != 0:
            faults.append(f"{what}: grace {entry.grace}")
        elif entry.status == 200:
            effective[entry.uid_precondition] += 1
    return faults + [f"{uid} was deleted {count} times" for uid, count in effective.items() if count > 1 and not raced]
