"""Reading manifests: YAML or JSON from files, directories and standard input, several documents each.

Every error names the file and the place in it.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from jobcommon.cli.errors import UserError
from jobcommon.cli.input import STDIN, read_documents, read_text
from jobcommon.cli.yaml_document import line_of

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: For the letters that an API server appends to a generateName.
PLACEHOLDER = "xxxxx"
SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object and where it was written: a file's name, the line on which it begins, and its `node` in the file.

    `owned`: it was made for the job beside it, and is deleted with it.
    """

    source: str
    line: int
    body: Mapping[str, Any]
    owned: bool = False
    node: yaml.Node | None = field(default=None, compare=False, repr=False)

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
        return self.place_of("")

    def place_of(self, path: str) -> str:
        """The same for one of its fields."""
        line = line_of(self.node, path) if self.node is not None else self.line
        return f"{self.source}:{line}: {self.kind} {self.name}"


def load(names: Iterable[str], *, fresh: bool = False) -> list[Manifest]:
    """The objects in these files and directories (``-``: standard input), in order; a List counts as its items.

    Where they have a generateName, their names are `fresh` ones, or always the same, for what is only printed.

    Raises `UserError` for files that cannot be read, exceed the limits of `yaml_document` or contain no Kubernetes object.
    """
    names = list(names)
    if "" in names:
        raise UserError("--filename: the name is empty; give a file, a directory, or - for standard input")
    found = [m for name in names for file in _files(name) for m in _manifests(*read_text(file), fresh)]
    if not found:
        where = ", ".join("<stdin>" if name == STDIN else name for name in names)
        raise UserError(f"{where}: no object in it; a manifest begins with apiVersion, kind and metadata.name")
    return found


def _files(name: str) -> list[str]:
    path = Path(name)
    if name == STDIN or not path.is_dir():
        return [name]
    files = sorted(str(p) for p in path.iterdir() if p.suffix in SUFFIXES)
    if not files:
        raise UserError(f"{name}: no file in this directory ends in {', '.join(SUFFIXES)}")
    return files


def _manifests(source: str, text: str, fresh: bool) -> Iterator[Manifest]:
    for node, body in read_documents(source, text):
        yield from _objects(source, line_of(node), body, fresh, node)


def _objects(source: str, line: int, body: object, fresh: bool, node: yaml.Node | None = None) -> Iterator[Manifest]:
    if body is None:
        return
    from jobcommon.cli.convert_command import converted

    where = f"{source}:{line}"
    if not isinstance(body, dict):
        raise UserError(f"{where}: not an object but a {type(body).__name__}; a manifest begins with apiVersion and kind")
    found = converted(source, named := _named(body, fresh))
    # What is converted has other fields, and so have the items of a List.
    body, node = (found, None) if found else (named, node)
    for name in ("apiVersion", "kind"):
        if not isinstance(body.get(name), str) or not body[name]:
            raise UserError(f"{where}: {name}: Required value: every object names it, as in {_EXAMPLE[name]}")
    if str(body["kind"]).endswith("List") and isinstance(body.get("items"), list):
        for item in body["items"]:
            yield from _objects(source, line, item, fresh)
        return
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        raise UserError(f"{where}: {body['kind']}: metadata.name: Required value: give the object a name")
    yield Manifest(source, line, body, node=node)


def _named(body: dict[str, Any], fresh: bool) -> Mapping[str, Any]:
    """The object with a name made of its generateName, as an API server does it: the names of a job's pods follow from it."""
    metadata = body.get("metadata")
    base = metadata.get("generateName") if isinstance(metadata, dict) and not metadata.get("name") else None
    if metadata is None or not isinstance(base, str) or not base:
        return body
    suffix = "".join(secrets.choice(_LETTERS) for _ in range(5)) if fresh else PLACEHOLDER
    return {**body, "metadata": {**metadata, "name": base[:58] + suffix}}


_EXAMPLE = {"apiVersion": "apiVersion: kubeflow.org/v1", "kind": "kind: PyTorchJob"}
