"""Label and field selectors, as strings of the query."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from localcluster.apiserver.errors import ApiError, bad_request
from localcluster.apiserver.json_values import at

FieldGetter = Callable[[Mapping[str, Any]], str]
#: The conditions on labels, or on the fields of an object, which all must hold; without any, everything matches.
Selector = tuple[Callable[[Mapping[str, Any]], bool], ...]

_KEY = r"(?:[A-Za-z0-9][-A-Za-z0-9.]*/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[-A-Za-z0-9_.]*"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^()]*)\)\s*")
_COMPARE = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_COMPARISONS = {"=": "in", "==": "in", "!=": "notin"}


def parse_labels(text: str) -> Selector:
    """Parse ``a=b,c in (d,e),!f``. Raises a 400 ApiError."""
    found: list[Callable[[Mapping[str, Any]], bool]] = []
    position = 0
    while position < len(text):
        if match := _SET.match(text, position):
            found.append(_condition(match[1], match[2], tuple(value.strip() for value in match[3].split(","))))
        elif match := _COMPARE.match(text, position):
            found.append(_condition(match[1], _COMPARISONS[match[2]], (match[3],)))
        elif match := _EXISTS.match(text, position):
            found.append(_condition(match[2], "!" if match[1] else "exists", ()))
        else:
            raise _unparsable(text)
        position = match.end()
        if position < len(text):
            if text[position] != "," or position + 1 == len(text):
                raise _unparsable(text)
            position += 1
    return tuple(found)


def _condition(key: str, operator: str, values: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    match operator:
        case "in":
            return lambda labels: labels.get(key) in values
        case "notin":
            # As on the real server, this and != also match where the label is missing.
            return lambda labels: labels.get(key) not in values
        case "exists":
            return lambda labels: key in labels
    return lambda labels: key not in labels


def _unparsable(text: str) -> ApiError:
    return bad_request(f"unable to parse requirement: {text!r} is not a valid label selector")


def parse_fields(text: str, getters: Mapping[str, FieldGetter]) -> tuple[Selector, str | None]:
    """Parse ``metadata.name=x,status.phase!=Running`` over the fields a resource offers. Raises a 400 ApiError.

    With the selector comes the value of an equality on metadata.name, so that a single object is found by its key.
    """
    found: list[Callable[[Mapping[str, Any]], bool]] = []
    name = None
    for term in filter(None, re.split(r"(?<!\\),", text)):
        match = re.fullmatch(r"([^=!]+)(==|=|!=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: {text!r}; can't understand {term!r}")
        getter = getters.get(match[1])
        if getter is None:
            raise bad_request(f"field label not supported: {match[1]}")
        value, equal = re.sub(r"\\(.)", r"\1", match[3]), match[2] != "!="
        if equal and match[1] == "metadata.name":
            name = value
        found.append(_comparison(getter, value, equal))
    return tuple(found), name


def _comparison(getter: FieldGetter, value: str, equal: bool) -> Callable[[Mapping[str, Any]], bool]:
    return lambda obj: (getter(obj) == value) is equal


def field(path: str) -> FieldGetter:
    """A getter of a dotted path; missing is the empty string, booleans are ``true`` and ``false``."""

    def get(obj: Mapping[str, Any]) -> str:
        value = at(obj, path)
        if isinstance(value, bool):
            return "true" if value else "false"
        return "" if value is None else str(value)

    return get
