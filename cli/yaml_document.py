"""Reading untrusted YAML or JSON: plain data only, within limits (attack case S13, YAML bombs).

It is read as kubectl reads it; a duplicate key is an error.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from jobcommon.cli.yaml_scalars import MERGE, reads_as_kubectl

MAX_INT = 2**63 - 1
_PART = re.compile(r"[^.\[\]]+")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one text: `size` bytes, and in each document `depth` levels, `aliases`, and `values` in all.

    Values are counted with the aliases written out: a dozen of them can expand to billions.
    """

    size: int = 1 << 20
    depth: int = 100
    aliases: int = 100
    values: int = 100_000


LIMITS = Limits()


class DocumentError(ValueError):
    """The text is invalid. `line` and `column` count from 1; `path` is the field's when the text has been read."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.path = path


def documents(text: str, limits: Limits = LIMITS) -> Iterator[tuple[yaml.Node, object]]:
    """The documents in `text`, each with its node, which knows its lines (see `line_of`). Raises DocumentError."""
    if len(text) > limits.size or len(text.encode("utf-8", "surrogatepass")) > limits.size:
        raise DocumentError(f"has more than {limits.size} bytes")
    try:
        loader = _Loader(text, limits)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is None:
                    break
                _Budget(limits).spend(node, ())
                body = loader.construct_document(node)
                _check(body, "", 0, [limits.values], limits)
                yield node, body
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        advice = "; indent with blanks, not with tabs" if "'\\t'" in str(error.problem) else ""
        text = f"not valid YAML: {error.problem or error.context}{advice}"
        raise _at(error.problem_mark or error.context_mark, text) from None
    except DocumentError:
        raise
    except (yaml.YAMLError, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        # PyYAML's constructors let what Python says of a bad value through: int("0x"), a list as a key.
        raise DocumentError(f"not valid YAML: {' '.join(str(error).split())}") from None


def line_of(node: yaml.Node, path: str = "") -> int:
    """The line of the field at `path`, as in ``spec.containers[0].image``, or of the nearest one above it that is there."""
    line: int = node.start_mark.line + 1
    for part in _PART.findall(path):
        if isinstance(node, yaml.MappingNode):
            found = next((pair for pair in node.value if pair[0].value == part), None)
        elif isinstance(node, yaml.SequenceNode) and part.isdecimal() and int(part) < len(node.value):
            found = (node.value[int(part)],) * 2
        else:
            found = None
        if found is None:
            break
        line, node = found[0].start_mark.line + 1, found[1]
    return line


@reads_as_kubectl
class _Loader(yaml.SafeLoader):
    """Counts while the document is composed: the composer recurses as deep as the document does."""

    def __init__(self, text: str, limits: Limits) -> None:
        super().__init__(text)
        self._limits = limits
        self._depth = self._aliases = self._values = 0

    def compose_document(self) -> yaml.Node | None:
        self._aliases = self._values = 0
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        collection = isinstance(event, yaml.CollectionStartEvent)
        self._depth += collection
        self._aliases += isinstance(event, yaml.AliasEvent)
        self._values += 1
        if self._depth > self._limits.depth:
            raise _at(event.start_mark, f"is nested more than {self._limits.depth} levels deep")
        if self._aliases > self._limits.aliases:
            raise _at(event.start_mark, f"has more than {self._limits.aliases} aliases")
        if self._values > self._limits.values:
            raise _at(event.start_mark, f"has more than {self._limits.values} values")
        node = super().compose_node(parent, index)
        self._depth -= collection
        return node


class _Budget:
    """Counts the values of a document with its aliases written out; merge keys, too, are written out in construction."""

    def __init__(self, limits: Limits) -> None:
        self._limit = self._left = limits.values

    def spend(self, node: yaml.Node, above: tuple[int, ...]) -> None:
        self._left -= 1
        if self._left < 0:
            raise DocumentError(f"has more than {self._limit} values with its aliases expanded")
        if id(node) in above:
            raise _at(node.start_mark, "contains itself through an alias")
        above = (*above, id(node))
        if isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.tag != MERGE:
                    if key.value in seen:
                        raise _at(key.start_mark, f'not valid YAML: field "{key.value[:40]}" is given twice')
                    seen.add(key.value)
                self.spend(key, above)
                self.spend(value, above)
        elif isinstance(node, yaml.SequenceNode):
            for child in node.value:
                self.spend(child, above)


def _check(value: object, path: str, depth: int, left: list[int], limits: Limits) -> None:
    """Raises DocumentError unless `value` is data that JSON can hold, within `limits`."""
    left[0] -= 1
    if depth > limits.depth:
        raise DocumentError(f"is nested more than {limits.depth} levels deep")
    if left[0] < 0:
        raise DocumentError(f"has more than {limits.values} values")
    if isinstance(value, Mapping):
        for key, child in value.items():
            if not isinstance(key, str):
                raise DocumentError(f"the key {str(key)[:40]} must be text: put it in quotes", path=path)
            _check_letters(key, path)
            _check(child, f"{path}.{key}" if path else key, depth + 1, left, limits)
    elif isinstance(value, list):
        for position, child in enumerate(value):
            _check(child, f"{path}[{position}]", depth + 1, left, limits)
    elif isinstance(value, str):
        _check_letters(value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if (isinstance(value, float) and not math.isfinite(value)) or abs(value) > MAX_INT:
            message = "is not a number that JSON and Kubernetes can represent; put it in quotes if it is meant as text"
            raise DocumentError(message, path=path)
    elif value is not None and not isinstance(value, bool):
        raise DocumentError(f"a {type(value).__name__} is not supported: use text, numbers, lists and mappings", path=path)


def _check_letters(text: str, path: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise DocumentError("is not valid text (a lone surrogate)", path=path)


def _at(mark: Any, message: str) -> DocumentError:
    return DocumentError(message, line=mark.line + 1, column=mark.column + 1) if mark else DocumentError(message)
