"""The Helm chart without a cluster: it renders what kustomize makes of deploy/, and refuses values that contradict each other."""

import copy
import os
import re

import pytest
import yaml

from .control_plane import REPO
from .engine import binary
from .helm import CHART, Helm, HelmError, by_identity, kustomized
from .installation import DEPLOY, one, run_with

# All by which the chart may differ from kustomize: what Helm alone needs. (kind or "", path)
HELMS_OWN = [
    ("Namespace", ""),  # helm --create-namespace makes it
    ("Deployment", "spec/template/metadata/annotations/checksum/config"),  # replaces the pods when the configuration changes
    ("", "metadata/annotations/helm.sh/resource-policy"),  # what uninstalling leaves (deploy/chart/README.md)
]
ENDPOINT = {"url": "http://storageos.storageos.svc:5705", "auth": {
    "type": "login", "path": "/v2/auth/login", "usernameFile": "/etc/moonfence/storageos/username",
    "passwordFile": "/etc/moonfence/storageos/password", "tokenHeader": "Authorization",
    "expiresHeader": "Authorization-Expires-Seconds"}}
LOGIN = {"name": "storageos", "secretName": "moonfence-storageos"}
OVERLAYS = {
    "observe": {}, "enforce": {"mode": "enforce"}, "longhorn": {"config": {"fencingDrivers": ["driver.longhorn.io"]}},
    "storageos": {"config": {"fencingDrivers": ["csi.storageos.com"], "endpoints": {"storageos": ENDPOINT}}, "credentials": [LOGIN]}}
NETWORK_FENCE = {"fencer": "network-fence"}
WRITES = ["csiaddons.openshift.io/v1alpha1/networkfences"]
STORAGE = ["v1/nodes", "csiaddons.openshift.io/v1alpha1/csiaddonsnodes", *WRITES]
HOSTS = ["v1/nodes", "metal3.io/v1alpha1/baremetalhosts"]
AGENTS = ["v1/nodes", "coordination.k8s.io/v1/leases", "fence-agents-remediation.medik8s.io/v1alpha1/fenceagentsremediations"]
# what turns each right on, in mode enforce; nothing else follows from it, but the rights of `AND`
RIGHTS = {
    "enforce": {}, "taint": {"config": {"quarantine": "always"}}, "kubelet": {"rights": {"kubelet": True}},
    "release": {"config": {"release": "on"}}, "attest": {"rights": {"attest": True}}, "fail-pods": {"config": {"failPods": "on"}},
    "network-fence": {"config": {"fencers": [NETWORK_FENCE], "allowedReads": STORAGE}},
    "isolate": {"config": {"fencers": [{**NETWORK_FENCE, "isolate": True}], "allowedReads": STORAGE, "allowedWrites": WRITES}},
    "metal3": {"config": {"fencers": [{"fencer": "metal3"}], "allowedReads": HOSTS}},
    "fence-agents-remediation": {"config": {"fencers": [{"fencer": "fence-agents-remediation"}], "allowedReads": AGENTS}},
    "publish-evidence": {"config": {"publishEvidence": "on"}}, "incidents": {"config": {"incidentObjects": "on"}}, "detection": {"config": {"detection": "on"}},
    "remediation": {"config": {"remediation": "nodeHealthCheck"}}, "serving": {"rights": {"serving": True}}}
AND = {"isolate": ["network-fence"]}
EVERYTHING = {
    "mode": "enforce", "rights": {"kubelet": True, "attest": True},
    "monitoring": {"alerts": {"enabled": True}, "dashboard": {"enabled": True}, "serviceMonitor": {"enabled": True}},
    "policies": {"bindings": [{"policy": "noobaa", "namespaces": ["noobaa"]}]},
    "config": {"quarantine": "always", "release": True, "failPods": "on", "publishEvidence": "on", "incidentObjects": "on", "detection": "on", "remediation": "nodeHealthCheck",
               "allowedWrites": WRITES, "attacherLeases": {"a.example.com": "storage/leader"}, "allowedReads": ["longhorn.io/v1beta2/volumes", *{*STORAGE, *HOSTS, *AGENTS}],
               "fencers": [{"fencer": "metal3"}, {"fencer": "fence-agents-remediation"}, {**NETWORK_FENCE, "isolate": True}]}}
OWN, OWN_FILE = {"fencer": "my", "file": "/etc/moonfence/my.lua", "isolate": True}, {"configFiles": {"my.lua": "--"}}
DIGEST = f"sha256:{'a' * 64}"
HOOK = {"url": "https://hooks.example.com:9443/moonfence", "secretFile": "/etc/moonfence/webhook/secret", "events": ["attention", "settled"]}


