"""The copy of its runtime that a TrainJob was started with: a later change of the runtime does not reach the job."""

import json
from collections.abc import Mapping
from typing import Any

from jobcommon import Companion, Job, ObjectKey, mapping_of

SUFFIX, KEY = "-runtime-snapshot", "runtime"
# What the API server keeps for itself.
_METADATA = ("name", "namespace", "labels", "annotations")
Json = Mapping[str, Any]


def snapshot_key(raw: Json) -> ObjectKey:
    """The ConfigMap that has the copy of a job."""
    metadata = mapping_of(raw.get("metadata"))
    name, namespace = (str(metadata.get(field) or "") for field in ("name", "namespace"))
    return ObjectKey("configmaps", namespace, f"{name}{SUFFIX}")


def snapshot(job: Job, runtime: Json) -> Companion:
    """The copy. JSON is YAML, as which Trainer reads it."""
    metadata = {name: runtime["metadata"][name] for name in _METADATA if name in runtime["metadata"]}
    kept = {name: runtime[name] for name in ("apiVersion", "kind", "spec") if name in runtime}
    text = json.dumps({**kept, "metadata": metadata}, indent=1, sort_keys=True, ensure_ascii=False)
    manifest = {"data": {KEY: text}, "immutable": True}
    return Companion("v1", "ConfigMap", "configmaps", f"{job.name}{SUFFIX}", manifest, owned_fields=())


def snapshot_of(found: Json | None, raw: Json) -> Json | None:
    """The runtime in the job's own copy; None without one that can be read."""
    if found is None:
        return None
    uid = raw["metadata"].get("uid")
    if not any(owner.get("uid") == uid for owner in found["metadata"].get("ownerReferences") or ()):
        return None
    try:
        runtime = json.loads((found.get("data") or {}).get(KEY, ""))
    except ValueError:
        return None
    return runtime if isinstance(runtime, Mapping) and isinstance(runtime.get("metadata"), Mapping) else None
