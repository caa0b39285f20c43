"""The fencers for virtual machines (fencers/NAME/README.md) over real HTTP: each logs in as its cloud wants it, finds the machine of a
node, and reads that it runs. The clouds are stand-ins made from their documentation."""

import base64
import json
import urllib.parse

import pytest

from .cloud_api import CloudApi

WORKS, BROKEN = 0, 10
USER, SECRET = "moon fence", 's3"cret&=+%'


def shown(header: str, value: str, answer):
    """The answer to whoever shows this, 401 to everybody else."""
    return lambda request: (200, answer) if request.headers.get(header) == value else (401, {"error": "who is it?"})


def hetzner(node, uuid):
    return "hcloud://42", "auth: {type: bearer, tokenFile: FOLDER/secret}", "", {
        "GET /servers/42": shown("Authorization", "Bearer " + SECRET, {"server": {"id": 42, "name": node, "status": "running"}})}


def proxmox(node, uuid):
    token = "PVEAPIToken=" + SECRET
    return "proxmox://dc1/107", "auth: {type: bearer, tokenFile: FOLDER/secret, sendPrefix: PVEAPIToken=}", "region: dc1", {
        "GET /cluster/resources?type=vm": shown("Authorization", token, {"data": [{"vmid": 107, "type": "qemu", "node": "pve1"}]}),
        "GET /nodes/pve1/qemu/107/status/current": shown("Authorization", token, {"data": {"vmid": 107, "status": "running", "qmpstatus": "running"}}),
        "GET /nodes/pve1/qemu/107/config?current=1": shown("Authorization", token, {"data": {"smbios1": f"uuid={uuid}"}})}


def openstack(node, uuid):
    def log_in(request):
        credential = {"id": USER, "secret": SECRET}
        wanted = {"auth": {"identity": {"methods": ["application_credential"], "application_credential": credential}}}
        return (201, {"token": {}}, {"X-Subject-Token": "gAAA"}) if json.loads(request.body) == wanted else (401, {})

    def server(request):
        if request.headers.get("X-Auth-Token") != "gAAA" or request.headers.get("X-OpenStack-Nova-API-Version") != "2.16":
            return 401, {}
        return 200, {"server": {"id": uuid, "status": "ACTIVE", "OS-EXT-STS:power_state": 1, "OS-EXT-STS:task_state": None, "host_status": "UP"}}
    return f"openstack:///{uuid}", """headers: {X-OpenStack-Nova-API-Version: "2.16"}, auth: {type: login, path: /v3/auth/tokens,
        usernameFile: FOLDER/user, passwordFile: FOLDER/secret, tokenHeader: X-Subject-Token, sendHeader: X-Auth-Token,
        body: {auth: {identity: {methods: [application_credential], application_credential: {id: "{username}", secret: "{password}"}}}}}""", "", {
        "POST /v3/auth/tokens": log_in, f"GET /servers/{uuid}": server}


def vsphere(node, uuid):
    def log_in(request):
        wanted = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        return (201, "b00-1") if request.headers.get("Authorization") == wanted and request.body == "" else (401, {})

    def with_session(answer):
        return shown("vmware-api-session-id", "b00-1", answer)
    return f"vsphere://{uuid}", """auth: {type: login, path: /api/session, send: basic, usernameFile: FOLDER/user,
        passwordFile: FOLDER/secret, tokenField: ., sendHeader: vmware-api-session-id}""", "name_label: vm-name", {
        "POST /api/session": log_in,
        "GET /api/vcenter/vm?names=my-vm": with_session([{"vm": "vm-42", "name": "my-vm", "power_state": "POWERED_ON"}]),
        "GET /api/vcenter/host": with_session([{"host": "host-9", "connection_state": "CONNECTED"}]),
        "GET /api/vcenter/vm/vm-42": with_session({"power_state": "POWERED_ON", "identity": {"bios_uuid": uuid}})}


def azure(node, uuid):
    vm = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachines/n1"

    def log_in(request):
        wanted = {"grant_type": ["client_credentials"], "client_id": [USER], "client_secret": [SECRET], "scope": ["https://management.azure.com/.default"]}
        return (200, {"access_token": "eyJ", "expires_in": 3599}) if urllib.parse.parse_qs(request.body, strict_parsing=True) == wanted else (401, {})
    return f"azure://{vm}", """auth: {type: login, path: /t/oauth2/v2.0/token, send: form, usernameFile: FOLDER/user, passwordFile: FOLDER/secret,
        body: {grant_type: client_credentials, client_id: "{username}", client_secret: "{password}", scope: "https://management.azure.com/.default"},
        tokenField: access_token, expiresField: expires_in}""", "", {
        "POST /t/oauth2/v2.0/token": log_in,
        f"GET {vm}?%24expand=instanceView&api-version=2024-07-01": shown("Authorization", "Bearer eyJ", {"properties": {
            "vmId": uuid, "instanceView": {"statuses": [{"code": "ProvisioningState/succeeded"}, {"code": "PowerState/running"}]}}})}


def gce(node, uuid):
    return f"gce://p/z/{node}", """auth: {type: login, path: /token, send: nothing, headers: {Metadata-Flavor: Google}, tokenField: access_token,
        expiresField: expires_in}""", "", {
        "GET /token": shown("Metadata-Flavor", "Google", {"access_token": "ya29", "expires_in": 3000}),
        f"GET /compute/v1/projects/p/zones/z/instances/{node}": shown("Authorization", "Bearer ya29", {"id": "77", "name": node, "status": "RUNNING"})}


@pytest.mark.parametrize("make", [hetzner, proxmox, openstack, vsphere, azure, gce])
def test_it_reads_that_the_machine_runs(make, cluster, nodes, workloads, tool, tmp_path):
    node, name = nodes[0], make.__name__
    uuid = cluster.client.get("nodes", node)["status"]["nodeInfo"]["systemUUID"].lower()
    provider_id, rules, settings, routes = make(node, uuid)
    cloud = CloudApi(routes)
    try:
        cluster.client.patch("nodes", node, {"spec": {"providerID": provider_id}, "metadata": {
            "labels": {"vm-name": "my-vm"}, "annotations": {"container.googleapis.com/instance_id": "77"}}})
        (tmp_path / "user").write_text(USER)
        (tmp_path / "secret").write_text(SECRET)
        (tmp_path / "config.yaml").write_text(
            f"api: 1\nendpoints: {{{name}: {{url: '{cloud.url}', {rules.replace('FOLDER', str(tmp_path))}}}}}\n"
            f"fencers: [{{fencer: {name}, settings: {{{settings}}}, switchOff: true}}]\n")
        said = tool.engine("fencer", "check", node, "--config", str(tmp_path / "config.yaml"), code=WORKS)
        assert f"{name}" in said and " on " in said
        if name != "gce":
            (tmp_path / "secret").write_text("wrong")
            said = tool.engine("fencer", "check", node, "--config", str(tmp_path / "config.yaml"), code=BROKEN)
            assert " failed " in said and "HTTP 401" in said and f"endpoint {name}" in said
        assert not [line for line in cloud.seen if line.startswith("POST") and line not in routes], "it only asks"
        assert "wrong" not in said and SECRET not in said
    finally:
        cloud.stop()