@pytest.fixture
def helm(tmp_path) -> Helm:
    return Helm(tmp_path / "helm")


def without_helms_own(each: dict):
    each = copy.deepcopy(each)
    for kind, path in HELMS_OWN:
        if kind not in ("", each["kind"]):
            continue
        if not path:
            return None
        *way, last = re.split(r"/(?!config$|resource-policy$)", path)
        places = [each]
        for word in way:
            places.append(places[-1].get(word, {}))
        places[-1].pop(last, None)
        for outer, word in reversed(list(zip(places, way))):  # what it stood in
            if outer.get(word) == {}:
                del outer[word]
    if "config.yaml" in each.get("data", {}):  # the same configuration, in other words and without comments
        each["data"]["config.yaml"] = yaml.safe_load(each["data"]["config.yaml"])
    return each


def check_same(charted: list, kustomized_: list):
    charted, wanted = ({name: kept for name, each in by_identity(found).items() if (kept := without_helms_own(each))}
                       for found in (charted, kustomized_))
    assert charted.keys() == wanted.keys()
    assert [(charted[name], wanted[name]) for name in wanted if charted[name] != wanted[name]] == []


def test_it_has_in_it_all_that_it_is_made_of(helm, tmp_path):
    helm("package", CHART, "--destination", tmp_path)
    (packed,) = tmp_path.glob("moonfence-*.tgz")
    first, second = (helm("template", "m", chart, "--namespace", "moonfence", "--set", "mode=enforce") for chart in (packed, CHART))
    assert first == second


# --- the same as kustomize

def test_it_is_well_formed(helm):
    helm("lint", "--strict", CHART, "--namespace", "moonfence")


@pytest.mark.parametrize("overlay", sorted(path.parent.name for path in DEPLOY.glob("overlays/*/kustomization.yaml")))
def test_it_renders_what_an_overlay_has(helm, overlay):
    check_same(helm.template(OVERLAYS[overlay]), kustomized(DEPLOY / "overlays" / overlay))


@pytest.mark.parametrize("right", sorted(path.parent.name for path in DEPLOY.glob("rights/*/kustomization.yaml")))
def test_what_the_configuration_turns_on_brings_its_right_and_no_other(helm, right):
    values = {"mode": "enforce", **RIGHTS[right]}
    folders = [DEPLOY / "overlays" / "enforce", *(DEPLOY / "rights" / name for name in [right, *AND.get(right, [])])]
    wanted = [each for folder in folders for each in kustomized(folder)]
    wanted = [each for i, each in enumerate(wanted) if each not in wanted[:i]]  # the overlay has rights/enforce
    one(wanted, "ConfigMap", "moonfence-config")["data"]["config.yaml"] = yaml.safe_dump(
        {"api": 1, "fencingDrivers": [], **values.get("config", {})})
    leases = [each for each in helm.template(values) if each["metadata"]["name"] == "moonfence-reads"]  # of which the right has a part alone
    assert len(leases) == (2 if right == "fence-agents-remediation" else 0)
    check_same([each for each in helm.template(values) if each not in leases], wanted)


def test_it_renders_what_monitoring_has(helm):
    watched = {"monitoring": EVERYTHING["monitoring"]}
    check_same(helm.template(watched), [*kustomized(DEPLOY / "overlays" / "observe"), *kustomized(DEPLOY / "monitoring")])


