"""Steps by what they do; `code`, `reason` and the other keywords of `Expect` say what must come back."""

from typing import Any

from localcluster.conformance.case import Expect, Json, Kind, Ref, Space, Step
from localcluster.request import JSON_PATCH, MERGE_PATCH

UID, VERSION = "metadata.uid", "metadata.resourceVersion"
UNKNOWN_UID = "00000000-0000-4000-8000-000000000000"


def ref(kind: Kind, name: str, path: str, back: int = 0) -> Ref:
    """A field of an object of namespace ``a``."""
    return Ref(f"{kind.plural}/a/{name}" if kind.namespaced else f"{kind.plural}/{name}", path, back)


def create(kind: Kind, body: Any, code: int = 201, query: Json | None = None, **expect: Any) -> Step:
    """POST."""
    return Step("POST", kind, body=body, expect=Expect(code, **expect), query=query or {})


def get(kind: Kind, name: str, code: int = 200, query: Json | None = None, subresource: str = "", **expect: Any) -> Step:
    """GET of an object."""
    return Step("GET", kind, name, expect=Expect(code, **expect), query=query or {}, subresource=subresource)


def listed(kind: Kind, code: int = 200, query: Json | None = None, **expect: Any) -> Step:
    """GET of a collection."""
    return Step("GET", kind, expect=Expect(code, **expect), query=query or {})


def put(kind: Kind, name: str, body: Any, code: int = 200, subresource: str = "", **expect: Any) -> Step:
    """PUT."""
    return Step("PUT", kind, name, body, expect=Expect(code, **expect), subresource=subresource)


def patch(
    kind: Kind, name: str | Space, body: Any, code: int = 200, media: str = MERGE_PATCH, subresource: str = "", **expect: Any
) -> Step:
    """PATCH, a merge patch unless `media` says otherwise."""
    return Step("PATCH", kind, name, body, expect=Expect(code, **expect), media=media, subresource=subresource)


def json_patch(kind: Kind, name: str, operations: list[Json], code: int = 200, subresource: str = "", **expect: Any) -> Step:
    """A JSON patch."""
    return patch(kind, name, operations, code, JSON_PATCH, subresource, **expect)


def delete(
    kind: Kind, name: str, options: Json | None = None, code: int = 200, pause: float = 0, **expect: Any
) -> Step:  # fmt: skip
    """DELETE of an object."""
    body = None if options is None else {"apiVersion": "v1", "kind": "DeleteOptions", **options}
    return Step("DELETE", kind, name, body, expect=Expect(code, **expect), pause=pause)


def watch(kind: Kind, since: Any, *events: str, query: Json | None = None) -> Step:
    """WATCH from a resourceVersion; `events` are all there must be."""
    start = {} if since is None else {"resourceVersion": since}
    return Step("WATCH", kind, query={**start, **(query or {})}, expect=Expect(200, events=events))


def start(kind: Kind) -> Ref:
    """The version of the first list of `kind` in the case."""
    return Ref(f"list/{kind.plural}/start", VERSION)
