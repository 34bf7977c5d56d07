"""Server-side printing: objects as a `meta.k8s.io/v1` Table, which is what `kubectl get` shows."""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonpath

from localcluster.apiserver.table import builtin
from localcluster.apiserver.table.printer import NAME, Column, Json, Printer, age, defined

DEFAULT_COLUMNS: list[Json] = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
#: A name after a dot, which may have any character that is escaped; what is in brackets is left alone.
_NAME = re.compile(r"\[[^\]]*\]|(?<!\.)\.((?:\\.|[^.\[\\*])+)")


@lru_cache(maxsize=256)
def _custom(declared: str) -> Printer:
    """The columns that a CRD version declares; Name and Age when it declares none."""
    return [NAME, *map(_shown, json.loads(declared) or DEFAULT_COLUMNS)]


def _row_object(item: Json, include: str) -> Any:
    if include == "Object":
        return item
    if include == "None":
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item.get("metadata", {})}


def to_table(
    group: str,
    kind: str,
    objects: list[Json],
    *,
    now: float,
    columns: list[Json] | None = None,
    custom: bool = False,
    include_object: str = "Metadata",
    list_meta: Json | None = None,
) -> Json:
    """The objects of one kind as a Table, ages counted to `now` (unix seconds).

    `columns` are the `additionalPrinterColumns` of a CRD version; `custom` says that the kind is a custom resource even
    if it declares none. A built-in kind without a printer of its own gets Name and Created At, as on the real server.
    `include_object` is the query parameter of that name.
    """
    printer = (
        _custom(json.dumps(columns or [])) if custom or columns else builtin.PRINTERS.get((group, kind), builtin.CREATED_AT)
    )
    cells = [[cell(item, now) for _, cell in printer] for item in objects]
    rows = [{"cells": row, "object": _row_object(item, include_object)} for row, item in zip(cells, objects, strict=True)]
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta or {},
        "columnDefinitions": [definition for definition, _ in printer],
        "rows": rows,
    }


@lru_cache(maxsize=1024)
def compile_path(path: str) -> Callable[[Any], Any]:
    """A function that finds the first value at a Kubernetes JSONPath, or None. Raises ValueError for a malformed
    path.
    """
    text = path.strip().removeprefix("{").removesuffix("}")
    try:
        found = jsonpath.compile("$" + _NAME.sub(_quoted, text))
    except jsonpath.JSONPathError as error:
        raise ValueError(f"{path!r} is not a JSONPath: {error}") from error
    return lambda value: next((match.obj for match in found.finditer(value)), None)


def _quoted(part: re.Match[str]) -> str:
    return part[0] if part[1] is None else f"['{part[1].replace(chr(92), '')}']"


def _cell(value: Any, kind: str, now: float) -> Any:
    if value is None:
        return None
    if kind == "date":
        return age(value, now)
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if kind in ("integer", "number"):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return (int(value) if kind == "integer" else value) if number else None
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


def _shown(one: Json) -> Column:
    find, kind = compile_path(one["jsonPath"]), one.get("type", "string")
    return defined(
        one["name"], lambda item, now: _cell(find(item), kind, now), kind, one.get("priority", 0), one.get("format", ""),
        one.get("description", ""),
    )  # fmt: skip
