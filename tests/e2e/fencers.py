"""The fencers of an engine in the cluster, with the BMC of each node that has one, by its label `bmc`."""

from .redfish_api import RedfishApi


class Fencers:
    def __init__(self, cluster, space: str, folder):
        self.cluster, self.space, self.folder = cluster, space, folder
        self.bmcs: dict = {}
        (folder / "user").write_text("admin")

    def bmc_of(self, node: str) -> RedfishApi:
        """Made, and named by the node's label."""
        name = f"bmc-{len(self.bmcs) + 1}"
        bmc = RedfishApi(self.cluster.client.get("nodes", node)["status"]["nodeInfo"]["systemUUID"])
        self.cluster.client.patch("nodes", node, {"metadata": {"labels": {"bmc": name}}})
        self.bmcs[name] = bmc
        self.say(bmc, bmc.password)
        return bmc

    def say(self, bmc: RedfishApi, password: str):
        """What moonfence thinks that its password is."""
        (name,) = [each for each, known in self.bmcs.items() if known is bmc]
        (self.folder / name).write_text(password)

    def write(self, more: str = "", config: str = ""):
        endpoints = "".join(
            f"  {name}: {{url: '{bmc.url}', auth: {{type: basic, usernameFile: {self.folder}/user, passwordFile: {self.folder}/{name}}}}}\n"
            for name, bmc in self.bmcs.items())
        text = config or ("api: 1\nfencers:\n- {fencer: redfish, nodes: bmc, settings: {endpoint_label: bmc}, switchOff: true}\n"
                          f"{more}endpoints:\n{endpoints}")
        if self.cluster.client.find("configmaps", "moonfence-config", self.space):
            self.cluster.client.patch("configmaps", "moonfence-config", {"data": {"config.yaml": text}}, self.space)
        else:
            self.cluster.client.create("configmaps", {"metadata": {"name": "moonfence-config"}, "data": {"config.yaml": text}}, self.space)

    def resets(self) -> list:
        return [reset for bmc in self.bmcs.values() for reset in bmc.resets]

    def stop(self):
        for bmc in self.bmcs.values():
            bmc.stop()
