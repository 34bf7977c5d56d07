"""The schemas of the built-in kinds, and walking a schema that is either built in or a CRD's.

A schema node is a plain OpenAPI dict. Built-in nodes point to each other by `$ref`; a CRD's schema has no references
except the ones put there by `crd_root` for the parts that every object shares.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

Json = dict[str, Any]

ARTEFACT = "builtin_schemas.json.gz"
REF_PREFIX = "#/definitions/"
OBJECT_META = {"$ref": REF_PREFIX + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
TYPE_META: Json = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
_NOTHING: Json = {}


@cache
def _document() -> Json:
    packed = resources.files("localcluster.apiserver").joinpath(ARTEFACT).read_bytes()
    document: Json = json.loads(gzip.decompress(packed))
    return document


def kubernetes_version() -> str:
    """The Kubernetes release the definitions are of, such as ``1.36.0``."""
    return str(_document()["version"])


def definitions() -> Mapping[str, Json]:
    """Every built-in definition by full name; read only."""
    found: dict[str, Json] = _document()["definitions"]
    return found


@cache
def _names() -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, definition in definitions().items()
        for gvk in definition.get("x-kubernetes-group-version-kind", ())
        if len(definition["x-kubernetes-group-version-kind"]) == 1 or gvk["group"] == ""
    }


def definition_name(group: str, version: str, kind: str) -> str | None:
    """The full definition name of a built-in kind, or None."""
    return _names().get((group, version, kind))


def root(group: str, version: str, kind: str) -> Json | None:
    """The schema node of a built-in kind, or None for a kind that is not built in."""
    name = definition_name(group, version, kind)
    return None if name is None else {"$ref": REF_PREFIX + name}


def resolve(node: Json) -> Json:
    """The node that holds the type: follows a `$ref`, keeping the x-kubernetes keys that stand next to it."""
    reference = node.get("$ref")
    if reference is None:
        return node
    target = definitions()[reference.removeprefix(REF_PREFIX)]
    beside = {key: value for key, value in node.items() if key.startswith("x-kubernetes-")}
    return {**target, **beside} if beside else target


def child(node: Json, key: str) -> Json:
    """The (resolved) schema of a field or map entry; an empty node when the schema does not say."""
    field = node.get("properties", _NOTHING).get(key)
    if field is None:
        rest = node.get("additionalProperties")
        field = rest if isinstance(rest, dict) else _NOTHING
    return resolve(field)


def items(node: Json) -> Json:
    """The (resolved) schema of a list's items; an empty node when the schema does not say."""
    return resolve(node.get("items", _NOTHING))


def references(node: Any) -> set[str]:
    """The names of the definitions that a node, and what is below it, refers to."""
    if isinstance(node, list):
        return set().union(*map(references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix(REF_PREFIX)} if isinstance(node.get("$ref"), str) else set()
    return own.union(*map(references, node.values()))


def _spliced(schema: Json) -> Json:
    result = dict(schema)
    if schema.get("x-kubernetes-embedded-resource"):
        result["properties"] = {**TYPE_META, **schema.get("properties", {}), "metadata": OBJECT_META}
    if "properties" in result:
        result["properties"] = {key: _spliced(value) for key, value in result["properties"].items()}
    if isinstance(result.get("additionalProperties"), dict):
        result["additionalProperties"] = _spliced(result["additionalProperties"])
    if isinstance(result.get("items"), dict):
        result["items"] = _spliced(result["items"])
    return result


def crd_root(version_entry: Json) -> Json:
    """The schema node of one CRD version (an entry of ``spec.versions``), with the metadata every object has."""
    schema = version_entry.get("schema", _NOTHING).get("openAPIV3Schema", {"x-kubernetes-preserve-unknown-fields": True})
    return _spliced({**schema, "x-kubernetes-embedded-resource": True})
