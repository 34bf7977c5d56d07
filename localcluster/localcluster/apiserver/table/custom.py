"""Custom resources: the columns a CRD declares (`additionalPrinterColumns`)."""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jsonpath

from localcluster.apiserver.table.printer import NAME, Column, Json, Printer, age, defined

DEFAULT_COLUMNS: list[Json] = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]
#: A name after a dot, which may have any character that is escaped; what is in brackets is left alone.
_NAME = re.compile(r"\[[^\]]*\]|(?<!\.)\.((?:\\.|[^.\[\\*])+)")


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


def custom_printer(declared: list[Json] | None) -> Printer:
    """The printer of a CRD version; Name and Age when it declares no columns."""
    return [NAME, *map(_shown, declared or DEFAULT_COLUMNS)]
