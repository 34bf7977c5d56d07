"""JSON Merge Patch (RFC 7396): what a correction of an object says, and what it makes of it."""

from collections.abc import Mapping
from typing import Any


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any], *, exact: bool = False) -> dict[str, Any]:
    """The patch that makes of `found` what is `wanted`, where None stands for a field that must not be there; {} for no change.

    Only what is asked for counts: the API server's defaults and other writers' fields are no differences, within the elements
    of a list unless lists are to be `exact`. A list is replaced as a whole.
    """
    patch: dict[str, Any] = {}
    for key, value in wanted.items():
        there = found.get(key)
        if there == value:
            continue
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            if inner := difference(there, value, exact=exact):
                patch[key] = inner
        elif exact or not _covers(there, value):
            patch[key] = merged({}, value) if isinstance(value, Mapping) else value
    return patch


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The document as the patch leaves it; with {} as the document, the patch without its None."""
    new = dict(document)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, Mapping):
            there = new.get(key)
            new[key] = merged(there if isinstance(there, Mapping) else {}, value)
        else:
            new[key] = value
    return new


def _covers(found: Any, wanted: Any) -> bool:
    if found == wanted:
        return True
    if found is None and isinstance(wanted, Mapping):
        return not merged({}, wanted)  # An empty object does not come back at all, and an empty list as null.
    if found is None and isinstance(wanted, list | tuple):
        return not wanted
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and not difference(found, wanted)
    return (
        isinstance(wanted, list | tuple)
        and isinstance(found, list)
        and len(found) == len(wanted)
        and all(_covers(f, w) for f, w in zip(found, wanted, strict=True))
    )
