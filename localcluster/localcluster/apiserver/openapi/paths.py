"""The operations of the OpenAPI documents: the part that kubectl reads.

kubectl looks up the kind of a resource (explain), whether PATCH takes `fieldValidation` and `dryRun` (else it validates
by itself, or refuses a server-side dry run), and whether PATCH takes a strategic merge patch (apply).
"""

from collections.abc import Iterable

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.openapi.definitions import GVK, gvk_of
from localcluster.apiserver.resource import Resource

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
