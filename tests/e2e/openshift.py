"""What OpenShift's SCC `restricted-v2` does to the pods of some namespaces, by admission policies of Kubernetes itself: there is no
OpenShift here. Read from openshift/cluster-kube-apiserver-operator, bindata/bootkube/scc-manifests.

    scc = RestrictedV2(cluster, "moonfence")
    scc.enforce()                      # makes the namespace, with its ranges; returns when the API server obeys
    scc.dry_run(template)              # the pod as it would be kept; ApiError when it is refused
    scc.remove()

It sets what a pod leaves open (the user of its containers, fsGroup, the level of SELinux) from the annotations that OpenShift writes
on each namespace, and refuses pods that name others, and all that the SCC does not allow. It is stricter in one thing: OpenShift also
fills in the capabilities, the profile of seccomp and allowPrivilegeEscalation; here a pod has to say them itself.

Policies that change objects are served from Kubernetes 1.36 on; before, only with FLAGS_BEFORE."""

from cluster import programs

from .installation import Installation
from .kube import ApiError, wait_for

GROUP = "admissionregistration.k8s.io"
UID, LEVEL = 1000650000, "s0:c26,c10"
RANGE = f"{UID}/10000"
ANNOTATIONS = {"openshift.io/sa.scc.uid-range": RANGE, "openshift.io/sa.scc.supplemental-groups": RANGE, "openshift.io/sa.scc.mcs": LEVEL}
FLAGS_BEFORE = (f"--runtime-config={GROUP}/v1beta1=true", "--feature-gates=MutatingAdmissionPolicy=true")
VOLUMES = ("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret")
HOST = ("hostNetwork", "hostPID", "hostIPC")
NAME = "restricted-v2"  # begins each message

ABOUT = "namespaceObject.metadata.annotations"
FIRST = "int({}['openshift.io/sa.scc.uid-range'].split('/')[0])".format(ABOUT)
POD = "object.spec.securityContext"
OPEN = f"(!has({POD}) || !has({POD}.%s))"
CONTAINERS = "(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []))"


def flags() -> tuple:
    """What the API server of this run's Kubernetes needs."""
    return FLAGS_BEFORE if tuple(map(int, programs.chosen_kubernetes().split("."))) < (1, 36) else ()


def _context(of: str, fields: str) -> str:
    return f"securityContext: Object.spec.{of}securityContext{{{fields}}}"


# {name: (when the pod leaves it open, what is set)}
SETS = {
    "user": (f"{OPEN % 'runAsUser'} && object.spec.containers.all(c, !has(c.securityContext) || !has(c.securityContext.runAsUser))",
             "containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, "
             + _context("containers.", f"runAsUser: {FIRST}") + "})"),
    "group": (OPEN % "fsGroup", _context("", f"fsGroup: {FIRST}")),
    "level": (OPEN % "seLinuxOptions", _context(
        "", f"seLinuxOptions: Object.spec.securityContext.seLinuxOptions{{level: {ABOUT}['openshift.io/sa.scc.mcs']}}")),
}


def _of_each(condition: str) -> str:
    return f"{CONTAINERS}.all(c, has(c.securityContext) && {condition})"


# (what is true of a pod that the SCC admits, what a refusal says)
RULES = (
    (f"{CONTAINERS}.all(c, has(c.securityContext) && has(c.securityContext.runAsUser) ? variables.first <= c.securityContext.runAsUser "
     f"&& c.securityContext.runAsUser < variables.end : has({POD}) && has({POD}.runAsUser) && variables.first <= {POD}.runAsUser "
     f"&& {POD}.runAsUser < variables.end)", "runAsUser: must be in the range of the namespace"),
    (f"has({POD}) && has({POD}.fsGroup) && variables.first <= {POD}.fsGroup && {POD}.fsGroup < variables.end",
     "fsGroup: must be in the range of the namespace"),
    (f"has({POD}) && has({POD}.seLinuxOptions) && has({POD}.seLinuxOptions.level) && {POD}.seLinuxOptions.level == "
     f"{ABOUT}['openshift.io/sa.scc.mcs']", "seLinuxOptions.level: must be that of the namespace"),
    (f"has({POD}) && has({POD}.seccompProfile) && {POD}.seccompProfile.type == 'RuntimeDefault' && {CONTAINERS}.all(c, "
     "!has(c.securityContext) || !has(c.securityContext.seccompProfile) || c.securityContext.seccompProfile.type == 'RuntimeDefault')",
     "seccompProfile: must be RuntimeDefault"),
    (_of_each("has(c.securityContext.allowPrivilegeEscalation) && !c.securityContext.allowPrivilegeEscalation && "
              "(!has(c.securityContext.privileged) || !c.securityContext.privileged)"), "allowPrivilegeEscalation, privileged: must be false"),
    (_of_each("has(c.securityContext.capabilities) && has(c.securityContext.capabilities.drop) && 'ALL' in c.securityContext.capabilities.drop "
              "&& (!has(c.securityContext.capabilities.add) || c.securityContext.capabilities.add.all(each, each == 'NET_BIND_SERVICE'))"),
     "capabilities: ALL must be dropped, and NET_BIND_SERVICE alone may be added"),
    (" && ".join(f"(!has(object.spec.{each}) || !object.spec.{each})" for each in HOST)
     + f" && {CONTAINERS}.all(c, !has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
     "the host's network, processes and ports: not allowed"),
    ("!has(object.spec.volumes) || object.spec.volumes.all(v, " + " || ".join(f"has(v.{each})" for each in VOLUMES) + ")",
     "volumes: of a kind that is not allowed"),
)


