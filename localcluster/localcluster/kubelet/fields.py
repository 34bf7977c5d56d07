"""The downward API: fields of a pod and resources of a container as text. Pure."""

import math
import re
from collections.abc import Mapping
from typing import Any

from localcluster.kubelet.lifecycle import Container, Pod
from localcluster.quantity import parse_quantity

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_PLAIN = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.podIP",
    "status.hostIP",
)  # fmt: skip


class FieldError(ValueError):
    """A field path or resource name that the downward API does not offer."""


def field_value(pod: Pod, path: str) -> str:
    """The value of ``fieldRef.fieldPath``. Raises FieldError."""
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
    raise FieldError(f"fieldPath {path!r} is not supported by the downward API")


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def resource_value(pod: Pod, container: Container, reference: Mapping[str, Any], capacity: Mapping[str, str]) -> str:
    """The value of a ``resourceFieldRef``, rounded up to whole divisors; an unset limit is the node's. Raises FieldError."""
    section, _, name = reference["resource"].partition(".")
    chosen = container
    if other := reference.get("containerName"):
        every = [*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or [])]
        chosen = next((c for c in every if c["name"] == other), container)
    if section not in ("limits", "requests"):
        raise FieldError(f"resource {reference['resource']!r} is neither limits.… nor requests.…")
    resources = chosen.get("resources") or {}
    amount = (resources.get(section) or {}).get(name)
    if amount is None:
        amount = capacity.get(name, "0") if section == "limits" else (resources.get("limits") or {}).get(name, "0")
    divisor = parse_quantity(reference.get("divisor") or "1")
    return str(math.ceil(parse_quantity(amount) / (divisor or 1)))
