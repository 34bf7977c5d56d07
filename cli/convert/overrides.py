"""From the templates of the single replicas to one template with ``overrides``.

The converse of `jobcommon.api.template.merge`: maps merge key by key, lists of named entries by name. What not every replica
has is not part of the common template, so that overrides only ever add. They could take a key away by null, but not an entry
of a list; and nulls inside a list, as `overrides` is one, get lost in the patches of `kubectl apply`.
"""

from collections.abc import Mapping
from typing import Any

Template = Mapping[str, Any]


def split(default: Template, own: Mapping[int, Template], count: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The common template and the overrides by which replica i of `count` has own[i], or `default` without one."""
    common: Any = dict(default)
    for template in own.values():
        common = _common(common, template)
    rest = [index for index in range(count) if index not in own]
    groups = [*([(rest, default)] if rest else ()), *(([index], template) for index, template in sorted(own.items()))]
    patches = [(indices, difference(common, template)) for indices, template in groups]
    return common, [{"indices": indices, "template": patch} for indices, patch in patches if patch]


def difference(base: Template, wanted: Template) -> dict[str, Any]:
    """The patch that makes `wanted` of `base`, which must have no key and no named entry that `wanted` lacks."""
    patch: dict[str, Any] = {}
    for key, value in wanted.items():
        old = base.get(key)
        if key in base and old == value:
            continue
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            patch[key] = difference(old, value)
        elif isinstance(old, list) and isinstance(value, list) and _named(old + value):
            known = {entry["name"]: entry for entry in old}
            changed = [entry for entry in value if known.get(entry["name"]) != entry]
            patch[key] = [
                {"name": entry["name"], **difference(known[entry["name"]], entry)} if entry["name"] in known else entry
                for entry in changed
            ]
        else:
            patch[key] = value
    return patch


def _common(one: Any, other: Any) -> Any:
    """`one` without the keys and the named entries that `other` does not have."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        kept = {key: _common(value, other[key]) for key, value in one.items() if key in other}
        return {key: value for key, value in kept.items() if value not in ([], {}) or one[key] == value}
    if isinstance(one, list) and isinstance(other, list) and _named(one + other):
        others = {entry["name"]: entry for entry in other}
        return [_common(entry, others[entry["name"]]) for entry in one if entry["name"] in others]
    return one


def _named(entries: list[Any]) -> bool:
    return all(isinstance(entry, Mapping) and isinstance(entry.get("name"), str) for entry in entries)
