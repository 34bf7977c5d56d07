"""The operations of the OpenAPI documents: the part that kubectl reads.

kubectl looks up the kind of a resource (explain), whether PATCH takes `fieldValidation` and `dryRun` (else it validates
by itself, or refuses a server-side dry run), and whether PATCH takes a strategic merge patch (apply).
"""

from collections.abc import Iterable, Iterator

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.openapi.definitions import GVK, V3_PREFIX, definition_name, gvk_of
from localcluster.apiserver.resource import Resource

_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_WRITE_PARAMETERS = {
    "dryRun": "All: go through every stage, store nothing.",
    "fieldManager": "The name under which the written fields are owned.",
    "fieldValidation": "What to do about unknown fields: Ignore, Warn or Strict.",
}
_FORCE = {"force": "Take over fields that another manager owns (apply patches only)."}
_LIST_PARAMETERS = {
    "fieldSelector": "Only objects whose fields match.",
    "labelSelector": "Only objects whose labels match.",
    "limit": "At most this many objects.",
    "continue": "The token of the page before.",
    "resourceVersion": "The version to read from.",
    "watch": "Follow the changes.",
}
_TYPES = {"force": "boolean", "watch": "boolean", "limit": "integer"}
# (verb, method, on one object, action as documents name it)
_VERBS = (
    ("list", "get", False, "list"),
    ("create", "post", False, "post"),
    ("deletecollection", "delete", False, "deletecollection"),
    ("get", "get", True, "get"),
    ("update", "put", True, "put"),
    ("patch", "patch", True, "patch"),
    ("delete", "delete", True, "delete"),
)


def group_version_path(group: str, version: str) -> str:
    """``api/v1`` or ``apis/<group>/<version>``."""
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _url(resource: Resource) -> str:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{group_version_path(resource.group, resource.version)}{scope}/{resource.plural}"


def _urls(resource: Resource) -> Iterator[tuple[str, bool, tuple[str, ...], str]]:
    """(path, on one object, verbs, suffix of the operation id)."""
    base = _url(resource)
    yield base, False, resource.verbs, ""
    yield base + "/{name}", True, resource.verbs, ""
    if resource.status:
        yield base + "/{name}/status", True, ("get", "update", "patch"), "Status"


def _parameters(verb: str) -> dict[str, str]:
    if verb in ("create", "update"):
        return _WRITE_PARAMETERS
    if verb == "patch":
        return {**_WRITE_PARAMETERS, **_FORCE}
    return _LIST_PARAMETERS if verb == "list" else {"dryRun": _WRITE_PARAMETERS["dryRun"]} if verb.startswith("delete") else {}


def _patch_types(resource: Resource) -> tuple[str, ...]:
    return _PATCH_TYPES if resource.custom else (*_PATCH_TYPES, _STRATEGIC)


def _path_parameters(url: str) -> list[Json]:
    names = [name for name in ("namespace", "name") if "{" + name + "}" in url]
    return [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]


def _operation(resource: Resource, verb: str, action: str, suffix: str) -> Json:
    query: list[Json] = [
        {"name": name, "in": "query", "description": text, "schema": {"type": _TYPES.get(name, "string")}}
        for name, text in _parameters(verb).items()
    ]
    reference = {"$ref": V3_PREFIX + definition_name(resource) + ("List" if verb == "list" else "")}
    operation: Json = {
        "operationId": f"{action}_{resource.group}_{resource.version}_{resource.kind}{suffix}".replace(".", "_"),
        "parameters": query,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}},
        "x-kubernetes-action": action,
        GVK: gvk_of(resource),
    }
    if verb in ("create", "update", "patch"):
        types = _patch_types(resource) if verb == "patch" else ("application/json",)
        schema = {"type": "object"} if verb == "patch" else reference
        operation["requestBody"] = {"required": True, "content": {media: {"schema": schema} for media in types}}
    return operation


def paths(resources: Iterable[Resource]) -> dict[str, Json]:
    """The ``paths`` of a document about these resources."""
    found: dict[str, Json] = {}
    for resource in resources:
        for url, single, verbs, suffix in _urls(resource):
            operations = {
                method: _operation(resource, verb, action, suffix)
                for verb, method, one, action in _VERBS
                if one is single and verb in verbs
            }
            if operations:
                found[url] = {**operations, "parameters": _path_parameters(url)}
    return found
