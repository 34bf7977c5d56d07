"""What is wrong with the structure of an object, by the schema of its definition: types, required fields, bounds, choices."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from jobcommon.api.resources import ADVICE, PATTERN
from jobcommon.framework import FieldError

Json = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip
_WORDS = {
    "object": "an object", "array": "a list", "string": "text, in quotes", "integer": "a whole number", "number": "a number",
    "boolean": "true or false",
}  # fmt: skip
# By keyword: what is measured, how it compares, and the words.
_BOUNDS: Sequence[tuple[str, Callable[[Any, Any], bool], str]] = (
    ("minimum", lambda value, bound: value >= bound, "must be at least {}"),
    ("maximum", lambda value, bound: value <= bound, "must be at most {}"),
    ("minLength", lambda value, bound: len(value) >= bound, "must have at least {} characters"),
    ("maxLength", lambda value, bound: len(value) <= bound, "must have at most {} characters"),
    ("minItems", lambda value, bound: len(value) >= bound, "must have at least {} entries"),
    ("maxItems", lambda value, bound: len(value) <= bound, "must have at most {} entries"),
    ("minProperties", lambda value, bound: len(value) >= bound, "must have at least {} entries"),
    ("maxProperties", lambda value, bound: len(value) <= bound, "must have at most {} entries"),
)


def without_nulls(node: Json, value: Any) -> Any:
    """The value without fields that are null, as the API server stores it."""
    if isinstance(value, list) and isinstance(node.get("items"), Mapping):
        return [without_nulls(node["items"], entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    known, rest = node.get("properties", {}), node.get("additionalProperties")
    found: dict[str, Any] = {}
    for name, below in value.items():
        its = known.get(name, rest)
        if not isinstance(its, Mapping):
            found[name] = below
        elif below is not None or its.get("nullable"):
            found[name] = without_nulls(its, below)
    return found


def structural_errors(node: Json, value: Any, path: str, *, prunes: bool = False) -> Iterator[FieldError]:
    """The errors in the order of the fields. What the schema does not have is one, too, unless it `prunes` that."""
    kind = node.get("type")
    if value is None:
        if not (node.get("nullable") or "default" in node or node.get("x-kubernetes-preserve-unknown-fields")):
            yield FieldError(path, f"must be {_WORDS.get(kind or '', 'set')}, not null; leave the field out")
        return
    if node.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield FieldError(path, "must be a whole number, or text in quotes")
        elif isinstance(value, str):
            yield from _value_errors(node, value, path)
        return
    if kind is not None and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        yield FieldError(path, f"must be {_WORDS[kind]}")
        return
    yield from _value_errors(node, value, path)
    if isinstance(value, Mapping):
        yield from _object_errors(node, value, path, prunes=prunes)
    elif isinstance(value, list) and isinstance(node.get("items"), Mapping):
        for number, entry in enumerate(value):
            yield from structural_errors(node["items"], entry, f"{path}[{number}]", prunes=prunes)


def _object_errors(node: Json, value: Json, path: str, *, prunes: bool) -> Iterator[FieldError]:
    known, rest = node.get("properties", {}), node.get("additionalProperties")
    for name in node.get("required", ()):
        if name not in value and "default" not in known.get(name, {}):
            yield FieldError(f"{path}.{name}".removeprefix("."), "Required value")
    for name, below in value.items():
        where = f"{path}.{name}".removeprefix(".")
        if name in known:
            yield from structural_errors(known[name], below, where, prunes=prunes)
        elif isinstance(rest, Mapping):
            yield from structural_errors(rest, below, f"{path}[{name}]", prunes=prunes)
        elif not prunes and not node.get("x-kubernetes-preserve-unknown-fields"):
            yield FieldError(where, f"unknown field{_meant(str(name), list(known))}")


def _value_errors(node: Json, value: Any, path: str) -> Iterator[FieldError]:
    allowed: Sequence[Any] = node.get("enum", ())
    if allowed and value not in allowed:
        listed = ", ".join(f'"{one}"' for one in allowed)
        yield FieldError(path, f'"{str(value)[:40]}" is not supported; use one of {listed}')
    pattern = node.get("pattern")
    if pattern is not None and isinstance(value, str) and re.search(pattern, value) is None:
        advice = f"is not a quantity; {ADVICE}" if pattern == PATTERN else f"is not of the form {pattern}"
        yield FieldError(path, f'"{value[:40]}" {advice}')
    for keyword, fits, words in _BOUNDS:
        if keyword in node and not fits(value, node[keyword]):
            yield FieldError(path, words.format(node[keyword]))


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
