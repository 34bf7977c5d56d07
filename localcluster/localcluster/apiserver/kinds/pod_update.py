"""What may change in a pod."""

from collections.abc import Iterator, Sequence
from typing import Any

from localcluster.apiserver.errors import Cause, forbidden, invalid

Obj = dict[str, Any]
_FORBIDDEN = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
#: What has rules of its own.
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    """Images, the deadline and a few more may change; binding (an empty nodeName) is the binding subresource's."""
    after, before = new["spec"], old["spec"]
    if after == before:
        return []
    for part in ("containers", "initContainers"):
        if len(after.get(part) or ()) != len(before.get(part) or ()):
            return [forbidden(f"spec.{part}", "pod updates may not add or remove containers")]
    causes: list[Cause] = []
    deadline, limit = after.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds")
    if limit is not None and deadline is None:
        causes.append(invalid("spec.activeDeadlineSeconds", None, "must not update from a positive integer to nil value"))
    elif limit is not None and deadline > limit:
        return [invalid("spec.activeDeadlineSeconds", deadline, "must be less than or equal to previous value")]
    causes += [*_gates(after, before), *_tolerations(after, before)]
    after, before = _comparable(after), _comparable(before)
    if old["spec"].get("schedulingGates"):
        # Where a pod may run may still change.
        for spec in (after, before):
            spec.pop("nodeSelector", None)
            spec["affinity"] = {key: one for key, one in (spec.get("affinity") or {}).items() if key != "nodeAffinity"}
    if after != before:
        causes.append(forbidden("spec", _FORBIDDEN))
    return causes


def _gates(after: Obj, before: Obj) -> Iterator[Cause]:
    known = [gate["name"] for gate in before.get("schedulingGates") or ()]
    for index, gate in enumerate(after.get("schedulingGates") or ()):
        if gate["name"] not in known:
            text = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            yield forbidden(f"spec.schedulingGates[{index}].name", text)


def _tolerations(after: Obj, before: Obj) -> Iterator[Cause]:
    kept = [_without_seconds(one) for one in after.get("tolerations") or ()]
    if not all(_without_seconds(one) in kept for one in before.get("tolerations") or ()):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _without_seconds(toleration: Obj) -> Obj:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _comparable(spec: Obj) -> Obj:
    kept = {key: value for key, value in spec.items() if key not in _MUTABLE}
    for part in ("containers", "initContainers"):
        if part in kept:
            kept[part] = [{**container, "image": ""} for container in kept[part]]
    return kept
