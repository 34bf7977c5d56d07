"""Containers of pods and pod templates."""

from collections.abc import Sequence
from typing import Any

from jobcommon.localcluster.apiserver.errors import Cause, duplicate, invalid, not_found_cause, not_supported, required
from jobcommon.localcluster.apiserver.names import check, check_entry_name, env_name, port_name
from jobcommon.localcluster.quantity import parse_quantity

Obj = dict[str, Any]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PROBE_DEFAULTS = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}


def default_container(container: Obj) -> None:
    """What the real server fills in for every container."""
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    image = container.get("image") or ""
    untagged = "@" not in image and (":" not in image.rpartition("/")[2] or image.endswith(":latest"))
    container.setdefault("imagePullPolicy", "Always" if untagged else "IfNotPresent")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        source = (variable.get("valueFrom") or {}).get("fieldRef")
        if source is not None:
            source.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(probe):
            for name, value in _PROBE_DEFAULTS.items():
                container[probe].setdefault(name, value)
            if "httpGet" in container[probe]:
                container[probe]["httpGet"].setdefault("scheme", "HTTP")
                container[probe]["httpGet"].setdefault("path", "/")


def validate_containers(spec: Obj, path: str, volumes: set[str]) -> list[Cause]:
    """At least one container; names unique over init and main containers."""
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append(required(f"{path}.containers"))
    seen: set[str] = set()
    for part in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(part) or ()):
            where = f"{path}.{part}[{index}]"
            causes += check_entry_name(container, where, seen)
            causes += _validate_container(container, where, volumes)
    return causes


def _validate_container(container: Obj, path: str, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    image = container.get("image") or ""
    if not image:
        causes.append(required(f"{path}.image"))
    elif image != image.strip():
        causes.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))
    if container["imagePullPolicy"] not in _PULL_POLICIES:
        causes.append(not_supported(f"{path}.imagePullPolicy", container["imagePullPolicy"], _PULL_POLICIES))
    causes += _validate_ports(container.get("ports") or (), f"{path}.ports")
    causes += _validate_env(container.get("env") or (), f"{path}.env")
    causes += _validate_mounts(container.get("volumeMounts") or (), f"{path}.volumeMounts", volumes)
    causes += _validate_resources(container["resources"], f"{path}.resources")
    return causes


def _validate_ports(ports: Sequence[Obj], path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        name = port.get("name") or ""
        if name:
            causes += check(port_name, f"{where}.name", name)
            if name in names:
                causes.append(duplicate(f"{where}.name", name))
            names.add(name)
        number = port.get("containerPort")
        if not number:
            causes.append(required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            causes.append(invalid(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive"))
        if port["protocol"] not in _PROTOCOLS:
            causes.append(not_supported(f"{where}.protocol", port["protocol"], _PROTOCOLS))
    return causes


def _validate_env(env: Sequence[Obj], path: str) -> list[Cause]:
    # Two variables of the same name are accepted: the last one wins.
    causes: list[Cause] = []
    for index, variable in enumerate(env):
        where = f"{path}[{index}]"
        name = variable.get("name") or ""
        if not name:
            causes.append(required(f"{where}.name"))
        else:
            causes += check(env_name, f"{where}.name", name)
        source = variable.get("valueFrom")
        if source is None:
            continue
        if variable.get("value"):
            causes.append(invalid(f"{where}.valueFrom", "", "may not be specified when `value` is not empty"))
        if len(source) != 1:
            detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
            causes.append(invalid(f"{where}.valueFrom", "", detail))
    return causes


def _validate_mounts(mounts: Sequence[Obj], path: str, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    places: set[str] = set()
    for index, mount in enumerate(mounts):
        where = f"{path}[{index}]"
        name = mount.get("name") or ""
        if not name:
            causes.append(required(f"{where}.name"))
        elif name not in volumes:
            causes.append(not_found_cause(f"{where}.name", name))
        target = mount.get("mountPath") or ""
        if not target:
            causes.append(required(f"{where}.mountPath"))
        elif target in places:
            causes.append(invalid(f"{where}.mountPath", target, "must be unique"))
        places.add(target)
    return causes


def _validate_resources(resources: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    found: dict[str, dict[str, Any]] = {"limits": {}, "requests": {}}
    for part, parsed in found.items():
        for name, text in (resources.get(part) or {}).items():
            where = f"{path}.{part}[{name}]"
            try:
                parsed[name] = parse_quantity(text)
            except ValueError as error:
                causes.append(invalid(where, text, str(error)))
                continue
            if parsed[name] < 0:
                causes.append(invalid(where, text, "must be greater than or equal to 0"))
    for name, request in found["requests"].items():
        limit = found["limits"].get(name)
        if limit is not None and request > limit:
            text = resources["requests"][name]
            detail = f"must be less than or equal to {name} limit of {resources['limits'][name]}"
            causes.append(invalid(f"{path}.requests", text, detail))
    return causes
