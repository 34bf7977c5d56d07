"""The Pod Security Standards as pure functions of a pod's metadata and spec.

Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/. Reasons and details are worded as the real server
words them, because people search for them. `minor` is the Kubernetes 1.x release whose rules count.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a pod breaks, and where."""

    reason: str
    detail: str

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})"


#: Of the metadata and spec of a pod or template, by the rules of a release.
Check = Callable[[Obj, Obj, int], Violation | None]

_CAPABILITIES = frozenset((
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
    "SETPCAP", "SETUID", "SYS_CHROOT",
))  # fmt: skip
#: With the release from which a sysctl is safe.
_SYSCTLS = {
    "kernel.shm_rmid_forced": 0, "net.ipv4.ip_local_port_range": 0, "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ping_group_range": 0, "net.ipv4.ip_unprivileged_port_start": 0, "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_keepalive_time": 29, "net.ipv4.tcp_fin_timeout": 29, "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29, "net.ipv4.tcp_rmem": 32, "net.ipv4.tcp_wmem": 32,
}  # fmt: skip
_SELINUX_TYPES = {"": 0, "container_t": 0, "container_init_t": 0, "container_kvm_t": 0, "container_engine_t": 31}
_VOLUMES = frozenset((
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
))  # fmt: skip
_PROFILES = ("RuntimeDefault", "Localhost")
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_USER_NAMESPACES_MINOR = 35
_HOSTS_MINOR = 34


def _containers(spec: Obj) -> Iterator[Obj]:
    for part in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(part) or ()


def _context(holder: Obj) -> Obj:
    return holder.get("securityContext") or {}


def _named(names: Sequence[str], noun: str = "container") -> str:
    return f"{_plural(noun, names)} {_quoted(names)}"


