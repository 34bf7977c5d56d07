"""``{{ name }}``: the values of declarations (to 0.4) and params (0.5 on), put where they are named."""

import json
import re
from collections.abc import Mapping
from typing import Any

from jobcommon.cli.convert.finding import Notes
from jobcommon.cli.convert.section import Section, scalar_text

_PLACE = re.compile(r"\{\{\s*(.*?)\s*\}\}", re.DOTALL)
_NAME = re.compile(r"(?:(?:params|inputs|declarations)\.)?([A-Za-z_][\w-]*)(\.value)?", re.ASCII)
_ADVICE = "only the values of params can be used here: write the value itself"


def read_params(section: Section, *keys: str) -> dict[str, Any]:
    """The values under the first of `keys` that is there: name -> value, or ``{value: …}``."""
    found: dict[str, Any] = {}
    for key in keys:
        if not section.has(key):
            continue
        path, value = section.at(key), section.take(key)
        if found or not isinstance(value, Mapping):
            section.notes.error(path, "must be a mapping of names to values, and given once")
            continue
        found = {name: _value(entry, f"{path}.{name}", section.notes) for name, entry in value.items()}
    return found


def substitute(value: Any, params: Mapping[str, Any], path: str, notes: Notes) -> Any:
    """`value` with every ``{{ name }}`` replaced. A text that is nothing else becomes the value itself, with its type."""
    if isinstance(value, Mapping):
        return {key: substitute(child, params, f"{path}.{key}", notes) for key, child in value.items()}
    if isinstance(value, list):
        return [substitute(child, params, f"{path}[{position}]", notes) for position, child in enumerate(value)]
    if not isinstance(value, str):
        return value
    if "{%" in value:
        notes.error(path, "conditions and loops in braces ({% … %}) are not supported: write out their result")
    whole = _PLACE.fullmatch(value)
    # Two places in a text can look like one long one.
    if whole and "{{" not in whole.group(1):
        return _look_up(whole.group(1), params, path, notes)
    return _PLACE.sub(lambda place: _as_text(_look_up(place.group(1), params, path, notes)), value)


def _value(entry: Any, path: str, notes: Notes) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    if "ref" in entry:
        notes.error(path, "a reference to another run cannot be resolved here: write the value")
    return entry.get("value", entry)


def _look_up(expression: str, params: Mapping[str, Any], path: str, notes: Notes) -> Any:
    name = _NAME.fullmatch(expression)
    if name is None:
        notes.error(path, f'"{{{{ {expression[:60]} }}}}" is more than a name; {_ADVICE}')
    elif name.group(1) not in params:
        known = ", ".join(params) or "none"
        notes.error(path, f'"{{{{ {expression[:60]} }}}}" names no param (there are: {known[:200]}); {_ADVICE}')
    else:
        return params[name.group(1)]
    return ""


def _as_text(value: Any) -> str:
    """A value inside a text, as Python's templates write it: numbers and booleans plainly, lists and maps as JSON."""
    if isinstance(value, bool) or value is None:
        return str(value)
    text = scalar_text(value)
    return json.dumps(value, ensure_ascii=False) if text is None else text
