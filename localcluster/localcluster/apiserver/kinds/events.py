"""Events: stored in the core/v1 form, shown in both."""

from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid
from localcluster.apiserver.resource import Conversion, field_table
from localcluster.apiserver.selectors import FieldGetter, field

Obj = dict[str, Any]

_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

FIELDS: Mapping[str, FieldGetter] = {
    **field_table(*(f"involvedObject.{name}" for name in _OBJECT_FIELDS), "reason", "type", "reportingComponent"),
    "source": field("source.component"),
}
#: events.k8s.io selects on the stored form too.
NEW_FIELDS: Mapping[str, FieldGetter] = {
    **{f"regarding.{name}": field(f"involvedObject.{name}") for name in _OBJECT_FIELDS},
    **field_table("reason", "type"),
    "reportingController": field("reportingComponent"),
}

#: core/v1 name -> events.k8s.io/v1 name, where they differ.
_RENAMED = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
}
_RENAMED_BACK = {new: old for old, new in _RENAMED.items()}

CONVERSION = Conversion(
    outward=lambda obj: {_RENAMED.get(key, key): value for key, value in obj.items()},
    inward=lambda obj: {_RENAMED_BACK.get(key, key): value for key, value in obj.items()},
)


def validate(obj: Obj) -> Sequence[Cause]:
    """An event lives in the namespace of the object it is about (default for cluster-scoped ones)."""
    about = obj.get("involvedObject", {}).get("namespace") or "default"
    if about != obj["metadata"].get("namespace"):
        return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    return []
