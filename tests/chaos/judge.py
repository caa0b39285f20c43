"""What an engine deleted and what it patched of nodes, by the API server's audit log, held against what it may."""

from collections import Counter
from typing import Iterable

from e2e.hollow_objects import attachment_name, unique_volume

REFUSED = (401, 403)  # before the body was read, so there is none in the log


def faults_of(entries: Iterable, pods: set, attachments: set, raced: bool = False, late: bool = False) -> list:
    """What is wrong with these deletions, in words. `pods` and `attachments` are the UIDs that may go, each of them
    once. (Two that `raced` for one may both be told 200. Where packets are swallowed a call may arrive `late`, after
    somebody made it again: about an attachment that its finalizer keeps the second is told 200 too, and changes nothing.)"""
    faults, effective, kept = [], Counter(), set()
    for entry in entries:
        if entry.status in REFUSED:
            continue
        allowed = {"pods": pods, "volumeattachments": attachments}.get(entry.resource)
        if (entry.resource, entry.verb) == ("configmaps", "delete") and (entry.name or "").startswith("moonfence-incident-"):
            continue  # its own record of an incident of which nothing came
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
            if late and entry.resource == "volumeattachments":
                kept.add(entry.uid_precondition)
    return faults + [f"{uid} was deleted {count} times" for uid, count in effective.items()
                     if count > (2 if uid in kept else 1) and not raced]


# --- nodes

IN_USE, TAINTS, ANNOTATIONS = "/status/volumesInUse", "/spec/taints", "/metadata/annotations"
KEY, EFFECT = "moonfence.io/fenced", "NoSchedule"
MARK = f"{ANNOTATIONS}/{KEY.replace('/', '~1')}"


class Absence:
    """By the API server's own answers: was an attachment away at a moment? It was when somebody had asked for it and
    been told 404 by then, and nobody had made it since."""

    def __init__(self, entries: Iterable):
        self.away: dict = {}  # name -> when requests came that were told 404, and when they had been answered
        self.made: dict = {}  # name -> when it was made
        for entry in entries:
            if entry.resource != "volumeattachments":
                continue
            if entry.status == 404:
                self.away.setdefault(entry.name, []).append((entry.received, entry.staged))
            elif entry.verb == "create" and entry.status == 201:
                self.made.setdefault(entry.name, []).append(entry.staged)

    def __call__(self, name: str, at: float) -> bool:
        asked = max((came for came, answered in self.away.get(name, ()) if answered <= at), default=0)
        return asked > max((made for made in self.made.get(name, ()) if made <= at), default=0)


class Patch:
    """A JSON patch: what it demands and what it changes."""

    def __init__(self, operations: list):
        self.tests = {o["path"]: o["value"] for o in operations if o["op"] == "test"}
        self.changes = {o["path"]: o.get("value") for o in operations if o["op"] != "test"}

    def ready(self) -> str:
        """The status of the Ready condition that it demands, "" for none."""
        place = next((path for path, value in self.tests.items() if path.endswith("/type") and value == "Ready"), "")
        return self.tests.get(place.replace("/type", "/status"), "")

    def heartbeat(self) -> bool:
        return any(path.endswith("/lastHeartbeatTime") and value for path, value in self.tests.items())

    def released(self) -> list:
        left = self.changes.get(IN_USE) or []
        return [name for name in self.tests.get(IN_USE) or [] if name not in left]


def released_by(entry) -> list:
    """The volumes which that patch took off the list of those in use."""
    return Patch(entry.body).released()


def faults_of_patches(entries: Iterable, failed: set, driver: str, is_gone: Absence) -> list:
    """What is wrong with the engines' writes to nodes, in words. `entries`: all that they did. Only nodes that failed
    may be patched. Of their status only volumes of this driver may be taken off the list of those in use, when the
    engines had told their attachment to that node to go and it was gone; beside that only our own taint and
    annotation may change."""
    faults, asked = [], {}  # attachments that they told to go, and when first
    for entry in sorted(entries, key=lambda e: e.received):
        if entry.resource == "volumeattachments" and entry.verb == "delete":
            asked.setdefault(entry.name, entry.received)
        if entry.resource != "nodes" or entry.status in REFUSED or entry.verb in ("get", "list", "watch"):
            continue
        wrong = [] if entry.name in failed else ["it never failed"]
        if entry.verb != "patch" or entry.subresource not in ("", "status") or not isinstance(entry.body, list):
            wrong.append("nothing of that kind may be done to nodes")
        elif entry.subresource == "status":
            wrong += _wrong_release(entry, driver, asked, is_gone)
        else:
            wrong += _wrong_taint(Patch(entry.body))
        faults += [f"{entry.verb} of nodes {entry.name} {entry.subresource} ({entry.status}): {w}" for w in wrong]
    return faults


