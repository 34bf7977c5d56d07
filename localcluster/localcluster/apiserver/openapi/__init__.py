"""/openapi/v3, made from the built-in definitions and the CRDs that are served.

All functions are pure; the caller caches the documents until the set of resources changes.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence

import msgspec

from localcluster.apiserver.builtin_schemas import Json, kubernetes_version
from localcluster.apiserver.openapi.definitions import collect, v3_schemas
from localcluster.apiserver.openapi.paths import group_version_path, paths
from localcluster.apiserver.resource import Resource

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
