"""What moonfence is told to do with the workloads of a story.

    noobaa    shipped: pods without a volume
    generic   shipped: pods whose volumes no longer take a detached node's writes
    risks     written here, as an administrator would: pods whose old node may write on. It moves them all the same,
              and says so in the incident's record before anything is done

The driver of both volumes is declared to fence (`fencingDrivers`). For the second one that is not true: it is the risk
that this administrator takes, since the engine detaches nothing of a driver that is not declared.
"""

import json

from cluster.volumes import ATTACHER_LEASE, DRIVER
from e2e.engine import RELEASE_RULES, RULES, STORAGE_RULES
from e2e.policies import PolicyMap

FENCED_LABEL, RISKED_LABEL = "moonfence.io/fence", "example.com/at-risk"
FENCED_WORDS = "its node is down; all its volumes are fenced by their drivers"
RISK = "its node is silent, and its storage does not keep that node from writing: two pods may write to the volume"
RISKS = f"""return policy {{
  api = 1, name = "risks", version = "1.0.0",
  summary = "Move pods although their storage does not keep the old node from writing",
  select = {{ labels = "{RISKED_LABEL}=true" }},
  needs = {{ "volumes" }},
  trigger = {{ failures = 1, live_kubelet = false, deleted = false, sweep = true }},
  pod = function()
    return fence.delete_pod_and_attachments({json.dumps(RISK)}, {{ release = true }})
  end,
}}
"""
# takes every pod, whatever controls it
DEAD = """return policy {
  api = 1, name = "dead", version = "1.0.0", summary = "Delete the pods of a dead machine",
  trigger = { failures = 1 },
  pod = function() return fence.delete_pod("its machine is dead") end,
}
"""
POLICIES = ("noobaa", "generic", "risks")
RIGHTS = (*RULES, *STORAGE_RULES, *RELEASE_RULES)
CONFIG = {"fencingDrivers": f"[{DRIVER}]", "release": "on", "attacherLeases": f"{{{DRIVER}: {ATTACHER_LEASE}}}"}


def bindings_file(namespace: str, words: str = "") -> str:
    """`words`: lines that come to each binding."""
    more = {"noobaa": "", "generic": f"  settings: {{drivers: [{DRIVER}], release: true}}\n",
            "risks": "  source: risks.lua\n"}
    bindings = "".join(f"- policy: {name}\n  namespaces: [{namespace}]\n  mode: enforce\n{words}{more[name]}" for name in POLICIES)
    return f"api: 1\nmode: enforce\nbindings:\n{bindings}"


def bind(client, namespace: str):
    """The ConfigMap that an engine of this namespace reads."""
    PolicyMap(client, namespace).write({"moonfence.yaml": bindings_file(namespace), "risks.lua": RISKS})


def in_force(client, namespace: str, replicas: int) -> bool:
    """So many replicas say that they act by every one of them."""
    active = [{policy["name"] for policy in replica["policies"] if policy["state"] == "Active"}
              for replica in PolicyMap(client, namespace).status().values()]
    return active.count(set(POLICIES)) == replicas
