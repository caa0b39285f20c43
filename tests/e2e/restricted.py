"""The pod security standard `restricted`, which admission holds the pods of a namespace to from Kubernetes 1.23 on.
https://kubernetes.io/docs/concepts/security/pod-security-standards/

    assert broken_rules(template) == set()
"""

VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
PROFILES = ("RuntimeDefault", "Localhost")
SYSCTLS = {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
           "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
           "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
           "net.ipv4.tcp_keepalive_probes"}
SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
APPARMOR = "container.apparmor.security.beta.kubernetes.io/"


def _containers(spec: dict) -> list:
    return [each for kind in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(kind, [])]


def _contexts(spec: dict) -> list:
    """Of the pod, then of each container."""
    return [each.get("securityContext") or {} for each in (spec, *_containers(spec))]


def _field_of_each(spec: dict, field: str, good) -> bool:
    """Whether each container has it well, itself or from the pod."""
    pod, *containers = (context.get(field) for context in _contexts(spec))
    return all(good(pod if own is None else own) for own in containers)


def _handlers(container: dict) -> list:
    """What the kubelet asks, of probes and hooks."""
    hooks = (container.get("lifecycle") or {}).values()
    probes = (container.get(f"{kind}Probe") or {} for kind in ("startup", "liveness", "readiness"))
    return [handler for each in (*hooks, *probes) for kind, handler in each.items() if kind in ("httpGet", "tcpSocket")]


def _selinux(options: dict) -> bool:
    return options.get("type", "") in SELINUX_TYPES and not options.get("user") and not options.get("role")


# name -> (metadata, spec) -> whether it is kept
RULES = {
    "host namespaces": lambda _, spec: not any(spec.get(key) for key in ("hostNetwork", "hostPID", "hostIPC")),
    "host ports": lambda _, spec: not any(p.get("hostPort") for each in _containers(spec) for p in each.get("ports", [])),
    "host probes": lambda _, spec: not any(handler.get("host") for each in _containers(spec) for handler in _handlers(each)),
    "host processes": lambda _, spec: not any(
        (context.get("windowsOptions") or {}).get("hostProcess") for context in _contexts(spec)),
    "privileged": lambda _, spec: not any(context.get("privileged") for context in _contexts(spec)),
    "privilege escalation": lambda _, spec: all(
        context.get("allowPrivilegeEscalation") is False for context in _contexts(spec)[1:]),
    "capabilities": lambda _, spec: all(
        "ALL" in of.get("drop", []) and set(of.get("add", [])) <= {"NET_BIND_SERVICE"}
        for of in (context.get("capabilities") or {} for context in _contexts(spec)[1:])),
    "volumes": lambda _, spec: all(set(volume) - {"name"} <= VOLUMES for volume in spec.get("volumes", [])),
    "not root": lambda _, spec: _field_of_each(spec, "runAsNonRoot", lambda value: value is True),
    "user": lambda _, spec: not any(context.get("runAsUser") == 0 for context in _contexts(spec)),
    "seccomp": lambda _, spec: _field_of_each(spec, "seccompProfile", lambda value: (value or {}).get("type") in PROFILES),
    "AppArmor": lambda about, spec: all(
        (context.get("appArmorProfile") or {"type": PROFILES[0]})["type"] in PROFILES for context in _contexts(spec)) and all(
        value == "runtime/default" or value.startswith("localhost/")
        for key, value in (about.get("annotations") or {}).items() if key.startswith(APPARMOR)),
    "SELinux": lambda _, spec: all(_selinux(context.get("seLinuxOptions") or {}) for context in _contexts(spec)),
    "proc mount": lambda _, spec: all(context.get("procMount", "Default") == "Default" for context in _contexts(spec)),
    "sysctls": lambda _, spec: {each["name"] for each in _contexts(spec)[0].get("sysctls", [])} <= SYSCTLS,
}


def broken_rules(template: dict) -> set:
    """The names of the rules that a pod, or the template of one, breaks."""
    return {name for name, kept in RULES.items() if not kept(template.get("metadata") or {}, template["spec"])}
