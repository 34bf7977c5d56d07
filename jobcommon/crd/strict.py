"""The API server's validation of a manifest before any rule: unknown fields, wrong types, values out of bounds.

As with `kubectl apply`, which asks for strict field validation. It needs nothing but the definition, so that it is the same on
every machine; the CEL rules of the definition are also checked by `jobcommon.spec.read_job`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from jobcommon.api.resources import ADVICE as QUANTITY_ADVICE
from jobcommon.crd.definition import schema
from jobcommon.crd.pod_template import QUANTITY
from jobcommon.framework import FieldError, Framework, Job
from jobcommon.spec import read_job

Json = Mapping[str, Any]

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip
_WORDS = {
    "object": "an object", "array": "a list", "string": "text, in quotes", "integer": "a whole number", "number": "a number",
    "boolean": "true or false",
}  # fmt: skip
_TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECTS: Json = {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
_OF_METADATA: Sequence[tuple[Json, str]] = (
    ({"type": "string"}, "name generateName namespace uid resourceVersion selfLink"),
    ({"type": "string", "nullable": True}, "creationTimestamp deletionTimestamp"),
    ({"type": "integer"}, "generation deletionGracePeriodSeconds"),
    ({**_TEXTS, "nullable": True}, "labels annotations"),
    (_OBJECTS, "ownerReferences managedFields"),
    ({"type": "array", "items": {"type": "string"}}, "finalizers"),
)
_METADATA: Json = {"type": "object", "properties": {name: node for node, names in _OF_METADATA for name in names.split()}}
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


def read_strictly(framework: Framework, manifest: Json, others: Iterable[Json] = ()) -> tuple[Job, list[FieldError]]:
    """The job as an API server would store it, and its errors: those that the operator would report, else `field_errors`.

    It may refer to `others`, and to objects that come with the operator.
    """
    version = str(manifest.get("apiVersion", "")).rpartition("/")[2]
    known = version in [one.name for one in framework.versions]
    # A key that has no value is dropped where the schema has it.
    stored = _without_nulls(_whole(framework, version), manifest) if known else dict(manifest)
    job = read_job(*framework.specialized(stored, framework.related_to((*framework.shipped(), *others))))
    strict = field_errors(framework, manifest)
    # A misspelt field is also one that is missing: the first is the cause.
    misspelt = [error for error in strict if job.errors and "; did you mean" in error.message]
    return job, [*misspelt, *job.errors] or strict


def _whole(framework: Framework, version: str) -> Json:
    found = schema(framework, version)
    return {**found, "properties": {**found["properties"], "metadata": _METADATA}}


def _without_nulls(node: Json, value: Any) -> Any:
    if isinstance(value, list) and isinstance(node.get("items"), Mapping):
        return [_without_nulls(node["items"], entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    known, rest = node.get("properties", {}), node.get("additionalProperties")
    found: dict[str, Any] = {}
    for name, below in value.items():
        its = known.get(name, rest)
        if not isinstance(its, Mapping):
            found[name] = below
        elif below is not None or its.get("nullable"):
            found[name] = _without_nulls(its, below)
    return found


def field_errors(framework: Framework, manifest: Json) -> list[FieldError]:
    """The errors that an API server would find in the manifest of a job, in the order of its fields. The status is ignored:
    on creation the server drops it.
    """
    version = str(manifest.get("apiVersion", "")).rpartition("/")[2]
    served = [f"{framework.group}/{one.name}" for one in framework.versions]
    if version not in [one.name for one in framework.versions]:
        return [FieldError("apiVersion", f'"{manifest.get("apiVersion")}" has no {framework.kind}; use {" or ".join(served)}')]
    whole = _whole(framework, version)
    given = _without_nulls(whole, {key: value for key, value in manifest.items() if key != "status"})
    return list(_errors(whole, given, ""))


def _errors(node: Json, value: Any, path: str) -> Iterator[FieldError]:
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
        yield from _object_errors(node, value, path)
    elif isinstance(value, list) and isinstance(node.get("items"), Mapping):
        for number, entry in enumerate(value):
            yield from _errors(node["items"], entry, f"{path}[{number}]")


def _object_errors(node: Json, value: Json, path: str) -> Iterator[FieldError]:
    known, rest = node.get("properties", {}), node.get("additionalProperties")
    for name in node.get("required", ()):
        if name not in value and "default" not in known.get(name, {}):
            yield FieldError(f"{path}.{name}".removeprefix("."), "Required value")
    for name, below in value.items():
        where = f"{path}.{name}".removeprefix(".")
        if name in known:
            yield from _errors(known[name], below, where)
        elif isinstance(rest, Mapping):
            yield from _errors(rest, below, f"{path}[{name}]")
        elif not node.get("x-kubernetes-preserve-unknown-fields"):
            yield FieldError(where, f"unknown field{_meant(str(name), list(known))}")


def _value_errors(node: Json, value: Any, path: str) -> Iterator[FieldError]:
    allowed: Sequence[Any] = node.get("enum", ())
    if allowed and value not in allowed:
        listed = ", ".join(f'"{one}"' for one in allowed)
        yield FieldError(path, f'"{str(value)[:40]}" is not supported; use one of {listed}')
    pattern = node.get("pattern")
    if pattern is not None and isinstance(value, str) and re.search(pattern, value) is None:
        advice = f"is not a quantity; {QUANTITY_ADVICE}" if pattern == QUANTITY["pattern"] else f"is not of the form {pattern}"
        yield FieldError(path, f'"{value[:40]}" {advice}')
    for keyword, fits, words in _BOUNDS:
        if keyword in node and not fits(value, node[keyword]):
            yield FieldError(path, words.format(node[keyword]))


def _meant(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f'; did you mean "{close[0]}"?' if close else ""