def _quoted(values: Iterable[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _plural(noun: str, of: Sequence[str] | set[str], plural: str = "") -> str:
    return noun if len(of) == 1 else plural or f"{noun}s"


def _failing(spec: Obj, bad: Callable[[Obj], bool]) -> list[str]:
    return [container.get("name", "") for container in _containers(spec) if bad(container)]


def _setters(spec: Obj, bad: Callable[[Obj], bool]) -> str:
    """Whose security context is bad, the pod's own included; empty when none is."""
    found = ["pod"] if bad(_context(spec)) else []
    names = _failing(spec, lambda container: bad(_context(container)))
    return " and ".join([*found, *([_named(names)] if names else [])])


def _windows(spec: Obj, _minor: int) -> bool:
    return bool((spec.get("os") or {}).get("name") == "windows")


def _in_user_namespace(spec: Obj, minor: int) -> bool:
    return minor >= _USER_NAMESPACES_MINOR and spec.get("hostUsers") is False


def _profiles(spec: Obj, key: str) -> tuple[str, list[str]]:
    """Whose profile is of a forbidden type, and of which types."""

    def kind(context: Obj) -> str | None:
        profile = context.get(key)
        return None if profile is None or profile.get("type") in _PROFILES else str(profile.get("type", ""))

    found = {kind(_context(holder)) for holder in (spec, *_containers(spec))} - {None}
    return _setters(spec, lambda context: kind(context) is not None), sorted(str(one) for one in found)


def _apparmor(meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    setters, values = _profiles(spec, "appArmorProfile")
    annotations = sorted(
        f"{key}={_quoted([value])}" for key, value in (meta.get("annotations") or {}).items()
        if key.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )  # fmt: skip
    if not setters and not annotations:
        return None
    who = " and ".join(part for part in (setters, _plural("annotation", annotations) if annotations else "") if part)
    listed = [*values, *annotations]
    return Violation(
        _plural("forbidden AppArmor profile", listed), f"{who} must not set AppArmor profile type to {_quoted(listed)}"
    )


def _where(reason: str, bad: Callable[[Obj], bool], told: str) -> Check:
    """Whose security context is bad: containers and the pod."""

    def check(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
        setters = _setters(spec, bad)
        return Violation(reason, f"{setters} {told}") if setters else None

    return check


def _containers_that(reason: str, bad: Callable[[Obj], bool], told: str) -> Check:
    """Which containers have a bad security context."""

    def check(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
        names = _failing(spec, lambda container: bad(_context(container)))
        return Violation(reason, f"{_named(names)} {told}") if names else None

    return check


def _unless(excused: Callable[[Obj, int], bool], check: Check) -> Check:
    """A rule that some pods need not keep."""
    return lambda meta, spec, minor: None if excused(spec, minor) else check(meta, spec, minor)


def _added(container: Obj, allowed: frozenset[str]) -> set[str]:
    return set((_context(container).get("capabilities") or {}).get("add") or ()) - allowed


def _adding(spec: Obj, allowed: frozenset[str]) -> str:
    names = _failing(spec, lambda container: bool(_added(container, allowed)))
    found = set().union(*(_added(container, allowed) for container in _containers(spec)))
    return f"{_named(names)} must not include {_quoted(sorted(found))} in securityContext.capabilities.add" if names else ""


def _capabilities(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    detail = _adding(spec, _CAPABILITIES)
    return Violation("non-default capabilities", detail) if detail else None


def _host_namespaces(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    names = [volume.get("name", "") for volume in spec.get("volumes") or () if "hostPath" in volume]
    return Violation("hostPath volumes", _named(names, "volume")) if names else None


def _host_ports(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    def ports(container: Obj) -> set[str]:
        return {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}

    names = _failing(spec, lambda container: bool(ports(container)))
    if not names:
        return None
    found = set().union(*map(ports, _containers(spec)))
    uses = _plural("uses", names, "use")
    return Violation("hostPort", f"{_named(names)} {uses} {_plural('hostPort', found)} {', '.join(sorted(found))}")


def _handlers(container: Obj) -> Iterator[Obj]:
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        yield container.get(probe) or {}
    for hook in ("postStart", "preStop"):
        yield (container.get("lifecycle") or {}).get(hook) or {}


def _hosts(container: Obj) -> set[str]:
    found = ((handler.get(how) or {}).get("host") for handler in _handlers(container) for how in ("httpGet", "tcpSocket"))
    return {host for host in found if host}


def _probe_hosts(_meta: Obj, spec: Obj, minor: int) -> Violation | None:
    names = sorted(set(_failing(spec, lambda container: bool(_hosts(container)))))
    if minor < _HOSTS_MINOR or not names:
        return None
    found = set().union(*map(_hosts, _containers(spec)))
    uses = _plural("uses", names, "use")
    noun = _plural("probe or lifecycle host", found)
    return Violation("probe or lifecycle host", f"{_named(names)} {uses} {noun} {_quoted(sorted(found))}")


_privileged = _containers_that(
    "privileged", lambda context: bool(context.get("privileged")), "must not set securityContext.privileged=true"
)


def _proc_mount_always(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    def mount(container: Obj) -> str:
        return str(_context(container).get("procMount") or "Default")

    names = _failing(spec, lambda container: mount(container) != "Default")
    if not names:
        return None
    kinds = sorted({mount(container) for container in _containers(spec)} - {"Default"})
    return Violation("procMount", f"{_named(names)} must not set securityContext.procMount to {_quoted(kinds)}")


_proc_mount = _unless(_in_user_namespace, _proc_mount_always)


def _selinux(_meta: Obj, spec: Obj, minor: int) -> Violation | None:
    def options(context: Obj) -> Obj:
        return context.get("seLinuxOptions") or {}

    def bad_type(context: Obj) -> bool:
        return _SELINUX_TYPES.get(options(context).get("type", ""), minor + 1) > minor

    def bad(context: Obj) -> bool:
        return bad_type(context) or bool(options(context).get("user") or options(context).get("role"))

    setters = _setters(spec, bad)
    if not setters:
        return None
    contexts = [_context(holder) for holder in (spec, *_containers(spec))]
    types = {options(context)["type"] for context in contexts if bad_type(context)}
    told = [f"{_plural('type', types)} {_quoted(sorted(types))}"] if types else []
    told += [f"{name} may not be set" for name in ("user", "role") if any(options(context).get(name) for context in contexts)]
    return Violation("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(told)}")


def _seccomp(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    setters, values = _profiles(spec, "seccompProfile")
    detail = f"{setters} must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return Violation("seccompProfile", detail) if setters else None


def _sysctls(_meta: Obj, spec: Obj, minor: int) -> Violation | None:
    asked = [sysctl.get("name", "") for sysctl in _context(spec).get("sysctls") or ()]
    unsafe = [name for name in asked if _SYSCTLS.get(name, minor + 1) > minor]
    return Violation("forbidden sysctls", ", ".join(unsafe)) if unsafe else None


_host_process = _where(
    "hostProcess", lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")),
    "must not set securityContext.windowsOptions.hostProcess=true",
)  # fmt: skip
_escalation = _unless(_windows, _containers_that(
    "allowPrivilegeEscalation != false", lambda context: context.get("allowPrivilegeEscalation") is not False,
    "must set securityContext.allowPrivilegeEscalation=false",
))  # fmt: skip


def _capabilities_dropped(_meta: Obj, spec: Obj, minor: int) -> Violation | None:
    if _windows(spec, minor):
        return None
    keeping = _failing(spec, lambda container: "ALL" not in ((_context(container).get("capabilities") or {}).get("drop") or ()))
    told = [f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    adding = _adding(spec, frozenset(("NET_BIND_SERVICE",)))
    told += [adding] if adding else []
    return Violation("unrestricted capabilities", "; ".join(told)) if told else None


def _volume_types(_meta: Obj, spec: Obj, _minor: int) -> Violation | None:
    bad = [volume for volume in spec.get("volumes") or () if not _VOLUMES & volume.keys()]
    if not bad:
        return None
    names = [volume.get("name", "") for volume in bad]
    kinds = {key for volume in bad for key in volume if key != "name"}
    noun = _plural("restricted volume type", kinds)
    detail = f"{_named(names, 'volume')} {_plural('uses', names, 'use')} {noun} {_quoted(sorted(kinds))}"
    return Violation("restricted volume types", detail)


def _non_root(_meta: Obj, spec: Obj, minor: int) -> Violation | None:
    if _in_user_namespace(spec, minor):
        return None
    reason = "runAsNonRoot != true"
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    if setters:
        return Violation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    if _context(spec).get("runAsNonRoot"):
        return None
    silent = _failing(spec, lambda container: _context(container).get("runAsNonRoot") is None)
    return Violation(reason, f"pod or {_named(silent)} must set securityContext.runAsNonRoot=true") if silent else None


_root_user = _unless(
    _in_user_namespace, _where("runAsUser=0", lambda context: context.get("runAsUser") == 0, "must not set runAsUser=0")
)


def _seccomp_required(meta: Obj, spec: Obj, minor: int) -> Violation | None:
    if _windows(spec, minor):
        return None
    explicit = _seccomp(meta, spec, minor)
    if explicit or _context(spec).get("seccompProfile"):
        return explicit
    silent = _failing(spec, lambda container: _context(container).get("seccompProfile") is None)
    detail = f'pod or {_named(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", detail) if silent else None


#: In the order in which the real server reports them.
BASELINE: tuple[Check, ...] = (
    _apparmor, _capabilities, _host_namespaces, _host_paths, _host_ports, _probe_hosts, _privileged, _proc_mount, _selinux,
    _seccomp, _sysctls, _host_process,
)  # fmt: skip
#: Where a rule of its own is stricter, the baseline's is left out.
RESTRICTED: tuple[Check, ...] = (
    _apparmor, _host_namespaces, _host_ports, _probe_hosts, _privileged, _selinux, _sysctls, _host_process, _escalation,
    _capabilities_dropped, _proc_mount_always, _volume_types, _non_root, _root_user, _seccomp_required,
)  # fmt: skip
