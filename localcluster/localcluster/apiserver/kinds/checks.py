"""Checks of one field: what is wrong with a value at a path."""

from collections.abc import Callable, Iterable
from typing import Any

from localcluster.apiserver import names
from localcluster.apiserver.errors import Cause, invalid, not_supported, required

Obj = dict[str, Any]
#: What is wrong with a value (None: absent) at a path, inside an object.
Check = Callable[[str, Any, Obj], Iterable[Cause]]


def given(check: Callable[[str, Any], Iterable[Cause]]) -> Check:
    """A check of values that are there."""
    return lambda path, value, _parent: () if value is None else check(path, value)


def one_of(*values: str) -> Check:
    """One of these values."""
    return given(lambda path, value: [] if value in values else [not_supported(path, value, values)])


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
