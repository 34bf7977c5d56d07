"""What a printer of one kind is: columns, and a function from an object to its cells."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver.table.duration import age

Json = dict[str, Any]
NONE = "<none>"
UNSET = "<unset>"


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


NAME = Column("Name", format="name", description="Name must be unique within a namespace.")


def columns(*names: str, wide: Sequence[str] = (), types: Mapping[str, str] | None = None) -> list[Column]:
    """Columns after Name; `wide` ones have priority 1, `types` names those that are not strings."""
    kinds = types or {}
    plain = [Column(name, kinds.get(name, "string")) for name in names]
    return [NAME, *plain, *(Column(name, kinds.get(name, "string"), 1) for name in wide)]


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


def containers(template: Json) -> list[str]:
    """Two cells: the container names and images of a pod template."""
    found = dig(template, "spec", "containers", default=[])
    return [joined([one.get("name", "") for one in found]), joined([one.get("image", "") for one in found])]
