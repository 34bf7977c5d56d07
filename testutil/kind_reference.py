"""docs/kinds: the fields of each kind, as Markdown, from the schema of its CustomResourceDefinition."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jobcommon.api.version import version_priority
from jobcommon.crd import custom_resource_definition
from jobcommon.framework import Framework

WRITE = "GOLDEN=write pytest tests/test_kind_reference.py"
# The schema of a pod is that of Kubernetes, which documents it.
_POD_TEMPLATE = "template"
_OPAQUE = ("apiVersion", "kind", "metadata")


def pages(frameworks: Iterable[Framework]) -> dict[str, str]:
    """By file name, a page for each kind."""
    return {f"{framework.kind.lower()}.md": _page(framework) for framework in frameworks}


def _page(framework: Framework) -> str:
    origin = f"Written from the model by `{WRITE}`; `kubectl explain {framework.plural}.spec` says the same."
    head = [f"# {framework.kind}", "", f"`{framework.api_version}`, `kubectl get {framework.plural}`. {origin}"]
    versions = custom_resource_definition(framework)["spec"]["versions"]
    preferred = min(versions, key=lambda version: version_priority(version["name"]))
    others = [f"`{version['name']}`" for version in versions if version is not preferred]
    if others:
        head[-1] += f" The versions {', '.join(others)} have the same fields, with defaults of their own."
    head += ["", "| field | type | |", "| --- | --- | --- |"]
    fields = _fields("", preferred["schema"]["openAPIV3Schema"])
    head += [f"| `{path}` | {kind} | {_cell(text)} |" for path, kind, text in fields if path not in _OPAQUE]
    return "\n".join(head) + "\n"


def _fields(path: str, schema: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Each field below `schema`: its path, type, and description with default and choices."""
    for name, field in schema.get("properties", {}).items():
        where = f"{path}.{name}" if path else name
        yield where, _type(field), _text(field)
        if name != _POD_TEMPLATE and name != "metadata":
            yield from _below(where, field)


def _below(where: str, field: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    yield from _fields(where, field)
    if isinstance(items := field.get("items"), Mapping):
        yield from _fields(f"{where}[]", items)
    if isinstance(values := field.get("additionalProperties"), Mapping):
        yield from _fields(f"{where}.*", values)


def _type(field: Mapping[str, Any]) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    kind = str(field.get("type", "any"))
    if kind == "array" and isinstance(items := field.get("items"), Mapping):
        return f"list of {_type(items)}"
    return kind


def _text(field: Mapping[str, Any]) -> str:
    text = str(field.get("description", "")).strip()
    # A description that says it may tell of several versions, each with its own.
    if "default" in field and "Defaults to" not in text:
        text += f" Default: `{field['default']}`."
    if choices := [choice for choice in field.get("enum", ()) if choice]:
        text += f" One of {', '.join(f'`{choice}`' for choice in choices)}."
    return text.strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
