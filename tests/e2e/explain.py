"""What one would look up first when pods or nodes do not become what a test waits for, told by the error itself:
once the test has ended its namespace and its cluster are gone."""

import http.client
from typing import Any, Callable, Optional

from .kube import ApiError, Client, wait_for

TITLE = "newest events"
NEWEST = 12  # of them
WORDS = 300  # letters of one message


def wait_explained(what: str, condition: Callable[[], Any], seconds: float, explanation: Callable[[], str],
                   every: float = 0.1, exact: bool = False) -> Any:
    """wait_for() whose TimeoutError ends with the explanation."""
    try:
        return wait_for(what, condition, seconds, every, exact)
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{explanation()}") from None


def explained(text: str) -> bool:
    """Whether an error holds an explanation already."""
    return f"{TITLE}:" in text


def explain(client: Client, namespace: str, node_labels: Optional[dict] = None, control_plane=None) -> str:
    """The pods and the newest events of a namespace, the nodes with these labels, the last words of the controller
    manager and the scheduler. Never fails: it must not take the place of what it explains."""
    selector = ",".join(f"{key}={value}" for key, value in (node_labels or {}).items())
    parts = [
        _part("pods", pod_line, lambda: client.list("pods", namespace)),
        _part("nodes", node_line, lambda: client.list("nodes", labels=selector or None)),
        _part(TITLE, event_line, lambda: newest(client.list("events", namespace)))]
    if control_plane:
        parts += [f"end of {name}.log:\n{tail}" for name, tail in control_plane.tails().items()]
    return "\n".join(parts)


def _part(title: str, line: Callable[[dict], str], items: Callable[[], list]) -> str:
    try:
        return "\n  ".join([f"{title}:", *([line(item) for item in items()] or ["none"])])
    except (ApiError, OSError, http.client.HTTPException) as error:
        return f"{title}: not to be had: {error}"


def _conditions(status: dict) -> str:
    told = [" ".join(filter(None, [f"{c['type']}={c['status']}", c.get("reason"), c.get("message", "")[:WORDS]]))
            for c in status.get("conditions") or []]
    return "; ".join(told) or "no conditions"


def pod_line(pod: dict) -> str:
    meta, status = pod["metadata"], pod.get("status", {})
    leaving = f", leaving since {meta['deletionTimestamp']}" if "deletionTimestamp" in meta else ""
    return (f"{meta['name']} ({meta['uid']}): {status.get('phase')} on {pod['spec'].get('nodeName', 'no node')}, "
            f"made {meta.get('creationTimestamp')}{leaving}; {_conditions(status)}")


def node_line(node: dict) -> str:
    taints = [f"{t['key']}:{t['effect']}" for t in node["spec"].get("taints") or []]
    return f"{node['metadata']['name']}: {_conditions(node.get('status', {}))}; taints: {', '.join(taints) or 'none'}"


def newest(events: list) -> list:
    """The last ones written: an event that repeats is written again, and not every kind bears the same times."""
    return sorted(events, key=lambda event: int(event["metadata"]["resourceVersion"]))[-NEWEST:]


def event_line(event: dict) -> str:
    at = (event.get("series") or {}).get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    about = event["involvedObject"]
    return f"{at} {event['reason']} {about['kind']}/{about.get('name')}: {event.get('message', '')[:WORDS]}"
