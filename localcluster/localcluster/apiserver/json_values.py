"""Copies of JSON values, and what is at a path of one."""

from collections.abc import Mapping
from typing import Any, TypeVar

V = TypeVar("V")
_CONTAINERS = (dict, list)


def json_copy(value: V) -> V:
    """A value that shares no dict and no list with `value`; several times as fast as `copy.deepcopy`, which knows any type.

    Raises RecursionError for what is nested too deeply.
    """
    if isinstance(value, dict):
        return {key: json_copy(one) if isinstance(one, _CONTAINERS) else one for key, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [json_copy(one) if isinstance(one, _CONTAINERS) else one for one in value]  # type: ignore[return-value]
    return value


def at(value: Any, path: str) -> Any:
    """The value at a dotted path of fields; None where there is none."""
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value
