"""What a printer of one kind is: columns, and a function from an object to its cells."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.table.duration import age

Json = dict[str, Any]
NONE = "<none>"


@dataclass(frozen=True)
class Column:
    """One table column. kubectl shows priority 0 always and 1 with ``-o wide``."""

    name: str
    type: str = "string"
    priority: int = 0
    format: str = ""
    description: str = ""

    def as_json(self) -> Json:
        """The column as a `TableColumnDefinition`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True)
class Printer:
    """Columns, and the cells of one object at a time `now` (unix seconds)."""

    columns: Sequence[Column]
    cells: Callable[[Json, float], list[Any]]


#: A column with what it shows of an object.
Shown = tuple[Column, Callable[[Json, float], Any]]
NAME = Column("Name", format="name", description="Name must be unique within a namespace.")


def timed(name: str, cell: Callable[[Json, float], Any], *, wide: bool = False) -> Shown:
    """A column that depends on the time, such as an age."""
    return Column(name, priority=int(wide)), cell


def column(
    name: str, cell: str | Callable[[Any], Any], kind: str = "string", *, default: Any = "",
    show: Callable[[Any], Any] | None = None, wide: bool = False,
) -> Shown:  # fmt: skip
    """A column of what a function finds in an object, or of the field at a dotted path: `default` where it is not set, and as
    `show` writes it. kubectl shows a `wide` one with ``-o wide`` only.
    """
    find = field(cell, default, show) if isinstance(cell, str) else cell
    return Column(name, kind, int(wide)), lambda item, _now: find(item)


def field(dotted: str, default: Any, show: Callable[[Any], Any] | None) -> Callable[[Json], Any]:
    """What finds the field at a path."""
    path = dotted.split(".")
    return lambda item: show(dig(item, *path, default=default)) if show else dig(item, *path, default=default)


def printer(*shown: Shown) -> Printer:
    """A printer of these columns."""
    cells = [cell for _, cell in shown]
    return Printer([one for one, _ in shown], lambda item, now: [cell(item, now) for cell in cells])


def named(*shown: Shown, name: Callable[[Json], str] | None = None) -> Printer:
    """A printer of Name and these columns."""
    return printer((NAME, lambda item, _now: (name or name_of)(item)), *shown)


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


def name_of(item: Json) -> str:
    """``metadata.name``."""
    return str(dig(item, "metadata", "name", default=""))


def created(item: Json, now: float) -> str:
    """The age of the object."""
    return age(dig(item, "metadata", "creationTimestamp"), now)


def joined(values: Sequence[Any], separator: str = ",") -> str:
    """The values in one cell, or ``<none>``."""
    return separator.join(str(value) for value in values) or NONE


def selector_text(selector: Any) -> str:
    """A label selector (map or LabelSelector) as ``a=b,c in (d)``."""
    if not isinstance(selector, dict):
        return NONE
    if not ("matchLabels" in selector or "matchExpressions" in selector):
        return joined([f"{key}={value}" for key, value in sorted(selector.items())])
    words = {"In": "in", "NotIn": "notin"}
    parts = [f"{key}={value}" for key, value in sorted(dig(selector, "matchLabels", default={}).items())]
    for one in dig(selector, "matchExpressions", default=[]):
        key, operator = one.get("key", ""), one.get("operator", "")
        if operator in words:
            parts.append(f"{key} {words[operator]} ({','.join(sorted(one.get('values', ())))})")
        else:
            parts.append(key if operator == "Exists" else f"!{key}")
    return joined(parts)


AGE = timed("Age", created)
