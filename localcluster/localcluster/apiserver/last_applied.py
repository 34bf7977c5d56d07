"""The last-applied configuration, which `kubectl apply` keeps in an annotation of the object.

`kubectl apply --server-side` continues from it: changes of those fields are no conflict, and the annotation is updated, so that
a user can go back to `kubectl apply`. The API server does this for the manager of that name alone.
"""

import json
from typing import Any

from localcluster.apiserver.builtin_schemas import Json
from localcluster.apiserver.field_set_schema import FieldSetSchema, compare, owned_by
from localcluster.apiserver.field_sets import Path, from_fields_v1
from localcluster.apiserver.managed_fields import ownable

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"
# As Go's encoder, so that the text is the same.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def unchanged_since(schema: FieldSetSchema, live: Json) -> frozenset[Path]:
    """The fields of `live` that are unchanged since `kubectl apply`; none if that is unknown."""
    try:
        last = json.loads(_annotations(live).get(ANNOTATION) or "null")
        if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
            return frozenset()
        changed = from_fields_v1(compare(schema, ownable(live), ownable(last)).written)
        return frozenset(owned_by(schema, ownable(last)) - changed)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return frozenset()


def noted(merged: Json, config: Json) -> Json:
    """`merged` with the annotation, if it has one, updated to what was applied now. The annotation gets no owner by that."""
    annotations = _annotations(merged)
    if not annotations.get(ANNOTATION):
        return merged
    metadata = dict(config["metadata"])
    if "annotations" in metadata:
        metadata["annotations"] = {key: value for key, value in _annotations(config).items() if key != ANNOTATION}
    text = _encoded({**config, "metadata": metadata})
    return {**merged, "metadata": {**merged["metadata"], "annotations": {**annotations, ANNOTATION: text}}}


def _annotations(obj: Json) -> dict[str, Any]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _encoded(value: Json) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "".join(_ESCAPES.get(letter, letter) for letter in text) + "\n"
