"""A container's environment and command line, from its spec, and the downward API. Pure: what it refers to is handed in."""

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from localcluster.kubelet.lifecycle import Container, Pod
from localcluster.quantity import parse_quantity

Objects = Mapping[tuple[str, str], Mapping[str, Any] | None]  # ("ConfigMap" | "Secret", name) -> object, None when missing
_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")
_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_NONE: Mapping[str, str] = MappingProxyType({})
_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_PLAIN = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.podIP",
    "status.hostIP",
)  # fmt: skip


@dataclass
class ConfigError(Exception):
    """The container cannot be created yet: something it refers to is missing or wrong.

    It waits with `reason`, and an event says so; it is tried again by itself unless `final`.
    """

    message: str
    reason: str = "CreateContainerConfigError"
    event: str = "Failed"
    final: bool = False

    def __str__(self) -> str:
        return self.message


def field_value(pod: Pod, path: str) -> str:
    """The value of ``fieldRef.fieldPath``. Raises ConfigError."""
    if path in _PLAIN:
        section, _, name = path.partition(".")
        return str((pod.get(section) or {}).get(name) or ("default" if name == "serviceAccountName" else ""))
    if path in ("status.podIPs", "status.hostIPs"):
        return ",".join(entry["ip"] for entry in (pod.get("status") or {}).get(path.partition(".")[2]) or [])
    if match := _SUBSCRIPT.fullmatch(path):
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path in ("metadata.labels", "metadata.annotations"):
        entries = pod["metadata"].get(path.partition(".")[2]) or {}
        return "\n".join(f'{key}="{_quoted(value)}"' for key, value in sorted(entries.items()))
    raise ConfigError(f"fieldPath {path!r} is not supported by the downward API")


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(pod: Pod, container: Container, reference: Mapping[str, Any], capacity: Mapping[str, str]) -> str:
    """The value of a ``resourceFieldRef``, rounded up to whole divisors; an unset limit is the node's. Raises ConfigError."""
    section, _, name = reference["resource"].partition(".")
    chosen = container
    if other := reference.get("containerName"):
        every = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
        chosen = next((c for c in every if c["name"] == other), container)
    if section not in ("limits", "requests"):
        raise ConfigError(f"resource {reference['resource']!r} is neither limits.… nor requests.…")
    resources = chosen.get("resources") or {}
    amount = (resources.get(section) or {}).get(name)
    if amount is None:
        amount = capacity.get(name, "0") if section == "limits" else (resources.get("limits") or {}).get(name, "0")
    divisor = parse_quantity(reference.get("divisor") or "1")
    return str(math.ceil(parse_quantity(amount) / (divisor or 1)))


def references(container: Container) -> set[tuple[str, str]]:
    """The config maps and secrets the container's environment is made of."""
    found = set()
    for source in container.get("envFrom") or []:
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key in source:
                found.add((kind, source[key]["name"]))
    for entry in container.get("env") or []:
        origin = entry.get("valueFrom") or {}
        for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
            if key in origin:
                found.add((kind, origin[key]["name"]))
    return found


def expand(text: str, values: Mapping[str, str]) -> str:
    """``$(NAME)`` replaced by its value, ``$$`` by ``$``; a reference to an unknown name is kept."""

    def replace(match: re.Match[str]) -> str:
        if match[1] is None:
            return "$"
        return values.get(match[1], match[0])

    return _REFERENCE.sub(replace, text)


def container_environment(
    pod: Pod, container: Container, objects: Objects, capacity: Mapping[str, str], services: Mapping[str, str] = _NONE
) -> dict[str, str]:
    """The variables of `services`, then exactly what the spec asks for, in order, later entries over earlier ones.

    Raises ConfigError for a missing config map, secret or key that is not optional.
    """
    values = dict(services)
    for source in container.get("envFrom") or []:
        for kind, key in (("ConfigMap", "configMapRef"), ("Secret", "secretRef")):
            if key in source:
                found, prefix = entries(kind, source[key], objects), source.get("prefix") or ""
                values |= {prefix + name: text.decode() for name, text in found.items() if _NAME.fullmatch(prefix + name)}
    for entry in container.get("env") or []:
        if "valueFrom" in entry:
            value = _from(pod, container, entry["valueFrom"], objects, capacity)
            if value is None:
                continue
        else:
            value = expand(entry.get("value") or "", values)
        values[entry["name"]] = value
    return values


def entries(kind: str, reference: Mapping[str, Any], objects: Objects) -> dict[str, bytes]:
    """The decoded entries of a config map or secret. Raises ConfigError when it is missing and not optional."""
    item = objects.get((kind, reference["name"]))
    if item is None:
        if reference.get("optional"):
            return {}
        raise ConfigError(f'{kind.lower()} "{reference["name"]}" not found')
    data = item.get("data") or {}
    coded, plain = (data, {}) if kind == "Secret" else (item.get("binaryData") or {}, data)
    return {key: text.encode() for key, text in plain.items()} | {key: base64.b64decode(text) for key, text in coded.items()}


def _from(
    pod: Pod, container: Container, origin: Mapping[str, Any], objects: Objects, capacity: Mapping[str, str]
) -> str | None:
    if "fieldRef" in origin:
        return field_value(pod, origin["fieldRef"]["fieldPath"])
    if "resourceFieldRef" in origin:
        return resource_value(pod, container, origin["resourceFieldRef"], capacity)
    for kind, key in (("ConfigMap", "configMapKeyRef"), ("Secret", "secretKeyRef")):
        if key in origin:
            found = entries(kind, origin[key], objects)
            if origin[key]["key"] in found:
                return found[origin[key]["key"]].decode()
            if origin[key].get("optional"):
                return None
            where = f"{pod['metadata']['namespace']}/{origin[key]['name']}"
            raise ConfigError(f"couldn't find key {origin[key]['key']} in {kind} {where}")
    raise ConfigError(f"env valueFrom of an unknown kind: {', '.join(origin)}")


def command_line(container: Container, values: Mapping[str, str]) -> list[str]:
    """Command and args with ``$(NAME)`` expanded; empty when the spec relies on the image for its command."""
    command = container.get("command") or []
    return [expand(word, values) for word in [*command, *(container.get("args") or [])]] if command else []
