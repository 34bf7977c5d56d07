"""Everything that is not an object: discovery, health, version, OpenAPI."""

from collections.abc import Callable
from typing import Any

import msgspec

from localcluster.apiserver import discovery, openapi
from localcluster.apiserver.authentication import ISSUER
from localcluster.apiserver.errors import path_not_found
from localcluster.apiserver.registry import Registry
from localcluster.request import Request, Response
from localcluster.version import GIT_VERSION

Obj = dict[str, Any]

_KEYS, _KEY_SET = "/openid/v1/jwks", "application/jwk-set+json"
_JSON = "application/json"
_HEALTH = ("/healthz", "/livez", "/readyz")
#: /openapi/v2, in protobuf: a document with a title and no content. kubectl asks it about kinds that /openapi/v3 does not have;
#: with a 404 it would complain of the document instead of naming the unknown kind.
_EMPTY_V2 = b"\x0a\x032.0\x12\x0f\x0a\x0aKubernetes\x12\x011\x42\x00"
_V2_FORM = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def version() -> Obj:
    """The body of /version."""
    return {
        "major": "1", "minor": "36", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "cpython", "platform": "linux/amd64",
    }  # fmt: skip


class Documents:
    """Serves the documents of one registry. The OpenAPI documents are cached until it changes."""

    def __init__(self, registry: Registry, public_keys: Callable[[], Obj]) -> None:
        self._registry = registry
        self._public_keys = public_keys
        self._cache: dict[str, bytes] = {}
        self._version = registry.version

    def answer(self, request: Request) -> Response:
        """The document at the request's path. Raises a 404 ApiError."""
        path = request.path.rstrip("/") or "/"
        if path.startswith(_HEALTH):
            return Response(200, b"ok", {"Content-Type": "text/plain; charset=utf-8"})
        if path == "/openapi/v2":
            return Response(200, _EMPTY_V2, {"Content-Type": _V2_FORM})
        if path.startswith("/openapi/"):
            return self._openapi(path)
        found = self._document(path)
        if found is None:
            raise path_not_found()
        media = _KEY_SET if path == _KEYS else _JSON
        return Response(200, msgspec.json.encode(found) + b"\n", {"Content-Type": media})

    def _document(self, path: str) -> Obj | None:
        parts = path.strip("/").split("/")
        resources = self._registry.all
        match parts:
            case [""]:
                groups = [f"/apis/{name}" for name in discovery.groups_of(resources())]
                return {"paths": ["/api", "/api/v1", "/apis", *groups, *_HEALTH, "/openapi/v3", "/version"]}
            case ["version"]:
                return version()
            case [".well-known", "openid-configuration"]:
                return {
                    "issuer": ISSUER, "jwks_uri": f"{ISSUER}/openid/v1/jwks", "response_types_supported": ["id_token"],
                    "subject_types_supported": ["public"], "id_token_signing_alg_values_supported": ["ES256"],
                }  # fmt: skip
            case ["openid", "v1", "jwks"]:
                return self._public_keys()
            case ["api"]:
                return discovery.core_versions("127.0.0.1")
            case ["apis"]:
                return discovery.group_list(resources())
            case ["api", name]:
                return discovery.resource_list(resources(), "", name)
            case ["apis", name]:
                versions = discovery.groups_of(resources()).get(name)
                return {"kind": "APIGroup", "apiVersion": "v1", **discovery.group(name, versions)} if versions else None
            case ["apis", name, served]:
                return discovery.resource_list(resources(), name, served)
        return None

    def _openapi(self, path: str) -> Response:
        if self._version != self._registry.version:
            self._version = self._registry.version
            self._cache.clear()
        body = self._cache.get(path)
        if body is None:
            found = list(self._registry.all())
            if path == "/openapi/v3":
                body = msgspec.json.encode(openapi.v3_index(found))
            else:
                body = openapi.v3_document(found, path.removeprefix("/openapi/v3/"))
            if body is None:
                raise path_not_found()
            self._cache[path] = body
        return Response(200, body, {"Content-Type": _JSON})
