"""Pod Security: what the levels of a namespace refuse, in the real server's words."""

from localcluster.conformance.case import Case, Expect, Json, Space, Step
from localcluster.conformance.kinds import NAMESPACES, PODS, obj, pod
from localcluster.conformance.steps import create, get, json_patch, patch

_PREFIX = "pod-security.kubernetes.io/"
_SAFE: Json = {
    "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}  # fmt: skip


def _labelled(code: int = 200, *, causes: tuple[str, ...] | None = None, **labels: str) -> Step:
    """Give namespace ``a`` its levels; an underscore in a mode is a hyphen."""
    named = {_PREFIX + mode.replace("_", "-"): level for mode, level in labels.items()}
    return patch(NAMESPACES, Space("a"), {"metadata": {"labels": named}}, code, causes=causes)


def _enforced(level: str, version: str = "") -> tuple[Step, Step]:
    """Give namespace ``a`` its level, and wait until it counts: the real server takes it from a cache."""
    labels = _labelled(enforce=level, enforce_version=version) if version else _labelled(enforce=level)
    told = f'violates PodSecurity "{level}:{version or "latest"}"'
    expect = Expect(201) if level == "privileged" else Expect(403, message=told)
    probe = pod("probe", {"hostPID": True})
    return labels, Step("POST", PODS, body=probe, query={"dryRun": "All"}, expect=expect, settle=True)


def _refused(level: str, spec: Json | None, told: str, container: Json | None = None, name: str = "n", **meta: object) -> Step:
    """A pod that the level does not admit, and why in full."""
    message = f'pods "{name}" is forbidden: violates PodSecurity "{level}": {told}'
    body = pod(name, spec, container, **meta)
    return create(PODS, body, 403, reason="Forbidden", message=message, fields={"message": message})


def _baseline(spec: Json | None, told: str, context: Json | None = None, **container: object) -> Step:
    return _refused("baseline:latest", spec, told, {**({"securityContext": context} if context else {}), **container})


def _restricted(spec: Json | None, told: str, **context: object) -> Step:
    return _refused("restricted:latest", spec, told, {"securityContext": {**_SAFE, **context}})


def _safe(name: str, spec: Json | None = None, **more: object) -> Json:
    return pod(name, spec, {"securityContext": {**_SAFE, **more}})


_ALL_RESTRICTED = (
    'allowPrivilegeEscalation != false (container "main" must set securityContext.allowPrivilegeEscalation=false), '
    'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]), '
    'runAsNonRoot != true (pod or container "main" must set securityContext.runAsNonRoot=true), '
    'seccompProfile (pod or container "main" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
_ALL_BASELINE = (
    'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined"), '
    'non-default capabilities (container "main" must not include "NET_ADMIN", "SYS_TIME" in securityContext.capabilities.add), '
    'host namespaces (hostNetwork=true, hostPID=true), hostPath volumes (volume "v"), '
    'hostPort (container "main" uses hostPorts 80, 81), privileged (container "main" must not set '
    'securityContext.privileged=true), seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "odd_t"; '
    "user may not be set; role may not be set), seccompProfile (pod must not set securityContext.seccompProfile.type to "
    '"Unconfined"), forbidden sysctls (kernel.msgmax)'
)
_WORST: Json = {
    "hostNetwork": True, "hostPID": True, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
    "securityContext": {
        "appArmorProfile": {"type": "Unconfined"}, "seccompProfile": {"type": "Unconfined"},
        "seLinuxOptions": {"type": "odd_t", "user": "u", "role": "r"}, "sysctls": [{"name": "kernel.msgmax", "value": "1"}],
    },
}  # fmt: skip
_PORTS = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in (80, 81)]

CASES = (
    Case("Pod Security restricted: what a plain pod lacks", (
        *_enforced("restricted"), _refused("restricted:latest", None, _ALL_RESTRICTED), get(PODS, "n", 404),
        create(PODS, _safe("safe")), create(PODS, _safe("ports", runAsUser=1000, capabilities={"drop": ["ALL"],
            "add": ["NET_BIND_SERVICE"]})),
        create(PODS, pod("of-pod", {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}},
            {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}})),
    )),
    Case("Pod Security restricted: one rule at a time", (
        *_enforced("restricted"),
        _restricted(None, 'allowPrivilegeEscalation != false (container "main" must set '
            "securityContext.allowPrivilegeEscalation=false)", allowPrivilegeEscalation=True),
        _restricted(None, 'unrestricted capabilities (container "main" must not include "CHOWN" in '
            "securityContext.capabilities.add)", capabilities={"drop": ["ALL"], "add": ["CHOWN"]}),
        _restricted(None, 'unrestricted capabilities (container "main" must set securityContext.capabilities.drop=["ALL"]; '
            'container "main" must not include "CHOWN" in securityContext.capabilities.add)', capabilities={"add": ["CHOWN"]}),
        _restricted({"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {"server": "s", "path": "/"}}]},
            'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")'),
        _restricted(None, 'runAsNonRoot != true (container "main" must not set securityContext.runAsNonRoot=false)',
            runAsNonRoot=False),
        _restricted({"securityContext": {"runAsNonRoot": False}},
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)"),
        _restricted(None, 'runAsUser=0 (container "main" must not set runAsUser=0)', runAsUser=0),
        _restricted({"securityContext": {"runAsUser": 0}}, "runAsUser=0 (pod must not set runAsUser=0)"),
        _restricted(None, 'seccompProfile (container "main" must not set securityContext.seccompProfile.type to "Unconfined")',
            seccompProfile={"type": "Unconfined"}),
        _restricted({"hostPID": True}, "host namespaces (hostPID=true)"),
        _restricted({"securityContext": {"runAsUser": 0}, "initContainers": [{"name": "init", "image": "i"}]},
            'allowPrivilegeEscalation != false (container "init" must set securityContext.allowPrivilegeEscalation=false), '
            'unrestricted capabilities (container "init" must set securityContext.capabilities.drop=["ALL"]), runAsNonRoot != '
            'true (pod or container "init" must set securityContext.runAsNonRoot=true), runAsUser=0 (pod must not set '
            'runAsUser=0), seccompProfile (pod or container "init" must set securityContext.seccompProfile.type to '
            '"RuntimeDefault" or "Localhost")'),
        _restricted({"hostUsers": False}, 'procMount (container "main" must not set securityContext.procMount to "Unmasked")',
            procMount="Unmasked"),
        create(PODS, _safe("user-namespace", {"hostUsers": False}, runAsNonRoot=False, runAsUser=0)),
        create(PODS, pod("windows", {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}})),
    )),
    Case("Pod Security baseline: everything at once", (
        *_enforced("baseline"),
        _refused("baseline:latest", _WORST, _ALL_BASELINE, {"ports": _PORTS, "securityContext": {"privileged": True,
            "capabilities": {"add": ["NET_ADMIN", "CHOWN", "SYS_TIME"]}}}),
        create(PODS, pod("plain")), get(PODS, "n", 404),
    )),
    Case("Pod Security baseline: one rule at a time", (
        *_enforced("baseline"),
        _baseline(None, 'privileged (container "main" must not set securityContext.privileged=true)', {"privileged": True}),
        _baseline({"initContainers": [{"name": "init", "image": "i", "securityContext": {"privileged": True}}]},
            'privileged (containers "init", "main" must not set securityContext.privileged=true)', {"privileged": True}),
        create(PODS, pod("own-mount", {"hostUsers": False}, {"securityContext": {"procMount": "Unmasked"}})),
        _baseline({"hostIPC": True}, "host namespaces (hostIPC=true)"),
        _baseline(None, 'hostPort (container "main" uses hostPort 80)', ports=_PORTS[:1]),
        _baseline(None, 'probe or lifecycle host (container "main" uses probe or lifecycle host "elsewhere")',
            readinessProbe={"httpGet": {"port": 80, "host": "elsewhere"}}),
        _baseline(None, 'probe or lifecycle host (container "main" uses probe or lifecycle hosts "a", "b")',
            livenessProbe={"tcpSocket": {"port": 80, "host": "b"}},
            lifecycle={"preStop": {"httpGet": {"port": 80, "host": "a"}}}),
        _baseline(None, 'seLinuxOptions (container "main" set forbidden securityContext.seLinuxOptions: user may not be set)',
            {"seLinuxOptions": {"type": "container_engine_t", "user": "u"}}),
        _baseline(None, 'seccompProfile (container "main" must not set securityContext.seccompProfile.type to "Unconfined")',
            {"seccompProfile": {"type": "Unconfined"}}),
        _baseline({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, 'forbidden AppArmor profile (pod and '
            'container "main" must not set AppArmor profile type to "Unconfined")',
            {"appArmorProfile": {"type": "Unconfined"}}),
        _baseline({"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"},
            {"name": "kernel.msgmax", "value": "1"}]}}, "forbidden sysctls (kernel.msgmax)"),
        create(PODS, pod("root", None, {"securityContext": {"runAsUser": 0, "capabilities": {"add": ["CHOWN"]}}})),
    )),
    Case("Pod Security by the rules of an older release", (
        *_enforced("baseline", "v1.30"),
        _refused("baseline:v1.30", {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}},
            "forbidden sysctls (net.ipv4.tcp_rmem)"),
        _refused("baseline:v1.30", {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}},
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "container_engine_t")'),
        create(PODS, pod("n", None, {"readinessProbe": {"httpGet": {"port": 80, "host": "elsewhere"}}})),
        *_enforced("restricted", "v1.34"),
        _refused("restricted:v1.34", {"hostUsers": False}, 'runAsUser=0 (container "main" must not set runAsUser=0)',
            {"securityContext": {**_SAFE, "runAsUser": 0}}, name="m"),
    )),
    Case("Pod Security: what is checked, and when", (
        create(PODS, pod("before")), *_enforced("restricted"), patch(PODS, "before", {"metadata": {"labels": {"a": "b"}}}),
        patch(PODS, "before", {"status": {"phase": "Running"}}, subresource="status"),
        patch(PODS, "before", {"spec": {"containers": [{"name": "main", "image": "other"}]}}, 422),
        json_patch(PODS, "before", [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}], 403,
            reason="Forbidden"),
        create(PODS, pod("invalid", {"restartPolicy": "Odd"}), 422, reason="Invalid"),
        create(PODS, pod("before"), 403, reason="Forbidden"),
        create(PODS, {**pod("x"), "metadata": {"generateName": "g1-"}}, 403, message="violates PodSecurity"),
        create(PODS, pod("n"), 403, {"dryRun": "All"}, reason="Forbidden"), *_enforced("privileged"),
        create(PODS, pod("n", {"hostPID": True})),
    )),
    Case("Pod Security: labels that are no levels", (
        _labelled(422, enforce="none", causes=(f"FieldValueInvalid metadata.labels[{_PREFIX}enforce]",)),
        _labelled(422, warn="none", audit_version="1.30", causes=(f"FieldValueInvalid metadata.labels[{_PREFIX}warn]",
            f"FieldValueInvalid metadata.labels[{_PREFIX}audit-version]")),
        _labelled(warn="restricted", audit="restricted"), create(PODS, pod("warned")),
        create(NAMESPACES, obj(NAMESPACES, "conformance-bad-level", labels={_PREFIX + "enforce": "none"}), 422,
            reason="Invalid", causes=(f"FieldValueInvalid metadata.labels[{_PREFIX}enforce]",)),
    )),
)  # fmt: skip
