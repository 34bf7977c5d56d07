"""Per-index overrides: merging one pod template onto another.

Maps merge key by key, and null removes a key. Lists whose entries carry a name (containers, env, ports, volumes, …) merge
by name, volumeMounts by mountPath; any other list is replaced whole.
"""

from collections.abc import Mapping
from typing import Any

from jobcommon.api.job import ReplicaSpec

_MERGE_KEYS = {"volumeMounts": "mountPath", "volumeDevices": "devicePath", "hostAliases": "ip"}


def template_for(spec: ReplicaSpec, index: int) -> dict[str, Any]:
    """The template of one replica, its overrides applied in order. A new top level; what lies below may be shared."""
    template: dict[str, Any] = dict(spec.template)
    for override in spec.overrides:
        if index in override.indices:
            template = merge(template, override.template)
    return template


def merge(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `patch` merged onto it; neither is changed."""
    merged = dict(base)
    for key, value in patch.items():
        old = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(old, Mapping) and isinstance(value, Mapping):
            merged[key] = merge(old, value)
        elif isinstance(old, list) and isinstance(value, list) and _named(old + value, _MERGE_KEYS.get(key, "name")):
            merged[key] = _merge_lists(old, value, _MERGE_KEYS.get(key, "name"))
        else:
            merged[key] = value
    return merged


def _named(entries: list[Any], key: str) -> bool:
    return all(isinstance(entry, Mapping) and isinstance(entry.get(key), str) for entry in entries)


def _merge_lists(old: list[Any], new: list[Any], key: str) -> list[Any]:
    patches = {entry[key]: entry for entry in new}
    merged = [merge(entry, patches.pop(entry[key])) if entry[key] in patches else entry for entry in old]
    return merged + list(patches.values())
