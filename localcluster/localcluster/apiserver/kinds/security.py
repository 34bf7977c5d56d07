"""Security contexts of pods and containers."""

import re
from collections.abc import Iterator, Mapping, Sequence

from localcluster.apiserver.errors import Cause, duplicate, forbidden, invalid, not_supported, required
from localcluster.apiserver.kinds.pod_context import PodContext
from localcluster.apiserver.kinds.rules import Obj, identity, one_of, relative
from localcluster.apiserver.kinds.walk import Action

_SEGMENT = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = re.compile(rf"({_SEGMENT}[\./])*{_SEGMENT}")
_IPC_SYSCTL = re.compile(r"kernel\.(sem|shm(all|max|mni|_rmid_forced)?|msg(max|mnb|mni)?)|fs\.mqueue\..*")
#: What a container may not have on Windows; a pod may not have the first ones either.
_NOT_ON_WINDOWS = ("appArmorProfile", "seLinuxOptions", "seccompProfile", "runAsUser", "runAsGroup")
_NOT_IN_WINDOWS_PODS = (
    *_NOT_ON_WINDOWS, "fsGroup", "fsGroupChangePolicy", "sysctls", "supplementalGroups", "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
)  # fmt: skip
_NOT_IN_WINDOWS_CONTAINERS = (
    *_NOT_ON_WINDOWS, "capabilities", "readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount",
)  # fmt: skip
_NOT_ON_SYSTEM = {
    "linux": (("windowsOptions",), ("windowsOptions",)),
    "windows": (_NOT_IN_WINDOWS_PODS, _NOT_IN_WINDOWS_CONTAINERS),
}
_NOT_THERE = "cannot be set for a windows pod"


def _pod(context: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from identity(f"supplementalGroups[{index}]")({f"supplementalGroups[{index}]": group}, path, None)
    names: set[str] = set()
    for index, one in enumerate(context.get("sysctls") or ()):
        where, name = f"{path}.sysctls[{index}].name", one.get("name") or ""
        if not name:
            yield required(where)
        elif len(name) > 253 or not _SYSCTL.fullmatch(name):
            yield invalid(where, name, f"must have at most 253 characters and match regex ^{_SYSCTL.pattern}$")
        elif name in names:
            yield duplicate(where, name)
        names.add(name)
        plain = name.replace("/", ".")
        if pod.spec.get("hostNetwork") and plain.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif pod.spec.get("hostIPC") and _IPC_SYSCTL.fullmatch(plain):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")


def _container(context: Obj, path: str, pod: PodContext) -> Iterator[Cause]:
    if context.get("procMount") == "Unmasked" and pod.spec.get("hostUsers", True):
        yield invalid(f"{path}.procMount", "Unmasked", "`hostUsers` must be false to use `Unmasked`")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            yield invalid(path, context, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            told = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, told)


def _seccomp(profile: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    given = profile.get("localhostProfile")
    if profile.get("type") != "Localhost":
        if given is not None:
            yield invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")
    elif given is None:
        yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    else:
        yield from relative(f"{path}.localhostProfile", given)


def _app_armor(profile: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    given = profile.get("localhostProfile")
    if profile.get("type") == "Localhost":
        if given is not None and given != given.strip():
            yield invalid(f"{path}.localhostProfile", given, "must not be padded with whitespace")
        elif not given:
            yield required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")
    elif given is not None and profile.get("type") in ("RuntimeDefault", "Unconfined"):
        yield invalid(f"{path}.localhostProfile", given, "can only be set when AppArmor type is Localhost")


def system(spec: Obj, path: str, _: PodContext) -> Iterator[Cause]:
    """The operating system of a pod, and what its security contexts may not have there."""
    if spec.get("os") is None:
        return
    name = spec["os"].get("name") or ""
    if not name:
        yield required(f"{path}.os.name")
    elif name not in ("linux", "windows"):
        yield not_supported(f"{path}.os", name, ("linux", "windows"))
    else:
        told = "windows options cannot be set for a linux pod" if name == "linux" else _NOT_THERE
        pod_fields, container_fields = _NOT_ON_SYSTEM[name]
        yield from _set_of(spec.get("securityContext"), pod_fields, f"{path}.securityContext", told)
        for part in ("initContainers", "containers"):
            for index, container in enumerate(spec.get(part) or ()):
                where = f"{path}.{part}[{index}].securityContext"
                yield from _set_of(container.get("securityContext"), container_fields, where, told)
        if name == "windows":
            yield from _set_of(spec, ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"), path, told)


def _set_of(context: Obj | None, fields: Sequence[str], path: str, told: str) -> Iterator[Cause]:
    for name in fields:
        if context is not None and name in context:
            yield forbidden(f"{path}.{name}", told)


ACTIONS: Mapping[str, Sequence[Action]] = {
    "PodSecurityContext": (
        identity("fsGroup"), identity("runAsUser"), identity("runAsGroup"), _pod,
        one_of("fsGroupChangePolicy", "Always", "OnRootMismatch", needed=False),
        one_of("supplementalGroupsPolicy", "Merge", "Strict", needed=False),
        one_of("seLinuxChangePolicy", "Recursive", needed=False),
    ),
    "SecurityContext": (
        identity("runAsUser"), identity("runAsGroup"), one_of("procMount", "Default", "Unmasked", needed=False), _container,
    ),
    "SeccompProfile": (
        one_of("type", "Localhost", "RuntimeDefault", "Unconfined", detail="type is required when seccompProfile is set"),
        _seccomp,
    ),
    "AppArmorProfile": (
        one_of("type", "Localhost", "RuntimeDefault", "Unconfined", detail="type is required when appArmorProfile is set"),
        _app_armor,
    ),
}  # fmt: skip