def policies(namespace: str, api_of_changes: str) -> list:
    """The objects: three that set, one that refuses, and their bindings to the namespace."""
    where = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
    pods = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]}
    found = []
    for name, (when, change) in SETS.items():
        found += [
            {"apiVersion": api_of_changes, "kind": "MutatingAdmissionPolicy", "metadata": {"name": f"{NAME}-{name}"}, "spec": {
                "matchConstraints": pods, "failurePolicy": "Fail", "reinvocationPolicy": "Never",
                "matchConditions": [{"name": "open", "expression": when}],
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {
                    "expression": f"Object{{spec: Object.spec{{{change}}}}}"}}]}},
            {"apiVersion": api_of_changes, "kind": "MutatingAdmissionPolicyBinding", "metadata": {"name": f"{NAME}-{name}"}, "spec": {
                "policyName": f"{NAME}-{name}", "matchResources": where}}]
    return [
        *found,
        {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": NAME}, "spec": {
            "matchConstraints": pods, "failurePolicy": "Fail",
            "variables": [{"name": "first", "expression": FIRST},
                          {"name": "end", "expression": f"variables.first + int({ABOUT}['openshift.io/sa.scc.uid-range'].split('/')[1])"}],
            "validations": [{"expression": rule, "message": f"{NAME}: {said}"} for rule, said in RULES]}},
        {"apiVersion": f"{GROUP}/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": NAME}, "spec": {
            "policyName": NAME, "validationActions": ["Deny"], "matchResources": where}}]


class RestrictedV2:
    """Of one namespace, which is made with OpenShift's annotations, or gets them."""

    def __init__(self, cluster, namespace: str):
        self.client, self.namespace = cluster.client, namespace
        self._installation = Installation(cluster)

    def enforce(self):
        served = [each["name"] for each in self.client.request("GET", f"/apis/{GROUP}/v1")["resources"]]
        api = f"{GROUP}/v1" if "mutatingadmissionpolicies" in served else f"{GROUP}/v1beta1"
        self._installation.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace, "annotations": ANNOTATIONS}}])
        self._installation.apply(policies(self.namespace, api))
        wait_for("the namespace has its account", lambda: self.client.find("serviceaccounts", "default", self.namespace), 30)
        wait_for("the SCC is in force", self._is_in_force, 60, 0.1)

    def _is_in_force(self) -> bool:
        """Its parts come into force one by one."""
        container = {"name": "main", "image": "none:1", "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
        kept = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}, "containers": [container]}
        refused = {**kept, "securityContext": {**kept["securityContext"], "runAsUser": 1}}
        try:
            self.dry_run({"spec": kept})
        except ApiError:
            return False
        try:
            self.dry_run({"spec": refused})
        except ApiError as error:
            return NAME in error.message
        return False

    def dry_run(self, template: dict) -> dict:
        pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"], "metadata": {
            **(template.get("metadata") or {}), "name": "dry", "namespace": self.namespace}}
        return self.client.request("POST", f"/api/v1/namespaces/{self.namespace}/pods", pod, {"dryRun": "All"})

    def refusal(self, template: dict) -> str:
        """Why it does not admit a pod; "" when it does."""
        try:
            self.dry_run(template)
        except ApiError as error:
            return error.message
        return ""

    def remove(self):
        self._installation.remove_all()


def ids_of(pod: dict) -> tuple:
    """(users of its containers, group of its volumes, level of SELinux), as the API server keeps them."""
    about = pod["spec"].get("securityContext", {})
    users = {each.get("securityContext", {}).get("runAsUser", about.get("runAsUser")) for each in pod["spec"]["containers"]}
    return users, about.get("fsGroup"), about.get("seLinuxOptions", {}).get("level")
