"""The defaults of a pod's spec."""

import re
from typing import Any

from localcluster.apiserver.json_copy import json_copy
from localcluster.apiserver.kinds.field_rules import POD_DEFAULTS
from localcluster.apiserver.schema.defaults import default

Obj = dict[str, Any]
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@\S+)?"
)


def _pull_policy(image: str) -> str:
    """Always for the newest image; a text that names no image is not the newest one."""
    found = _IMAGE.fullmatch(image)
    newest = found is not None and (found["tag"] == "latest" or not (found["tag"] or found["digest"]))
    return "Always" if newest else "IfNotPresent"


def default_pod_spec(spec: Obj) -> None:
    """The defaults of a pod's spec. Its account and its priority are admission's."""
    for container in _containers(spec):
        # Requests are as high as limits.
        resources = container.get("resources") or {}
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)
        container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
        for port in (container.get("ports") or ()) if spec.get("hostNetwork") else ():
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])
    for volume in spec.get("volumes") or ():
        if len(volume) < 2:
            volume["emptyDir"] = {}
        if "image" in volume:
            volume["image"].setdefault("pullPolicy", _pull_policy(volume["image"].get("reference") or ""))
    default(POD_DEFAULTS, spec)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    # A negative period means the shortest one.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)


def _containers(spec: Obj) -> tuple[Obj, ...]:
    return *(spec.get("containers") or ()), *(spec.get("initContainers") or ())


def defaulted(spec: Obj) -> Obj:
    """A copy of a spec with the defaults of a pod."""
    copy: Obj = json_copy(spec)
    default_pod_spec(copy)
    return copy
