"""Columns of a Table: what each is, and what it shows of an object."""

from collections.abc import Callable, Sequence
from typing import Any

from localcluster.apiserver.table.duration import age

Json = dict[str, Any]
NONE = "<none>"
#: A `TableColumnDefinition`, and the cell of an object at a time (Unix seconds). Priority 1 is shown with ``-o wide`` only.
Column = tuple[Json, Callable[[Json, float], Any]]
Printer = Sequence[Column]


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
