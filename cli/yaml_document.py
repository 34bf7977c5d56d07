"""Reading untrusted YAML or JSON: plain data only, within limits (attack case S13, YAML bombs).

It is read as kubectl reads it; a duplicate key is an error.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from jobcommon.cli.yaml_scalars import MERGE, TAG, kind, tag_of, value

MAX_INT = 2**63 - 1
MAX_BYTES = 1 << 20
# Of each document. Values are counted with the aliases written out: a dozen of them can expand to billions.
MAX_DEPTH = 100
MAX_VALUES = 100_000
TYPES = ("null", "bool", "int", "float")
# A date is text, as a plain << that is no key.
_TEXTS = ("str", "timestamp", "merge")
_PART = re.compile(r"[^.\[\]]+")


class DocumentError(ValueError):
    """The text is invalid. `line` and `column` count from 1; `path` is the field's when the text has been read."""

    def __init__(self, message: str, *, line: int | None = None, column: int | None = None, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.path = path


def documents(text: str) -> Iterator[tuple[yaml.Node, object]]:
    """The documents in `text`, each with its node, which knows its lines (see `line_of`). Raises DocumentError."""
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise DocumentError(f"has more than {MAX_BYTES} bytes")
    try:
        loader = _Loader(text)
        try:
            while loader.check_node():
                node = loader.get_node()
                if node is None:
                    break
                yield node, _Builder().build(node, "", ())
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        advice = "; indent with blanks, not with tabs" if "'\\t'" in str(error.problem) else ""
        text = f"not valid YAML: {error.problem or error.context}{advice}"
        raise _at(error.problem_mark or error.context_mark, text) from None
    except DocumentError:
        raise
    except (yaml.YAMLError, ValueError) as error:
        # A control character, or a number of thousands of digits.
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


class _Loader(yaml.SafeLoader):
    """Counts while the document is composed: the composer recurses as deep as the document does, and takes its time."""

    _depth = _values = 0

    def resolve(self, node: type[yaml.Node], text: Any, implicit: Any) -> str:
        plain = node is yaml.ScalarNode and implicit[0]
        return tag_of(text) if plain else str(super().resolve(node, text, implicit))  # type: ignore[no-untyped-call]

    def compose_document(self) -> yaml.Node | None:
        self._values = 0
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        collection = isinstance(event, yaml.CollectionStartEvent)
        self._depth += collection
        self._values += 1
        if self._values > MAX_VALUES:
            raise _at(event.start_mark, f"has more than {MAX_VALUES} values")
        if self._depth > MAX_DEPTH:
            raise _at(event.start_mark, f"is nested more than {MAX_DEPTH} levels deep")
        node = super().compose_node(parent, index)
        self._depth -= collection
        return node


class _Builder:
    """Makes the data of a document, with its aliases and merge keys written out, and counts its values."""

    def __init__(self) -> None:
        self._left = MAX_VALUES

    def build(self, node: yaml.Node, path: str, above: tuple[int, ...]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise DocumentError(f"has more than {MAX_VALUES} values with its aliases expanded")
        if id(node) in above:
            raise _at(node.start_mark, "contains itself through an alias")
        if len(above) > MAX_DEPTH:
            raise _at(node.start_mark, f"is nested more than {MAX_DEPTH} levels deep")
        above, tag = (*above, id(node)), node.tag.removeprefix(TAG)
        if isinstance(node, yaml.MappingNode) and tag == "map":
            return self._mapping(node, path, above)
        if isinstance(node, yaml.SequenceNode) and tag == "seq":
            return [self.build(child, f"{path}[{position}]", above) for position, child in enumerate(node.value)]
        if not isinstance(node, yaml.ScalarNode) or tag not in (*TYPES, *_TEXTS):
            raise _at(node.start_mark, f"not valid YAML: the tag {node.tag} is not supported")
        if tag in TYPES and kind(node.value) not in (tag, "int" if tag == "float" else tag):
            raise _at(node.start_mark, f"not valid YAML: {node.value[:40]} is not of the type {tag}")
        return _checked(value(node.value) if tag in TYPES else str(node.value), path)

    def _mapping(self, node: yaml.MappingNode, path: str, above: tuple[int, ...]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        own: dict[str, Any] = {}
        seen: set[str] = set()
        for key, child in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise _at(key.start_mark, "not valid YAML: a key must be text")
            if key.tag == MERGE:
                # Of several the first wins.
                for one in child.value if isinstance(child, yaml.SequenceNode) else [child]:
                    if not isinstance(one, yaml.MappingNode):
                        raise _at(one.start_mark, "not valid YAML: << takes a mapping, or a list of mappings")
                    merged = {**self.build(one, path, above), **merged}
                continue
            if key.value in seen:
                raise _at(key.start_mark, f'not valid YAML: field "{key.value[:40]}" is given twice')
            seen.add(key.value)
            name = self.build(key, path, above)
            if not isinstance(name, str):
                raise DocumentError(f"the key {str(name)[:40]} must be text: put it in quotes", path=path)
            own[name] = self.build(child, f"{path}.{name}" if path else name, above)
        return {**merged, **own}


def _checked(value: str | bool | float | None, path: str) -> str | bool | float | None:
    """The value, if JSON can hold it."""
    if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise DocumentError("is not valid text (a lone surrogate)", path=path)
    if isinstance(value, int | float) and not abs(value) <= MAX_INT:  # neither NaN
        message = "is not a number that JSON and Kubernetes can represent; put it in quotes if it is meant as text"
        raise DocumentError(message, path=path)
    return value


def _at(mark: Any, message: str) -> DocumentError:
    return DocumentError(message, line=mark.line + 1, column=mark.column + 1) if mark else DocumentError(message)
