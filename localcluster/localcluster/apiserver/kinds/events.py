"""Events of core/v1."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, invalid

Obj = dict[str, Any]


def validate(obj: Obj) -> Sequence[Cause]:
    """An event lives in the namespace of the object it is about (default for cluster-scoped ones)."""
    about = obj.get("involvedObject", {}).get("namespace") or "default"
    if about != obj["metadata"].get("namespace"):
        return [invalid("involvedObject.namespace", about, "does not match event.namespace")]
    return []
