"""Columns of a Table: what each is, and what it shows of an object."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

Json = dict[str, Any]
NONE, UNKNOWN = "<none>", "<unknown>"
#: A `TableColumnDefinition`, and the cell of an object at a time (Unix seconds). Priority 1 is shown with ``-o wide`` only.
Column = tuple[Json, Callable[[Json, float], Any]]
Printer = Sequence[Column]
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
# As kubectl prints ages (HumanDuration): (below this many seconds, the unit, the finer unit that is added where it is not zero)
_STEPS = (
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (48 * _HOUR, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def unix_seconds(timestamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 time stamp; raises ValueError for anything else."""
    return datetime.fromisoformat(timestamp).timestamp()


def age(timestamp: object, now: float) -> str:
    """The age of an RFC 3339 time stamp at `now` (unix seconds), or ``<unknown>`` where there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - unix_seconds(timestamp))
    except ValueError:
        return "<invalid>"


def human_duration(seconds: float) -> str:
    """A span in at most two units: ``45s``, ``3m26s``, ``5d``, ``2d3h``. A second of clock difference counts as
    zero.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    for limit, (size, letter), finer in _STEPS:
        if whole < limit:
            rest = whole % size // finer[0] if finer else 0
            return f"{whole // size}{letter}{rest}{finer[1]}" if finer and rest else f"{whole // size}{letter}"
    return f"{whole // _YEAR}y"


def defined(
    name: str, cell: Callable[[Json, float], Any], kind: str = "string", priority: int = 0, form: str = "", text: str = ""
) -> Column:
    """A column by its whole definition."""
    return {"name": name, "type": kind, "priority": priority, "format": form, "description": text}, cell


def column(name: str, cell: str | Callable[[Json], Any], *, default: Any = "", wide: bool = False) -> Column:
    """A column of what a function finds in an object, or of the field at a dotted path: `default` where it is not set."""

    def found(item: Json, _now: float) -> Any:
        return dig(item, *cell.split("."), default=default) if isinstance(cell, str) else cell(item)

    return defined(name, found, priority=int(wide))


def dig(value: Any, *path: str | int, default: Any = None) -> Any:
    """The value at the path, or the default where a step is missing, null or of the wrong type."""
    for key in path:
        if isinstance(value, dict) and isinstance(key, str):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and -len(value) <= key < len(value):
            value = value[key]
        else:
            return default
        if value is None:
            return default
    return value


NAME = defined(
    "Name", lambda item, _: str(dig(item, "metadata", "name", default="")), form="name",
    text="Name must be unique within a namespace.",
)  # fmt: skip
AGE = defined("Age", lambda item, now: age(dig(item, "metadata", "creationTimestamp"), now))
