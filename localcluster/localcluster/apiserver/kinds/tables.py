"""Defaults and rules of a kind as tables of paths.

A path such as ``spec.rules[].http.paths[].path`` names a field at every place where it can be: ``[]`` stands for each item of a
list. A place exists if the object around it does; the field itself may be absent.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from localcluster.apiserver import names
from localcluster.apiserver.errors import Cause, forbidden, invalid, not_supported, required
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]
#: What is wrong with a value (None: absent) at a path, inside an object.
Check = Callable[[str, Any, Obj], Iterable[Cause]]
Rules = Callable[[Obj], Sequence[Cause]]
UpdateRules = Callable[[Obj, Obj], Sequence[Cause]]

_PERCENT = re.compile(r"[0-9]+%")


def places(value: Any, pattern: str, path: str = "") -> Iterator[tuple[str, Any, Obj]]:
    """Each place of `pattern` in `value`: its path, the value there (None: absent), and the object around it."""
    part, _, rest = pattern.partition(".")
    key = part.removesuffix("[]")
    where = f"{path}.{key}" if path else key
    if not isinstance(value, dict):
        return
    if key == part:
        if not rest:
            yield where, value.get(key), value
        elif key in value:
            yield from places(value[key], rest, where)
        return
    for index, item in enumerate(value.get(key) or ()):
        if rest:
            yield from places(item, rest, f"{where}[{index}]")
        else:
            yield f"{where}[{index}]", item, value


def defaults(*rows: tuple[str, Any] | tuple[str, Any, Mapping[str, Any]]) -> Callable[[Obj], None]:
    """Set fields that are absent, in the order of the rows: path, value and, for some, what the fields beside it must be."""

    def default(obj: Obj) -> None:
        for pattern, value, *condition in rows:
            key = pattern.rpartition(".")[2]
            for _, found, parent in places(obj, pattern):
                if found in (None, "") and all(parent.get(name) == wanted for one in condition for name, wanted in one.items()):
                    parent[key] = fresh(value)

    return default


def under(path: str, **fields: Any) -> list[tuple[str, Any]]:
    """Rows of defaults: fields of the object at `path`, where there is one."""
    return [(f"{path}.{name}", value) for name, value in fields.items()]


def filled(path: str, **fields: Any) -> list[tuple[str, Any]]:
    """Rows of defaults: the object at `path`, with these fields."""
    return [(path, {}), *under(path, **fields)]


def fresh(value: Any) -> Any:
    """A copy of a default, which the object may change."""
    if isinstance(value, dict):
        return {key: fresh(one) for key, one in value.items()}
    return [fresh(one) for one in value] if isinstance(value, list) else value


def in_turn(*steps: Callable[[Obj], None]) -> Callable[[Obj], None]:
    """Several changes as one."""

    def run(obj: Obj) -> None:
        for step in steps:
            step(obj)

    return run


def status_of(*rows: tuple[str, Any]) -> dict[str, Any]:
    """Of a `Strategy`: what a new object gets by `rows`, which are defaults, and an update does not take away."""
    fill = defaults(*rows)
    return {"on_create": fill, "on_update": keep_filled(fill)}


def keep_filled(fill: Callable[[Obj], None]) -> Callable[[Obj, Obj], None]:
    """`fill` for updates: fields of the status that are always sent, whether or not a client sets them."""

    def on_update(new: Obj, _old: Obj) -> None:
        # It may be the stored object's.
        new["status"] = dict(new.get("status") or {})
        fill(new)

    return on_update


def rules(*rows: tuple[str, Check] | Rules) -> Rules:
    """The causes of all rows: a check at each place of a path, or a function of the whole object."""

    def validate(obj: Obj) -> list[Cause]:
        causes: list[Cause] = []
        for row in rows:
            if callable(row):
                causes += row(obj)
            else:
                for place in places(obj, row[0]):
                    causes += row[1](*place)
        return causes

    return validate


def each_at(check: Check, *paths: str) -> list[tuple[str, Check]]:
    """Rows of rules: one check for several fields."""
    return [(path, check) for path in paths]


def immutable(*paths: str) -> UpdateRules:
    """Fields that an update may not change."""

    def validate_update(new: Obj, old: Obj) -> list[Cause]:
        return [
            invalid(path, value, "field is immutable")
            for pattern in paths
            for path, value, _ in places(new, pattern)
            if value != next((before for _, before, _ in places(old, pattern)), None)
        ]

    return validate_update


def frozen(path: str, except_for: Sequence[str], detail: str) -> UpdateRules:
    """An object that an update may not change, but for some of its fields."""

    def validate_update(new: Obj, old: Obj) -> list[Cause]:
        kept = [
            {key: value for key, value in (one.get(path) or {}).items() if key not in except_for} for one in (new, old)
        ]  # fmt: skip
        return [] if kept[0] == kept[1] else [forbidden(path, detail)]

    return validate_update


def given(check: Callable[[str, Any], Iterable[Cause]]) -> Check:
    """A check of values that are there."""
    return lambda path, value, _parent: () if value is None else check(path, value)


def needed(detail: str = "") -> Check:
    """The field must be there, and not empty."""
    return lambda path, value, _parent: [] if value not in (None, "", [], {}) else [required(path, detail)]


def one_of(*values: str) -> Check:
    """One of these values."""
    return given(lambda path, value: [] if value in values else [not_supported(path, value, values)])


def each_of(*values: str) -> Check:
    """A list of these values, whose errors do not say which item is wrong."""
    return given(lambda path, listed: [not_supported(path, value, values) for value in listed if value not in values])


def at_least(least: int) -> Check:
    """A number that is not smaller."""
    detail = f"must be greater than or equal to {least}"
    return given(lambda path, value: [invalid(path, value, detail)] if value < least else [])


def between(least: int, most: int, detail: str = "") -> Check:
    """A number from a range."""
    detail = detail or f"must be between {least} and {most}, inclusive"
    return given(lambda path, value: [] if least <= value <= most else [invalid(path, value, detail)])


def named(rule: names.NameRule) -> Check:
    """A text that follows `rule`; an empty one counts as absent."""
    return given(lambda path, value: names.check(rule, path, value) if value else [])


def needed_name(rule: names.NameRule) -> Check:
    """A text that must be there and follows `rule`."""
    return lambda path, value, _parent: names.check(rule, path, value) if value else [required(path)]


def _amount(path: str, value: Any) -> Iterable[Cause]:
    if isinstance(value, int):
        return [invalid(path, value, "must be greater than or equal to 0")] if value < 0 else []
    if not _PERCENT.fullmatch(value):
        return [invalid(path, value, "a valid percent string must be a numeric string followed by an ending '%'")]
    return []


def _share(path: str, value: Any) -> Iterable[Cause]:
    if isinstance(value, str) and number(value) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return _amount(path, value)


#: A count or a percentage.
amount: Check = given(_amount)
#: A count, or at most 100 percent.
share: Check = given(_share)


def number(value: Any) -> int:
    """Of a count or a percentage, its number; 0 for what is neither."""
    if isinstance(value, int):
        return value
    return int(value[:-1]) if isinstance(value, str) and _PERCENT.fullmatch(value) else 0


def _positive(path: str, value: Any) -> Iterable[Cause]:
    return [] if parse_quantity(value) > 0 else [invalid(path, value, "must be greater than zero")]


#: A quantity above zero.
positive: Check = given(_positive)
