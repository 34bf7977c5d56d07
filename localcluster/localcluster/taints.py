"""Which taints of a node a pod tolerates. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

Fields = Mapping[str, Any]


def tolerates(toleration: Fields, taint: Fields) -> bool:
    """Whether the toleration matches the taint: an empty key or effect matches every one."""
    if (toleration.get("effect") or taint["effect"]) != taint["effect"]:
        return False
    if (toleration.get("key") or taint["key"]) != taint["key"]:
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def untolerated(pod: Fields, taints: Iterable[Fields], *effects: str) -> bool:
    """Whether the node has a taint with one of the effects that the pod does not tolerate."""
    tolerations = pod["spec"].get("tolerations") or ()
    return any(taint["effect"] in effects and not any(tolerates(one, taint) for one in tolerations) for taint in taints)


def patience(pod: Fields, taints: Iterable[Fields]) -> float | None:
    """How many seconds a running pod may stay with these NoExecute taints; None: without limit."""
    shortest: float | None = None
    for taint in taints:
        matching = [one for one in pod["spec"].get("tolerations") or () if tolerates(one, taint)]
        if not matching:
            return 0.0
        for seconds in (one["tolerationSeconds"] for one in matching if one.get("tolerationSeconds") is not None):
            shortest = max(0.0, float(seconds)) if shortest is None else max(0.0, min(shortest, float(seconds)))
    return shortest
