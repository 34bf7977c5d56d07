"""/openapi/v3, made from the built-in definitions and the CRDs that are served.

All functions are pure; the caller caches the documents until the set of resources changes.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

import msgspec

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin_schemas import REF_PREFIX, Json, crd_root, kubernetes_version, references
from localcluster.apiserver.resource import Resource

V3_PREFIX = "#/components/schemas/"
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


def collect(resources: Iterable[Resource]) -> dict[str, Json]:
    """The definitions of the resources' kinds and all they refer to, in the built-in reference form."""
    known = builtin_schemas.definitions()
    found: dict[str, Json] = {}
    wanted: list[str] = []
    for resource in resources:
        name = definition_name(resource)
        if resource.custom:
            found[name] = _custom(resource)
            wanted += references(found[name])
        else:
            wanted.append(name)
    while wanted:
        name = wanted.pop()
        if name in known and name not in found:
            found[name] = known[name]
            wanted += references(known[name])
    return dict(sorted(found.items()))


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


_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_PARAMETERS = [
    {"name": name, "in": "query", "description": text, "schema": {"type": kind}}
    for name, kind, text in (
        ("dryRun", "string", "All: go through every stage, store nothing."),
        ("fieldManager", "string", "The name under which applied fields are owned."),
        ("fieldValidation", "string", "What to do about unknown fields: Ignore, Warn or Strict."),
        ("force", "boolean", "Take over fields that another manager owns (apply patches only)."),
    )
]


def group_version_path(group: str, version: str) -> str:
    """``api/v1`` or ``apis/<group>/<version>``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def paths(resources: Iterable[Resource]) -> dict[str, Json]:
    """The ``paths`` of a document about these resources."""
    found: dict[str, Json] = {}
    for resource in resources:
        scope = "/namespaces/{namespace}" if resource.namespaced else ""
        base = f"/{group_version_path(resource.group, resource.version)}{scope}/{resource.plural}"
        answer = {"responses": {"200": {"description": "OK"}}, GVK: gvk_of(resource)}
        for verb, path in (("list", base), ("create", base), ("get", f"{base}/{{name}}"), ("patch", f"{base}/{{name}}")):
            if verb in resource.verbs:
                method = {"list": "get", "create": "post"}.get(verb, verb)
                found.setdefault(path, {})[method] = {**answer, "x-kubernetes-action": verb, **_patch(resource, verb)}
    return found


def _patch(resource: Resource, verb: str) -> Json:
    if verb != "patch":
        return {}
    types = _PATCH_TYPES if resource.custom else (*_PATCH_TYPES, _STRATEGIC)
    content = {media: {"schema": {"type": "object"}} for media in types}
    return {"parameters": _PARAMETERS, "requestBody": {"required": True, "content": content}}


__all__ = ["v3_document", "v3_index"]


def _info() -> Json:
    return {"title": "Kubernetes", "version": f"v{kubernetes_version()}"}


def _groups(resources: Iterable[Resource]) -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = {}
    for resource in resources:
        found.setdefault(group_version_path(resource.group, resource.version), []).append(resource)
    return dict(sorted(found.items()))


def content_hash(resources: Sequence[Resource]) -> str:
    """Changes when the documents of these resources change; cheap, as it does not make them."""
    rows = sorted(
        ((*resource.gvk, resource.plural, resource.namespaced, resource.verbs, resource.crd_version) for resource in resources),
        key=lambda row: row[:4],
    )
    text = json.dumps([kubernetes_version(), rows], sort_keys=True, default=dict)
    return hashlib.sha256(text.encode()).hexdigest()[:32].upper()


def v3_index(resources: Iterable[Resource]) -> Json:
    """The body of /openapi/v3: where each group-version's document is; the hash lets clients keep it."""
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={content_hash(members)}"}
            for path, members in _groups(resources).items()
        }
    }


def v3_document(resources: Iterable[Resource], path: str) -> bytes | None:
    """The JSON document of one group-version (``api/v1``, ``apis/apps/v1``); None when nothing is served there."""
    members = _groups(resources).get(path.strip("/"))
    if not members:
        return None
    document = {
        "openapi": "3.0.0",
        "info": _info(),
        "paths": paths(members),
        "components": {"schemas": v3_schemas(collect(members))},
    }
    return msgspec.json.encode(document)
