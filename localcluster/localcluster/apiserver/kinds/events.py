"""Events of core/v1."""

from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid
from localcluster.apiserver.resource import field_table
from localcluster.apiserver.selectors import FieldGetter, field

Obj = dict[str, Any]

_OBJECT_FIELDS = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")

FIELDS: Mapping[str, FieldGetter] = {
    **field_table(*(f"involvedObject.{name}" for name in _OBJECT_FIELDS), "reason", "type", "reportingComponent"),
    "source": field("source.component"),
}


def validate(obj: Obj) -> Sequence[Cause]:
    """An event lives in the namespace of the object it is about (default for cluster-scoped ones)."""
    about = obj.get("involvedObject", {}).get("namespace") or "default"
    if about != obj["metadata"].get("namespace"):
        return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    return []
