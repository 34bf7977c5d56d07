"""Copies of JSON values."""

from typing import TypeVar

V = TypeVar("V")


def json_copy(value: V) -> V:
    """A value that shares no dict and no list with `value`; several times as fast as `copy.deepcopy`, which knows any type.

    Raises RecursionError for what is nested too deeply.
    """
    if isinstance(value, dict):
        return {key: json_copy(one) if isinstance(one, _CONTAINERS) else one for key, one in value.items()}  # type: ignore[return-value]
    if isinstance(value, list):
        return [json_copy(one) if isinstance(one, _CONTAINERS) else one for one in value]  # type: ignore[return-value]
    return value


_CONTAINERS = (dict, list)