def test_secure_serving_renders_what_the_component_has(helm, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    parts = [os.path.relpath(DEPLOY.resolve() / name, own.resolve()) for name in ("overlays/observe", "monitoring", "components/secure-serving")]
    (own / "kustomization.yaml").write_text(yaml.safe_dump({"resources": parts[:2], "components": parts[2:]}))
    check_same(helm.template({"monitoring": EVERYTHING["monitoring"], "secureServing": {"enabled": True}}), kustomized(own))


def test_a_certificate_of_a_secret_is_mounted_and_checked_by_prometheus(helm):
    found = helm.template({"monitoring": EVERYTHING["monitoring"], "secureServing": {"enabled": True, "certificateSecret": "moonfence-tls"}})
    pod = one(found, "Deployment")["spec"]["template"]["spec"]
    assert {"name": "serving", "secret": {"secretName": "moonfence-tls", "optional": True}} in pod["volumes"]
    (mount,) = [each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "serving"]
    assert f"--serving-certificate={mount['mountPath']}" in pod["containers"][0]["args"] and mount["readOnly"]
    (endpoint,) = one(found, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint["tlsConfig"] == {"serverName": "moonfence.moonfence.svc", "ca": {"secret": {"name": "moonfence-tls", "key": "ca.crt"}}}
    with pytest.raises(HelmError):
        helm.template({"secureServing": {"certificateSecret": "moonfence-tls"}})


def test_nobody_may_review_tokens_unless_serving_is_secured(helm):
    assert not right_to(helm.template({}), "create", "tokenreviews")
    assert right_to(helm.template({"secureServing": {"enabled": True}}), "create", "tokenreviews")


def test_in_another_namespace_everything_is_about_that_one(helm):
    """A namespace may be called like a number."""
    here, helm.namespace = helm.template(EVERYTHING), "123"
    there = helm.template(EVERYTHING)
    named = re.compile(r"\bmoonfence:moonfence\b|namespaces?(: |:\n *- |=\")moonfence\b")
    assert len(here) == len(there) and named.search(yaml.safe_dump(here)) and not named.search(yaml.safe_dump(there))
    spaces = {each["metadata"].get("namespace") for each in there}
    assert spaces == {None, "123", "kube-node-lease", "kube-system", "storage", "fence-agents-remediation"}
    accounts = [subject for each in there for subject in each.get("subjects", [])]
    assert accounts and all(subject["namespace"] == "123" for subject in accounts)
    assert yaml.safe_dump(there).count("system:serviceaccount:123:moonfence") == yaml.safe_dump(here).count(
        "system:serviceaccount:moonfence:moonfence") > 8


# --- what a value does

def right_to(found: list, verb: str, resource: str) -> bool:
    return any(verb in rule["verbs"] and resource in rule.get("resources", []) for each in found
               if each["kind"] in ("Role", "ClusterRole") and each["metadata"]["name"] not in ("moonfence-attest", "moonfence-ext-remediation")
               for rule in each["rules"])


def test_the_default_may_delete_nothing_and_binds_nothing(helm):
    found = helm.template({})
    assert "--mode=observe" in one(found, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"]
    for resource in ("pods", "volumeattachments", "nodes", "nodes/status"):
        assert not right_to(found, "delete", resource) and not right_to(found, "patch", resource)
    assert "moonfence-policies" not in {each["metadata"]["name"] for each in found}


def test_observing_brings_no_right_to_write_whatever_is_configured(helm):
    found = helm.template({"config": {"quarantine": "always", "silentTaint": "on", "detection": "on", "release": "on",
                                      "fencers": [{**NETWORK_FENCE, "isolate": True}], "allowedReads": STORAGE, "allowedWrites": WRITES}})
    for verb in ("delete", "patch", "create"):
        for resource in ("pods", "volumeattachments", "nodes", "nodes/status", "networkfences"):
            assert not right_to(found, verb, resource), (verb, resource)


def test_what_writes_to_nodes_is_kept_in_bounds_in_mode_observe_too(helm):
    found = helm.template({"rights": {"taint": True}})
    assert right_to(found, "patch", "nodes") and one(found, "ValidatingAdmissionPolicy", "moonfence-nodes")


def test_the_pod_names_no_user(helm):
    """OpenShift's restricted-v2 refuses ids outside of the namespace's range."""
    spec = one(helm.template({**EVERYTHING, "credentials": [LOGIN]}), "Deployment")["spec"]["template"]["spec"]
    for context in (spec["securityContext"], spec["containers"][0]["securityContext"]):
        assert not {"runAsUser", "runAsGroup", "fsGroup", "supplementalGroups"} & set(context)
    assert spec["securityContext"]["runAsNonRoot"] is True


def test_words_that_yaml_takes_for_booleans_reach_the_engine_as_words(helm, tmp_path):
    """`release: on` in a file of values is `true` when Helm has read it; `mode: off` must not be lost."""
    values = tmp_path / "mine.yaml"
    values.write_text("mode: enforce\nconfig: {release: on, detection: on, quarantine: off, remediation: off, publishEvidence: off, silentTaint: off,\n"
                      "  brake: {maxDown: off, zone: {maxAtOnce: off}}}\n"
                      "policies: {mode: off, bindings: [{policy: noobaa, namespaces: [noobaa], mode: off, actOn: off}]}\n")
    found = [each for each in yaml.safe_load_all(helm("template", "m", CHART, "-n", "moonfence", "-f", values)) if each]
    config = one(found, "ConfigMap", "moonfence-config")["data"]["config.yaml"]
    assert yaml.safe_load(config) == {
        "api": 1, "fencingDrivers": [], "release": "on", "detection": "on", "quarantine": "off", "remediation": "off", "publishEvidence": "off",
        "silentTaint": "off", "brake": {"maxDown": "off", "zone": {"maxAtOnce": "off"}}}
    policies = one(found, "ConfigMap", "moonfence-policies")["data"]
    assert set(policies) == {"moonfence.yaml"}, "the key `mode` is people's"
    assert yaml.safe_load(policies["moonfence.yaml"]) == {"api": 1, "mode": "off", "bindings": [
        {"policy": "noobaa", "namespaces": ["noobaa"], "mode": "off", "actOn": "off"}]}


def test_the_engine_reads_what_the_chart_writes(helm, tmp_path):
    wordy = {"config": {"release": True, "quarantine": False, "brake": {"maxDown": False, "maxAtOnce": 5, "zone": {"maxDown": "50%"}},
                        "endpoints": {"storageos": ENDPOINT}, "cacheExpiry": 0}, "credentials": [LOGIN]}
    for values in (EVERYTHING, wordy):
        config = one(helm.template(values), "ConfigMap", "moonfence-config")["data"]["config.yaml"]
        assert "config.yaml" not in run_with(binary(), config, tmp_path)


def test_protected_namespaces_reach_the_admission_policy(helm):
    def protected(config: dict) -> str:
        policy = one(helm.template({"mode": "enforce", "config": config}), "ValidatingAdmissionPolicy", "moonfence-deletions")
        return policy["spec"]["validations"][1]["expression"].split(" in ")[1]
    assert protected({}) == "['kube-system', 'kube-public', 'kube-node-lease'])"
    assert protected({"protectedNamespaces": ["kube-system", "gold"]}) == "['kube-system', 'gold'])"
    assert protected({"protectedNamespaces": []}) == "[])"


def test_a_change_of_the_configuration_replaces_the_pods_and_nothing_else_does(helm):
    def mark(**values) -> str:
        return one(helm.template(values), "Deployment")["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
    marks = [mark(), mark(config={"retryInterval": "6s"}), mark(configFiles={"my.lua": "-- mine"})]
    assert len(set(marks)) == 3
    assert mark(policies={"bindings": [{"policy": "noobaa", "namespaces": ["noobaa"]}]}) == marks[0]


def test_an_image_is_named_by_tag_or_by_digest(helm):
    def image(**about) -> str:
        return one(helm.template({"image": about}), "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    version = re.search(r"project\(moonfence VERSION (\S+)", (REPO / "CMakeLists.txt").read_text())[1]
    assert image() == f"moonfence:{version}"
    assert image(repository="registry.example.com:5000/moonfence", tag="1.2") == "registry.example.com:5000/moonfence:1.2"
    assert image(digest=DIGEST) == f"moonfence@{DIGEST}" and image(tag="1.2", digest=DIGEST) == f"moonfence:1.2@{DIGEST}"


NAME_SERVERS = [("UDP", 53), ("TCP", 53), ("UDP", 5353), ("TCP", 5353)]  # the second are OpenShift's


def test_an_endpoint_lets_its_port_and_name_servers_out(helm):
    def ports(url: str, **more) -> list:
        values = {"config": {"endpoints": {"a": {"url": url, **more}}}}
        rules = one(helm.template(values), "NetworkPolicy")["spec"]["egress"]
        return [(port["protocol"], port["port"]) for port in rules[1]["ports"]]
    names = NAME_SERVERS
    assert ports("https://a.example.com:9443/api") == [*names, ("TCP", 9443)]
    assert ports("https://a.example.com") == names, "443 is let out already"
    assert ports("http://a.example.com", auth={
        "type": "login", "url": "https://b.example.com:5000", "path": "/login", "tokenField": "token"}) == [*names, ("TCP", 80), ("TCP", 5000)]


def test_every_rendering_is_the_same(helm):
    values = {"config": {"endpoints": {name: {"url": f"https://{name}.example.com:{7000 + at}"} for at, name in enumerate("dbcaf")}}}
    first = helm.template(values)
    assert all(helm.template(values) == first for _ in range(6))


def test_the_admission_policies_can_be_there_before_the_right_to_delete(helm):
    def policies(found: list) -> dict:
        return {name: each for name, each in by_identity(found).items() if each["kind"].startswith("ValidatingAdmission")}
    observing, early, enforcing = (helm.template(values) for values in ({}, {"admissionPolicies": "always"}, {"mode": "enforce"}))
    assert not policies(observing) and policies(early) == policies(enforcing) != {}
    assert [each for each in early if each not in policies(early).values()] == observing, "and nothing else"
    assert helm.template({"admissionPolicies": "always", "mode": "enforce"}) == enforcing
    assert not policies(helm.template({"admissionPolicies": False, "mode": "enforce"}))


def test_the_webhook_lets_its_port_out_and_has_its_secret_mounted(helm):
    values = {"config": {"webhook": HOOK}, "credentials": [{"name": "webhook", "secretName": "moonfence-webhook"}]}
    made = helm.template(values)
    ports = one(made, "NetworkPolicy")["spec"]["egress"][1]["ports"]
    assert [(port["protocol"], port["port"]) for port in ports] == [*NAME_SERVERS, ("TCP", 9443)]
    pod = one(made, "Deployment")["spec"]["template"]["spec"]
    (volume,) = [each["name"] for each in pod["volumes"] if each.get("secret", {}).get("secretName") == "moonfence-webhook"]
    assert "/etc/moonfence/webhook" in [each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume]
    config = yaml.safe_load(one(made, "ConfigMap", "moonfence-config")["data"]["config.yaml"])
    assert config["webhook"] == HOOK


def test_the_receiver_of_traces_is_let_out(helm):
    setting = {"url": "http://otel-collector.observability:4318", "cluster": "berlin-1"}
    made = helm.template({"config": {"traces": setting}})
    ports = one(made, "NetworkPolicy")["spec"]["egress"][1]["ports"]
    assert [(port["protocol"], port["port"]) for port in ports] == [*NAME_SERVERS, ("TCP", 4318)]
    assert yaml.safe_load(one(made, "ConfigMap", "moonfence-config")["data"]["config.yaml"])["traces"] == setting


def test_the_leader_policy_alone_can_be_left_out(helm):
    every, without = ({(each["kind"], each["metadata"]["name"]) for each in helm.template({"mode": "enforce", "leaderPolicy": leader})}
                      for leader in (True, False))
    assert every - without == {(f"ValidatingAdmissionPolicy{end}", "moonfence-leader") for end in ("", "Binding")}


def test_a_fencer_of_ones_own_gets_the_right_to_what_it_may_write_alone(helm):
    rules = [{"apiGroups": ["a.example.com"], "resources": ["fences"], "verbs": ["create"]}]
    found = helm.template({"mode": "enforce", "config": {"fencers": [OWN], "allowedWrites": ["a.example.com/v1/fences"]}, "rights": {"extra": rules}, **OWN_FILE})
    assert one(found, "ClusterRole", "moonfence-extra")["rules"] == rules and not right_to(found, "create", "networkfences")


def test_without_a_network_policy_none_shuts_the_pods_in(helm):
    """The one of detection lets out to kubelets alone: by itself it would cut the pods off from the API server."""
    found = helm.template({"networkPolicy": {"enabled": False}, "config": {"detection": "on"}})
    assert "NetworkPolicy" not in {each["kind"] for each in found}


def test_what_policies_read_and_whose_leases_are_asked_gets_a_role_for_it_alone(helm):
    found = helm.template({"mode": "enforce", "config": {
        "release": "on", "controllerLease": "control/kcm", "attacherLeases": {"a.example.com": "storage/a", "b.example.com": "storage/b"},
        "fencers": [{"fencer": "fence-agents-remediation", "settings": {"namespace": "far"}}],
        "allowedReads": [*AGENTS, "longhorn.io/v1beta2/volumes", "metal3.io/v1alpha1/baremetalhosts"]}})
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in one(found, "ClusterRole", "moonfence-reads")["rules"]] == [
        ([group], [kind], ["get", "list"]) for group, kind in [("coordination.k8s.io", "leases"), ("longhorn.io", "volumes"), ("metal3.io", "baremetalhosts")]]
    assert one(found, "Role", "moonfence-attachers")["metadata"]["namespace"] == "storage"
    assert one(found, "Role", "moonfence-attachers")["rules"][0]["resourceNames"] == ["a", "b"]
    release = one(found, "Role", "moonfence-release")
    assert release["metadata"]["namespace"] == "control" and release["rules"][0]["resourceNames"] == ["kcm"]
    assert one(found, "Role", "moonfence-fence-agents-remediation")["metadata"]["namespace"] == "far"


# --- what is refused

# what one value alone can be; Helm tells everything that is wrong at once
WRONG = [({
    "mode": "delete", "modes": "enforce", "replicas": 0, "image": {"digest": "sha256:abc", "repository": "moonfence@sha256:abc"},
    "config": {"api": 2, "fencingDriver": [], "quarantine": "on", "cacheExpiry": "soon", "retryInterval": 5, "allowedReads": ["v1/secrets"],
               "allowedWrites": ["rbac.authorization.k8s.io/v1/clusterroles"], "protectedNamespaces": ["a', 'b"]},
    "policies": {"bindings": [{"policy": "noobaa"}], "files": {"moonfence.yaml": ""}}, "configFiles": {"config.yaml": ""},
    "rights": {"taint": "yes", "extra": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["delete"]}]},
    "networkPolicy": {"apiServerPorts": []}, "credentials": [{"name": "config", "secretName": "a"}]}, [
    "at '/mode': value must be one of 'observe', 'enforce'", "additional properties 'modes' not allowed",
    "at '/replicas': minimum: got 0, want 1", "at '/image/digest'", "at '/image/repository'", "at '/config/api': value must be 1",
    "at '/config': additional properties 'fencingDriver' not allowed", "at '/config/quarantine': value must be one of 'off', 'missing', 'always'",
    "at '/config/cacheExpiry'", "at '/config/retryInterval'", "at '/config/allowedReads/0'", "at '/config/allowedWrites/0'",
    "at '/config/protectedNamespaces/0'", "at '/policies/bindings/0': missing property 'namespaces'",
    "at '/policies/files': additional properties 'moonfence.yaml' not allowed", "at '/configFiles'",
    "at '/rights/taint': value must be one of 'auto', true, false", "at '/rights/extra/0/apiGroups/0'", "at '/rights/extra/0/verbs/0'",
    "at '/networkPolicy/apiServerPorts': minItems: got 0, want 1", "at '/credentials/0/name'"]),
    ({"replicas": 6, "rights": {"extra": [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"], "verbs": ["patch"]}],
                                "taint": None}, "config": None, "image": {"tag": None, "repository": "moonfence:latest"}}, [
        "missing property 'config'", "at '/rights': missing property 'taint'", "at '/image': missing property 'tag'", "at '/image/repository'", "at '/replicas': maximum: got 6, want 5", "at '/rights/extra/0/apiGroups/0'"])]


# what the engine would refuse at start: each is refused at its place
STARTS_NOT = {"config": {
    "leaseDuration": ["0s", "1.5h30m", 0], "leaseRetry": ["0"], "retryInterval": ["0s"], "leastAfter": ["0m"], "cacheExpiry": ["999999999999h", "99999h"],
    "brake": [{"maxDown": 0}, {"maxDown": "5000%"}, {"zone": {"minDown": "50%"}}, {"exclude": ["((("]}, {"window": "0s"}],
    "proof": [{"everywhere": ["zzz"]}, {"everywhere": []}, {"namespaces": {"A B": ["off"]}}], "holdMarks": [["a b"], ["/a"]],
    "fencers": [[{"fencer": "nobody"}], [{**OWN, "nodes": ""}], [{**OWN, "nodes": "{"}], [{**OWN, "file": "/etc/moonfence/../my.lua"}], [{**OWN, "file": "/my.lua"}]],
    "allowedReads": [["foo/v1/secrets"]],
    "webhook": [{"url": "https://a"}, {**HOOK, "events": []}, {**HOOK, "events": ["closed"]}, {**HOOK, "source": "a b"}, {**HOOK, "url": "http://a", "tls": {"ca": "/etc/moonfence/a/ca"}},
                {**HOOK, "auth": {"type": "aws", "region": "a", "accessKeyFile": "/etc/moonfence/a/a", "secretKeyFile": "/etc/moonfence/a/b"}}],
    "traces": [{"cluster": "a"}, {"url": "https://a/v1/traces"}, {"url": "https://a", "cluster": "a b"}, {"url": "http://a", "tls": {"ca": "/etc/moonfence/a/ca"}},
               {"url": "https://a", "auth": {"type": "aws", "region": "a", "accessKeyFile": "/etc/moonfence/a/a", "secretKeyFile": "/etc/moonfence/a/b"}}],
    "endpoints": [{"A B": {"url": "https://a"}}, *({"a": {"url": url}} for url in ("https://a:99999", "https://a/?x=1", "https://a:0", "ftp://a", "https://b@a")),
                  {"a": {"url": "http://a", "tls": {"ca": "/etc/moonfence/a/ca"}}}, {"a": {"url": "https://a", "tls": {"clientCertificate": "/etc/moonfence/a/c"}}},
                  *({"a": {"url": "https://a", "auth": auth}} for auth in (
                      {"type": "basic"}, {"type": "none", "pasword": "a"}, {**ENDPOINT["auth"], "url": "nonsense"}, {"type": "bearer"},
                      {"type": "login", "path": "/a"}, {"type": "aws"}, {"type": "basic", "usernameFile": "/a", "passwordFile": "/b"}))]},
    "policies": {"bindings": [[{"policy": "nooba", "namespaces": ["a"]}], [{"policy": "noobaa", "namespaces": ["NOT A NAMESPACE"]}]]},
    "resources": {"requests": [{"cpu": "lots"}]}, "image": {"repository": ["a..b//c"]}, "nodeSelector": {"a b": ["c"]},
    "networkPolicy": {"extraEgress": [[{}], [{"to": []}], [{"ports": []}], [{"prots": [{"port": 1}]}]]},
    "rights": {"extra": [[{"apiGroups": [group], "resources": ["a"], "verbs": ["get"]}] for group in (
        "moonfence.io", "remediation.moonfence.io", "metal3.io", "csiaddons.openshift.io")] + [[{"apiGroups": ["a.io"], "resources": [], "verbs": []}]]}}


@pytest.mark.parametrize("group, key", [(group, key) for group, keys in STARTS_NOT.items() for key in keys])
def test_what_the_engine_would_refuse_at_start_is_refused_before(helm, group, key):
    for wrong in STARTS_NOT[group][key]:
        with pytest.raises(HelmError, match=f"at '/{group}"):
            helm.template({group: {key: wrong}, **OWN_FILE})


@pytest.mark.parametrize("wrong", [["kez"], [{"kez": "a"}], [{"effect": "Sometimes"}], [{}]])
def test_a_toleration_is_one(helm, wrong):
    with pytest.raises(HelmError, match="at '/tolerations/0"):
        helm.template({"tolerations": wrong})


@pytest.mark.parametrize("values, all_told", WRONG, ids=["many", "others"])
def test_a_value_that_is_none_is_refused_with_its_place(helm, values, all_told):
    with pytest.raises(HelmError) as refused:
        helm.template(values)
    assert [told for told in all_told if told not in str(refused.value)] == []


@pytest.mark.parametrize("values, told", [
    ({"mode": "enforce", "config": {"quarantine": "missing"}, "rights": {"taint": False}}, "rights.taint is false, and config.quarantine"),
    ({"mode": "enforce", "config": {"release": "on"}, "rights": {"release": False}}, "rights.release is false, and config.release needs it"),
    ({"config": {"publishEvidence": "on"}, "rights": {"publishEvidence": False}}, "rights.publishEvidence is false"),
    ({"config": {"incidentObjects": "on"}, "rights": {"incidents": False}}, "rights.incidents is false"),
    ({"mode": "enforce", "config": {"fencers": [{**NETWORK_FENCE, "isolate": True}], "allowedReads": STORAGE, "allowedWrites": WRITES}, "rights": {"isolate": False}},
     "rights.isolate is false, and isolate: true of a fencer needs it"),
    ({"config": {"fencers": [{"fencer": "metal3"}]}, "rights": {"metal3": False}}, "rights.metal3 is false, and fencer metal3 needs it"),
    ({"config": {"remediation": "nodeHealthCheck"}, "rights": {"remediation": False}}, "rights.remediation is false"),
    ({"config": {"allowedReads": ["longhorn.io/v1beta2/volumes"]}, "rights": {"reads": False}}, "rights.reads is false"),
    ({"config": {"fencers": [{**NETWORK_FENCE, "isolate": True}]}}, "config.allowedWrites names nothing that it may make"),
    ({"config": {"fencers": [{"fencer": "fence-agents-remediation", "settings": {"namespace": ""}}], "allowedReads": AGENTS}}, "its setting namespace is \"\""),
    ({"configFiles": {"a": "1"}, "credentials": [{"name": "a", "secretName": "a"}]}, "credentials: a is in /etc/moonfence twice"),
    ({"config": {"fencers": [{"fencer": "metal3"}], "allowedReads": ["v1/nodes"]}}, "metal3 needs metal3.io/v1alpha1/baremetalhosts, which config.allowedReads"),
    ({"config": {"fencers": [{"fencer": "metal3", "switchOff": True}], "allowedReads": HOSTS}}, "baremetalhosts, which config.allowedWrites does not name"),
    ({"mode": "enforce", "config": {"fencers": [OWN], "allowedWrites": ["a.example.com/v1/fences"]}, **OWN_FILE}, "say rights.extra, or leave it out"),
    ({"mode": "enforce", "config": {"fencers": [{**OWN, "isolate": False}], "allowedWrites": WRITES}, **OWN_FILE}, "say rights.isolate=true, or leave it out"),
    ({"rights": {"extra": [{"apiGroups": ["a.example.com"], "resources": ["fences"], "verbs": ["create"]}]}}, "in mode observe nothing is written"),
    ({"config": {"silentTaint": "on"}}, "config.silentTaint is on, and knows of silence by config.detection alone"),
    ({"config": {"fencers": [{"fencer": "my", "file": "/etc/moonfence/my.lua"}]}}, "my: file is /etc/moonfence/my.lua, which no pod has"),
    ({"config": {"endpoints": {"storageos": ENDPOINT}}}, "config.endpoints.storageos.auth.passwordFile is /etc/moonfence/storageos/password, which no pod has"),
    ({"config": {"webhook": HOOK}}, "config.webhook.secretFile is /etc/moonfence/webhook/secret, which no pod has"),
    ({"config": {"traces": {"url": "https://otel", "tls": {"ca": "/etc/moonfence/otel/ca.crt"}}}}, "config.traces.tls.ca is /etc/moonfence/otel/ca.crt, which no pod has"),
    ({"policies": {"bindings": [{"policy": "my-db", "source": "my-db.lua", "namespaces": ["db"]}]}}, "is my-db.lua, which is not in policies.files"),
    ({"policies": {"bindings": [{"policy": "noobaa", "namespaces": ["noobaa"], "actOn": "lost"}]}}, "does nothing without config.detection"),
    ({"policies": {"files": {"my-db.lua": "return policy {}"}}}, "do nothing without policies.bindings"),
    ({"policies": {"mode": "off"}}, "do nothing without policies.bindings"),
    ({"reset": True, "config": {"quarantine": "off"}, "policies": {"bindings": [{"policy": "noobaa", "namespaces": ["noobaa"]}]}}, "reset is true, and these"),
])
def test_values_that_contradict_each_other_are_refused_with_the_rule(helm, values, told):
    with pytest.raises(HelmError) as refused:
        helm.template(values)
    assert told in str(refused.value)


@pytest.mark.parametrize("namespace", ["default", "kube-node-lease", "kube-public", "kube-system", "a' || true || 'b"])
def test_only_a_namespace_of_its_own_is_taken(helm, namespace):
    helm.namespace = namespace
    with pytest.raises(HelmError, match="moonfence needs a namespace of its own"):
        helm.template({})


def test_a_cluster_that_is_too_old_is_refused(helm):
    with pytest.raises(HelmError, match=r"requires kubeVersion: >=1\.31\.0-0 which is incompatible with Kubernetes v1\.30"):
        helm.template({}, "--kube-version", "1.30")


# --- what is written about it

def explained_values(text: str) -> dict:
    """{value: whether a comment stands above it, or above the group it is in}, by the lines of values.yaml."""
    found, way, before = {}, [], ""
    for line in text.splitlines():
        if key := re.match(r"( *)(\w+):(.*)", line):
            way = [*way[:len(key[1]) // 2], (key[2], before.lstrip().startswith("#"))]
            found[".".join(name for name, _ in way)] = any(told for _, told in way)
        before = line
    groups = {name.rpartition(".")[0] for name in found} - {"resources"}
    return {name: told for name, told in found.items() if name not in groups and not name.startswith("resources.")}


def test_every_value_has_a_comment_and_a_row():
    told = explained_values((CHART / "values.yaml").read_text())
    assert len(told) > 30 and [name for name, has in told.items() if not has] == []
    assert sorted(re.findall(r"^\| `([\w.]+)` \|", (CHART / "README.md").read_text(), re.M)) == sorted(told)


def test_the_schema_knows_the_keys_of_the_engines_configuration():
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    source = (REPO / "engine" / "app" / "settings" / "settings.cc").read_text()
    keys = re.findall(r'"(\w+)"', re.search(r"kKeys = \{(.*?)\};", source, re.S)[1])
    config = schema["properties"]["config"]["properties"]
    assert sorted(config) == sorted(keys)
    known = config["fencers"]["items"]["then"]["properties"]["fencer"]["enum"]
    assert known == sorted(path.parent.name for path in REPO.glob("fencers/*/fencer.lua"))
    bound = schema["properties"]["policies"]["properties"]["bindings"]["items"]["then"]["properties"]["policy"]["enum"]
    assert bound == sorted(path.parent.name for path in REPO.glob("policies/*/policy.lua"))
