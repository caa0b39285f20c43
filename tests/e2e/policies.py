"""The ConfigMap moonfence-policies as an administrator edits it, and what the engine says of it.

    policies = PolicyMap(client, namespace)
    policies.write(noobaa=NOOBAA_TEXT, mode="enforce")          # binds each policy to the namespace
    policies.wait_state("noobaa", "Active")
"""

import json
from typing import Optional

from .kube import wait_for

NAME, STATUS, LAST_GOOD = "moonfence-policies", "moonfence-status", "moonfence-lastgood"


def policy_text(name: str, verdict: str, select: str = "", more: str = "") -> str:
    """A policy whose pod function returns this verdict, for example 'fence.skip("no")'."""
    chosen = f'select = {{ labels = "{select}" }}, ' if select else ""
    return (f'return policy {{ api = 1, name = "{name}", version = "1.0.0", summary = "a test",\n'
            f"  {chosen}trigger = {{ live_kubelet = true }}, {more}\n"
            f"  pod = function(pod)\n    return {verdict}\n  end,\n}}\n")


DELETES = 'fence.delete_pod("a test says so")'
SKIPS = 'fence.skip("a test says so")'


class PolicyMap:
    def __init__(self, client, namespace: str):
        self.client, self.namespace = client, namespace

    def bindings(self, *names: str, mode: str = "enforce", namespaces: Optional[list] = None, ceiling: str = "enforce",
                 more: str = "") -> str:
        """moonfence.yaml that binds NAME.lua of each name to the namespace of the test."""
        spaces = json.dumps(namespaces or [self.namespace])
        return f"api: 1\nmode: {ceiling}\nbindings:\n" + "".join(
            f"- policy: {name}\n  source: {name}.lua\n  namespaces: {spaces}\n  mode: {mode}\n  holdDown: 0s\n{more}" for name in names)

    def write(self, data: Optional[dict] = None, mode: str = "enforce", **texts: str) -> dict:
        """Replaces everything by NAME.lua for each given text, bound in this mode, and by `data`."""
        content = {"moonfence.yaml": self.bindings(*texts, mode=mode)} if texts else {}
        content.update({f"{name}.lua": text for name, text in texts.items()})
        content.update(data or {})
        body = {"metadata": {"name": NAME}, "data": content}
        if self.client.find("configmaps", NAME, self.namespace):
            return self.client.replace("configmaps", body, self.namespace)
        return self.client.create("configmaps", body, self.namespace)

    def edit(self, **data: Optional[str]) -> dict:
        """Changes keys; None removes one. Underscores stand for dots: noobaa_lua, moonfence_yaml."""
        keys = {key.replace("_lua", ".lua").replace("_yaml", ".yaml"): value for key, value in data.items()}
        return self.client.patch("configmaps", NAME, {"data": keys}, self.namespace)

    def remove(self):
        self.client.delete("configmaps", NAME, self.namespace)

    def status(self) -> dict:
        """{replica: what it says}."""
        found = self.client.find("configmaps", STATUS, self.namespace)
        return {name: json.loads(text) for name, text in ((found or {}).get("data") or {}).items()}

    def told(self, policy: str) -> dict:
        """What the only replica says of a policy; {} while it says nothing."""
        for replica in self.status().values():
            for entry in replica["policies"]:
                if entry["name"] == policy:
                    return entry
        return {}

    def wait_state(self, policy: str, state: str, seconds: float = 90) -> dict:
        seen: list = [None]

        def check():
            seen[0] = self.status()
            return self.told(policy).get("state") == state
        try:
            wait_for(f"policy {policy} is {state}", check, seconds, 0.02)
        except TimeoutError as error:
            raise TimeoutError(f"{error}; last seen: {json.dumps(seen[0])}") from None
        return self.told(policy)

    def wait_observed(self, written: dict, seconds: float = 90) -> dict:
        """The status speaks of this version of the ConfigMap; it is returned."""
        version = written["metadata"]["resourceVersion"]

        def check():
            return next((r for r in self.status().values() if r["observedResourceVersion"] == version), None)
        return wait_for(f"version {version} of the policies is observed", check, seconds, 0.02)

    def events(self, reason: str) -> list:
        return [e for e in self.client.list("events", self.namespace)
                if e["reason"] == reason and e["involvedObject"]["name"] == NAME]
