"""From an HTTP request to its attributes: the verb, resource and names that authorisation and the handlers use."""

from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from localcluster.request import Request

#: Subresources of a namespace itself, which would otherwise read as a resource inside it.
_NAMESPACE_SUBRESOURCES = ("status", "finalize")
_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "DELETE": "deletecollection"}


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The attributes of a request. `resource` is empty for a path that is not about objects (discovery, health)."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is about objects."""
        return bool(self.resource)


def parse(request: Request) -> RequestInfo:
    """Understand a request's path; never raises, an unknown path becomes one without a resource."""
    watch = any(key == "watch" and (not value or truth(value)) for key, value in request.query)
    return _parse(request.method, request.path, watch)


@lru_cache(maxsize=4096)
def _parse(method: str, asked: str, watch: bool) -> RequestInfo:
    path = unquote(asked)
    parts = [unquote(part) for part in asked.strip("/").split("/")]
    other = RequestInfo(_VERBS.get(method, method.lower()), path)
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return other
    namespace = ""
    if len(rest) > 1 and rest[0] == "namespaces":
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    if not rest or len(rest) > 3:
        return other
    resource, name, subresource = [*rest, "", ""][:3]
    verb = _verb(method, name, watch)
    return RequestInfo(verb, path, group, version, namespace, resource, subresource, name)


def _verb(method: str, name: str, watch: bool) -> str:
    verb = (_VERBS if name else {**_VERBS, **_COLLECTION_VERBS}).get(method, method.lower())
    # A GET of one object never watches, whatever its query says.
    return "watch" if verb == "list" and watch else verb


def truth(text: str) -> bool:
    """Whether a parameter of a query is true."""
    return text.lower() in ("1", "t", "true")
