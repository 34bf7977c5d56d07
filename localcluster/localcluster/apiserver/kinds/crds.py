"""CustomResourceDefinitions as a kind: established as soon as stored, kept by a finalizer until their objects are deleted."""

from collections.abc import Sequence
from typing import Any

from localcluster.apiserver.crd import established_status, validate_crd
from localcluster.apiserver.errors import Cause
from localcluster.finalizers import CRD_CLEANUP

Obj = dict[str, Any]


def on_create(obj: Obj) -> None:
    """A definition is served from the moment it is stored; the finalizer keeps it until its objects are deleted."""
    meta = obj["metadata"]
    obj["status"] = established_status(obj, meta["creationTimestamp"])
    meta["finalizers"] = [*(meta.get("finalizers") or ()), CRD_CLEANUP]


def on_update(new: Obj, old: Obj) -> None:
    """Accepted names and stored versions follow the spec; further conditions stay."""
    before = {**(old.get("status") or {}), **(new.get("status") or {})}
    settled = established_status({**new, "status": before}, new["metadata"]["creationTimestamp"])
    known = {condition["type"] for condition in settled["conditions"]}
    others = [condition for condition in before.get("conditions") or () if condition.get("type") not in known]
    new["status"] = {**settled, "conditions": settled["conditions"] + others}


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """What only an update can break."""
    alone = validate_crd(new)
    return [cause for cause in validate_crd(new, old) if cause not in alone]
