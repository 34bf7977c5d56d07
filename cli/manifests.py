"""Reading manifests: YAML or JSON from files, directories and standard input, several documents each.

Every error names the file and the place in it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cli.converting import converted
from cli.errors import UserError

STDIN = "-"
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and where it was written: a file's name and the line on which it begins."""

    source: str
    line: int
    body: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The object's kind."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str | None:
        """The namespace it asks for, if it does."""
        namespace = self.body["metadata"].get("namespace")
        return str(namespace) if namespace else None

    @property
    def place(self) -> str:
        """Where it stands, for messages: ``job.yaml:12: PyTorchJob digits``."""
        return f"{self.source}:{self.line}: {self.kind} {self.name}"


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: a date is a string, and no key stands twice."""


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen: set[str] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f'field "{key.value}" is given twice', key.start_mark)
            seen.add(key.value)
    loader.flatten_mapping(node)
    return dict(loader.construct_pairs(node, deep=True))


def _text(loader: _Loader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:timestamp", _text)


def load(names: Iterable[str]) -> list[Manifest]:
    """The objects in these files and directories (``-``: standard input), in order; a List counts as its items.

    Raises `UserError` for what cannot be read or is no Kubernetes object, and when there is none at all.
    """
    names = list(names)
    found = [manifest for name in names for source, text in _texts(name) for manifest in _documents(source, text)]
    if not found:
        raise UserError(f"{', '.join(names)}: no object in it; a manifest begins with apiVersion, kind and metadata.name")
    return found


def _texts(name: str) -> Iterator[tuple[str, str]]:
    if name == STDIN:
        yield "<stdin>", sys.stdin.read()
        return
    path = Path(name)
    if path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in SUFFIXES)
        if not files:
            raise UserError(f"{name}: no file in this directory ends in {', '.join(SUFFIXES)}")
    else:
        files = [path]
    for file in files:
        try:
            yield str(file), file.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise UserError(f"{file}: no such file or directory") from None
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{file}: cannot be read: {error}") from None


def _documents(source: str, text: str) -> Iterator[Manifest]:
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            line = node.start_mark.line + 1 if node else 1
            yield from _objects(source, line, loader.construct_document(node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise UserError(f"{where}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UserError(f"{source}: not valid YAML: {error}") from None
    finally:
        loader.dispose()


def _objects(source: str, line: int, body: object) -> Iterator[Manifest]:
    if body is None:
        return
    where = f"{source}:{line}"
    if not isinstance(body, dict):
        raise UserError(f"{where}: not an object but a {type(body).__name__}; a manifest begins with apiVersion and kind")
    body = converted(source, body) or body
    for field in ("apiVersion", "kind"):
        if not isinstance(body.get(field), str) or not body[field]:
            raise UserError(f"{where}: {field}: Required value: every object names it, as in {_EXAMPLE[field]}")
    if str(body["kind"]).endswith("List") and isinstance(body.get("items"), list):
        for item in body["items"]:
            yield from _objects(source, line, item)
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise UserError(f"{where}: {body['kind']}: metadata.name: Required value: give the object a name")
    yield Manifest(source, line, body)


_EXAMPLE = {"apiVersion": "apiVersion: kubeflow.org/v1", "kind": "kind: PyTorchJob"}
