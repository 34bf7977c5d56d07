"""The schema definitions of what the server serves, as the OpenAPI documents have them."""

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin_schemas import REF_PREFIX, Json, crd_root
from localcluster.apiserver.resource import Resource

V3_PREFIX = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
LIST_META = {"$ref": f"{REF_PREFIX}{_META}ListMeta"}
GVK = "x-kubernetes-group-version-kind"
_API_VERSION = {
    "type": "string",
    "description": "The versioned schema of this object: group/version, or the version alone for the core group.",
}
_KIND = {"type": "string", "description": "The kind of this object, in CamelCase."}
_METADATA_TEXT = "Standard object metadata: name, namespace, labels, annotations, owners."
_SCALARS: dict[str, Json] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {
        "oneOf": [{"type": "integer"}, {"type": "string"}],
        "format": "int-or-string",
    },
}


def definition_name(resource: Resource) -> str:
    """The definition of the resource's kind, such as ``org.kubeflow.v1.PyTorchJob``."""
    built_in = builtin_schemas.definition_name(*resource.gvk)
    if built_in is not None:
        return built_in
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{resource.version}.{resource.kind}"


def gvk_of(resource: Resource) -> Json:
    """The resource's kind as documents name it."""
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _custom(resource: Resource) -> Json:
    schema = crd_root(dict(resource.crd_version or {}))
    meta = {**schema["properties"]["metadata"], "description": _METADATA_TEXT}
    first = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": meta}
    kept = {key: value for key, value in schema.items() if key != "x-kubernetes-embedded-resource"}
    return {**kept, "type": "object", "properties": {**schema["properties"], **first}, GVK: [gvk_of(resource)]}


def _custom_list(resource: Resource) -> Json:
    item = {"$ref": REF_PREFIX + definition_name(resource)}
    properties = {
        "apiVersion": _API_VERSION,
        "items": {"type": "array", "items": item},
        "kind": _KIND,
        "metadata": LIST_META,
    }
    list_kind = {**gvk_of(resource), "kind": resource.list_kind or f"{resource.kind}List"}
    return {"type": "object", "required": ["items"], "properties": properties, GVK: [list_kind]}


def collect(resources: Iterable[Resource]) -> dict[str, Json]:
    """The definitions of the resources' kinds and lists and all they refer to, in the built-in reference form."""
    known = builtin_schemas.definitions()
    found: dict[str, Json] = {}
    wanted = [f"{_META}{name}" for name in ("DeleteOptions", "Status", "Patch", "APIResourceList")]
    for resource in resources:
        name = definition_name(resource)
        if resource.custom:
            found[name], found[f"{name}List"] = _custom(resource), _custom_list(resource)
            wanted += sorted(_references(found[name]) | _references(found[f"{name}List"]))
        else:
            wanted += [name, f"{name}List"]
    while wanted:
        name = wanted.pop()
        if name in known and name not in found:
            found[name] = known[name]
            wanted += _references(known[name])
    return dict(sorted(found.items()))


def _references(node: Any) -> set[str]:
    if isinstance(node, list):
        return set().union(*map(_references, node))
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"].removeprefix(REF_PREFIX)} if isinstance(node.get("$ref"), str) else set()
    return own.union(*map(_references, node.values()))


def _for_v3(node: Json) -> Json:
    if not isinstance(node.get("$ref"), str):
        return node
    # OpenAPI 3.0 ignores what stands beside a reference, so published documents wrap it.
    reference = {"$ref": V3_PREFIX + node["$ref"].removeprefix(REF_PREFIX)}
    beside = {key: value for key, value in node.items() if key != "$ref"}
    return {**beside, "allOf": [reference]} if beside else reference


def v3_schemas(definitions: dict[str, Json]) -> dict[str, Json]:
    """The definitions as ``components.schemas``."""
    shown = {name: _SCALARS.get(name) or one for name, one in definitions.items()}
    found: dict[str, Json] = json.loads(msgspec.json.encode(shown), object_hook=_for_v3)
    return found
