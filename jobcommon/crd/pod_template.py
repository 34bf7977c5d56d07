"""The schema of a pod template, with descriptions as long as there is room for."""

import gzip
import json
from functools import cache
from importlib import resources
from typing import Any

from jobcommon.api.model import POD_PART
from jobcommon.api.resources import PATTERN
from jobcommon.api.text import shortened

Json = dict[str, Any]

ARTEFACT = "pod_template.json.gz"
QUANTITY: Json = {"pattern": PATTERN, "x-kubernetes-int-or-string": True}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
# A bare `type: object` would make the API server drop the labels: it keeps only what the schema names.
_METADATA: Json = {
    "type": "object",
    "description": "Labels, annotations and finalizers of the pods.",
    "properties": {
        "annotations": _TEXTS,
        # `kubectl create --dry-run` prints it as null, and manifests made that way are common.
        "creationTimestamp": {"type": "string", "nullable": True},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "labels": _TEXTS,
        "name": {"type": "string"},
        "namespace": {"type": "string"},
    },
}


@cache
def _pod_spec() -> Json:
    packed = resources.files("jobcommon.crd").joinpath(ARTEFACT).read_bytes()
    found: Json = json.loads(gzip.decompress(packed))["spec"]
    return found


def limited(node: Json, limit: int) -> Json:
    """The schema with descriptions of at most `limit` characters; 0 leaves them out."""
    result: Json = {}
    for key, value in node.items():
        if key == "description":
            if text := shortened(value, limit):
                result[key] = text
        elif key == "properties":
            result[key] = {name: limited(child, limit) for name, child in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            result[key] = limited(value, limit)
        else:
            result[key] = value
    return result


@cache
def pod_template(limit: int) -> Json:
    """The structural schema of a PodTemplateSpec with descriptions of at most `limit` characters; 0 leaves them out."""
    spec = {**limited(_pod_spec(), limit), "description": "The pod: containers, volumes, scheduling."}
    return {"type": "object", "properties": {"metadata": _METADATA, "spec": spec}}


def with_parts(node: Json, limit: int) -> Json:
    """The schema in which each field that is a part of a pod template has the schema of that part."""
    if POD_PART in node:
        found = pod_template(limit)
        for name in filter(None, node[POD_PART].split(".")):
            found = found.get("items", found)["properties"][name]
        kept = ("description", "maxItems", "x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys")
        return {**found, **{key: node[key] for key in kept if key in node}}
    result = dict(node)
    if "properties" in node:
        result["properties"] = {name: with_parts(child, limit) for name, child in node["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            result[key] = with_parts(node[key], limit)
    return result