def _untested(patch: Patch, *paths: str) -> list:
    return [f"{path} is not tested" for path in paths if not patch.tests.get(path)]


def _wrong_release(entry, driver: str, asked: dict, is_gone: Absence) -> list:
    patch = Patch(entry.body)
    wrong = _untested(patch, "/metadata/uid", "/status/nodeInfo/bootID", IN_USE)
    if patch.ready() not in ("False", "Unknown") or not patch.heartbeat():
        wrong.append("the node need not be down, or may have been heard of")
    released = patch.released()
    if set(patch.changes) != {IN_USE} or not released:
        wrong.append(f"it changes {sorted(patch.changes)} and releases {released}")
    if patch.changes.get(IN_USE) != [name for name in patch.tests.get(IN_USE) or [] if name not in released]:
        wrong.append("it does more to the list of volumes in use than to take some off")
    for name in released:
        prefix = unique_volume(driver, "")
        attachment = attachment_name(driver, name.removeprefix(prefix), entry.name)
        if not name.startswith(prefix):
            wrong.append(f"{name} is not one of {driver}")
        elif attachment not in asked:
            wrong.append(f"nobody had told {attachment} of {name} to go")
        elif not is_gone(attachment, entry.received):
            wrong.append(f"{attachment} of {name} was not gone")
    return wrong


def _wrong_taint(patch: Patch) -> list:
    wrong = _untested(patch, "/metadata/uid", "/status/nodeInfo/bootID")
    before, after = patch.tests.get(TAINTS) or [], patch.changes.get(TAINTS) or []
    if TAINTS not in patch.tests:
        wrong.append("the taints are not tested")
    if TAINTS not in patch.changes:
        after = before
    ours = [taint for taint in after if taint["key"] == KEY]
    if [t for t in before if t["key"] != KEY] != [t for t in after if t["key"] != KEY]:
        wrong.append("it changes other taints than ours")
    if [taint["effect"] for taint in ours] not in ([], [EFFECT]):
        wrong.append(f"it sets {ours}")
    if not ours and patch.ready() != "True" and TAINTS in patch.changes:
        wrong.append("our taint comes off a node that need not be Ready")
    whole = patch.changes.get(ANNOTATIONS)
    if set(patch.changes) - {TAINTS, MARK, ANNOTATIONS} or (whole and (
            set(whole) != {KEY} or patch.tests.get(ANNOTATIONS, whole) is not None)):
        wrong.append(f"it changes {sorted(patch.changes)}")
    return wrong


def deleted_untainted(entries: Iterable, node_of: dict, carry: Iterable = ()) -> list:
    """Pods that the engines deleted before the node had our taint. Where an engine was killed while its patch was under
    way the log has no answer, or a 5xx: it has set the taint if the node is one that `carry` names and no other set it."""
    def sets_taint(entry) -> bool:
        return any(taint["key"] == KEY for taint in Patch(entry.body).changes.get(TAINTS) or [])

    faults, tainted = [], set()
    ordered = sorted(entries, key=lambda e: e.staged)
    patches = [e for e in ordered if e.resource == "nodes" and e.verb == "patch" and not e.subresource]
    answered = {e.name for e in patches if e.status == 200 and sets_taint(e)}
    for entry in ordered:
        if entry.resource == "nodes" and entry.verb == "patch" and not entry.subresource:
            unheard = (entry.status == 0 or entry.status >= 500) and entry.name in set(carry) - answered
            if entry.status == 200 or (unheard and sets_taint(entry)):
                (tainted.add if sets_taint(entry) else tainted.discard)(entry.name)
        elif entry.resource == "pods" and entry.verb == "delete" and entry.status == 200:
            if node_of.get(entry.uid_precondition) not in tainted:
                faults.append(f"pod {entry.name} ({entry.uid_precondition}) was deleted before its node was tainted")
    return faults
