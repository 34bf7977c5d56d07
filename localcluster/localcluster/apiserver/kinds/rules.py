"""The forms that most rules of a type have, as actions of a `Walk`."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid, required
from localcluster.apiserver.kinds import checks
from localcluster.apiserver.kinds.walk import Action
from localcluster.apiserver.names import NameRule, check, port_name

Obj = dict[str, Any]
NEGATIVE = "must be greater than or equal to 0"
_FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_UNION = "may not specify more than 1 {} type"


def need(*fields: str, detail: str = "") -> Action:
    """The fields must not be empty."""

    def action(obj: Obj, path: str, _: Any) -> Iterator[Cause]:
        for name in fields:
            if not obj.get(name):
                yield required(f"{path}.{name}", detail)

    return action


def one_of(name: str, *allowed: str, needed: bool = True, detail: str = "") -> Action:
    """The field is one of the values; an empty one is reported as missing if it is `needed`."""

    known = checks.one_of(*allowed)
    return on(name, lambda path, value, obj: [required(path, detail)] if needed and not value else known(path, value, obj))


def on(name: str, check: checks.Check) -> Action:
    """A check of one field."""
    return lambda obj, path, _: check(f"{path}.{name}", obj.get(name), obj)


def between(name: str, low: int, high: int, detail: str = "") -> Action:
    """The number, if given, is in the range."""
    return on(name, checks.between(low, high, detail))


def file_mode(name: str) -> Action:
    """The permissions of a file."""
    return between(name, 0, 0o777, _FILE_MODE)


def identity(name: str) -> Action:
    """A user's or a group's number."""
    return between(name, 0, 2**31 - 1)


def form(name: str, rule: NameRule, *, needed: bool = False) -> Action:
    """The text follows a rule for names; an empty one is missing if it is `needed`."""
    return on(name, checks.needed_name(rule) if needed else checks.named(rule))


def each(name: str, rule: NameRule) -> Action:
    """Every text of a list follows a rule."""

    def action(obj: Obj, path: str, _: Any) -> Iterator[Cause]:
        for index, value in enumerate(obj.get(name) or ()):
            yield from check(rule, f"{path}.{name}[{index}]", value)

    return action


def union(what: str, fields: Sequence[str], *, spelt: Callable[[str], str] = str) -> Action:
    """Exactly one of the fields is given."""

    def action(obj: Obj, path: str, _: Any) -> Iterator[Cause]:
        given = [name for name in fields if obj.get(name) is not None]
        if not given:
            yield required(path, f"must specify a {what} type")
        for name in given[1:]:
            yield forbidden(f"{path}.{spelt(name)}", _UNION.format(what))

    return action


def beyond_first(fields: Sequence[str]) -> Callable[[Obj, str, Any], Collection[str]]:
    """Of a union only the first member is looked at."""
    return lambda obj, _path, _context: [name for name in fields if obj.get(name) is not None][1:]


def port(name: str) -> Action:
    """A port's number or name."""

    def action(obj: Obj, path: str, _: Any) -> Iterator[Cause]:
        yield from port_causes(obj.get(name, 0), f"{path}.{name}")

    return action


def port_causes(value: Any, path: str) -> list[Cause]:
    """What is wrong with a port's number or name."""
    if isinstance(value, str):
        return check(port_name, path, value)
    return [] if 1 <= value <= 65535 else [invalid(path, value, "must be between 1 and 65535, inclusive")]


def relative(path: str, value: str, *, reserved: bool = False) -> Iterator[Cause]:
    """A relative path without ``..``; with `reserved` nor may it begin with two dots."""
    if value.startswith("/"):
        yield invalid(path, value, "must be a relative path")
    if ".." in value.split("/"):
        yield invalid(path, value, "must not contain '..'")
    if reserved and value.startswith("..") and not value.startswith("../"):
        yield invalid(path, value, "must not start with '..'")


def local_path(name: str) -> Action:
    """A path inside a volume."""
    return lambda obj, path, _: relative(f"{path}.{name}", obj.get(name) or "", reserved=True)
