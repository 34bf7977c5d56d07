"""The representation that a client asks for: plain JSON, a printed Table, or metadata only."""

from collections.abc import Mapping
from typing import Any, Literal

from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.table import to_table

Obj = dict[str, Any]
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


def transform(
    media: MediaType, resource: Resource, objects: list[Obj], meta: Obj, *, now: float, single: bool, include: str
) -> Obj:
    """Objects as a Table, whose rows `include` Object, Metadata or None of them, or as metadata only.

    `meta` is the metadata of the answer, `now` (Unix seconds) what ages in a Table are counted to, `single` says that the
    request was for one object.
    """
    if media == "table":
        version = resource.crd_version or {}
        kept: Obj = {key: meta[key] for key in ("resourceVersion", "continue", "remainingItemCount") if key in meta}
        return to_table(
            resource.group, resource.kind, objects, now=now, custom=resource.custom, list_meta=kept,
            columns=version.get("additionalPrinterColumns"), include_object=include,
        )  # fmt: skip
    items = [{"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": obj["metadata"]} for obj in objects]
    if single:
        return items[0]
    return {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items}
