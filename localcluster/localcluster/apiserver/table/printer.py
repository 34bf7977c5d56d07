"""What a printer of one kind is: columns, and a function from an object to its cells."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
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
        return asdict(self)


@dataclass(frozen=True)
class Printer:
    """Columns, and the cells of one object at a time `now` (unix seconds)."""

    columns: Sequence[Column]
    cells: Callable[[Json, float], list[Any]]


#: A column with what it shows of an object.
Shown = tuple[Column, Callable[[Json, float], Any]]
NAME = Column("Name", format="name", description="Name must be unique within a namespace.")


def timed(name: str, cell: Callable[[Json, float], Any]) -> Shown:
    """A column that depends on the time, such as an age."""
    return Column(name), cell


def column(name: str, cell: str | Callable[[Json], Any], *, default: Any = "", wide: bool = False) -> Shown:
    """A column of what a function finds in an object, or of the field at a dotted path: `default` where it is not set. kubectl
    shows a `wide` one with ``-o wide`` only.
    """

    def found(item: Json, _now: float) -> Any:
        return dig(item, *cell.split("."), default=default) if isinstance(cell, str) else cell(item)

    return Column(name, priority=int(wide)), found


def printer(*shown: Shown) -> Printer:
    """A printer of these columns."""
    cells = [cell for _, cell in shown]
    return Printer([one for one, _ in shown], lambda item, now: [cell(item, now) for cell in cells])


def named(*shown: Shown) -> Printer:
    """A printer of Name and these columns."""
    return printer((NAME, lambda item, _now: name_of(item)), *shown)


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


AGE = timed("Age", lambda item, now: age(dig(item, "metadata", "creationTimestamp"), now))
