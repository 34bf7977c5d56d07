"""Reading a YAML document that nobody vouches for: plain data only, within limits (attack case S13, YAML bombs)."""

import math
from collections.abc import Mapping
from typing import Any

import yaml

from jobcommon.convert.finding import ConvertError, Finding

MAX_BYTES = 1 << 20
MAX_DEPTH = 100
MAX_ALIASES = 100
# With the aliases written out: a dozen of them can stand for billions of values.
MAX_VALUES = 100_000
MAX_INT = 2**63 - 1


class _Loader(yaml.SafeLoader):
    """Dates are text, as for Kubernetes."""


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def parse(text: str) -> Mapping[str, Any]:
    """The one mapping that `text` holds. Raises ConvertError for anything else, or beyond the limits."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _refused("", f"the file has more than {MAX_BYTES} bytes")
    try:
        _check_events(text)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is not None:
                _Budget().spend(node, ())
            body = loader.construct_document(node) if node is not None else None
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _refused(where, f"not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # PyYAML's constructors let what Python says of a bad value through: int("0x"), a list as a key.
        raise _refused("", f"not valid YAML: {error}") from None
    return checked(body)


def checked(body: object) -> Mapping[str, Any]:
    """`body`, if it is a mapping of plain data within the limits. Raises ConvertError."""
    if not isinstance(body, Mapping):
        raise _refused("", f"a polyaxonfile is a mapping of names to values, not {_kind(body)}")
    left = [MAX_VALUES]
    _check_value(body, "", 0, left)
    return body


def _check_value(value: object, path: str, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if depth > MAX_DEPTH:
        raise _refused("", f"is nested more than {MAX_DEPTH} deep")
    if left[0] < 0:
        raise _refused("", f"has more than {MAX_VALUES} values")
    if isinstance(value, Mapping):
        for key, child in value.items():
            if not isinstance(key, str):
                raise _refused(path, f"the key {str(key)[:40]} must be text: put it in quotes")
            _check_value(child, f"{path}.{key}" if path else key, depth + 1, left)
    elif isinstance(value, list):
        for position, child in enumerate(value):
            _check_value(child, f"{path}[{position}]", depth + 1, left)
    elif isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise _refused(path, "is not valid text (a lone surrogate)")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if (isinstance(value, float) and not math.isfinite(value)) or abs(value) > MAX_INT:
            raise _refused(path, "is no number that JSON and Kubernetes can hold; put it in quotes if it is meant as text")
    elif value is not None and not isinstance(value, bool):
        raise _refused(path, f"{_kind(value)} is not supported: use text, numbers, lists and mappings")


def _line(node: yaml.Node | yaml.Event) -> str:
    return f"line {node.start_mark.line + 1}" if node.start_mark else ""


def _check_events(text: str) -> None:
    """Before anything is built: the composer recurses as deep as the document does."""
    depth = aliases = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise _refused(_line(event), f"is nested more than {MAX_DEPTH} deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
            if aliases > MAX_ALIASES:
                raise _refused(_line(event), f"has more than {MAX_ALIASES} aliases")


class _Budget:
    """Counts the values of a document with its aliases written out; merge keys, too, are written out in construction."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def spend(self, node: yaml.Node, above: tuple[int, ...]) -> None:
        self._left -= 1
        if self._left < 0:
            raise _refused("", f"has more than {MAX_VALUES} values, its aliases written out")
        if id(node) in above:
            raise _refused(_line(node), "contains itself by an alias")
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                    if key.value in seen:
                        raise _refused(_line(key), f'"{key.value[:40]}" is given twice')
                    seen.add(key.value)
                self.spend(key, (*above, id(node)))
                self.spend(value, (*above, id(node)))
        elif isinstance(node, yaml.SequenceNode):
            for child in node.value:
                self.spend(child, (*above, id(node)))


def _kind(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _refused(path: str, message: str) -> ConvertError:
    return ConvertError((Finding(path, message),))
