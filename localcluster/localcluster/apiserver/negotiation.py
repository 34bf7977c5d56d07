"""Which representation the client asked for: plain JSON, a printed Table, or metadata only."""

from collections.abc import Mapping
from typing import Literal

from localcluster.apiserver.errors import ApiError

MediaType = Literal["json", "table", "metadata"]

_AS = {"Table": "table", "PartialObjectMetadata": "metadata", "PartialObjectMetadataList": "metadata"}


def negotiate(accept: str) -> MediaType:
    """The first acceptable representation of an Accept header. Raises a 406 ApiError if there is none."""
    if not accept or accept == "application/json":
        return "json"
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media not in ("application/json", "*/*", "application/*"):
            continue
        options: Mapping[str, str] = dict(part.split("=", 1) for part in parameters if "=" in part)
        wanted = options.get("as")
        if wanted is None:
            return "json"
        if wanted in _AS and options.get("g") == "meta.k8s.io" and options.get("v") == "v1":
            return "table" if _AS[wanted] == "table" else "metadata"
    offered = "application/json"
    raise ApiError(406, "NotAcceptable", f"only the following media types are accepted: {offered}")
