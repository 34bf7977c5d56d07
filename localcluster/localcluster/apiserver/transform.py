"""Objects in the representation that the client asked for: a printed Table, or metadata only."""

from typing import Any

from localcluster.apiserver.negotiation import MediaType
from localcluster.apiserver.resource import Resource
from localcluster.apiserver.table import to_table

Obj = dict[str, Any]


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
