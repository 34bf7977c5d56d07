"""The defaults of a pod's spec, alone or in a template."""

import math
import re
from collections.abc import Mapping
from typing import Any

from localcluster.apiserver.json_copy import json_copy
from localcluster.apiserver.kinds.pod_volumes import SOURCES
from localcluster.apiserver.kinds.walk import Action, Walk
from localcluster.quantity import canonical, parse_quantity

Obj = dict[str, Any]
_FILES = {"defaultMode": 420}
_CONTAINER = {"resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
#: Type -> what its objects have when it is not given.
_DEFAULTS: Mapping[str, Obj] = {
    "PodSpec": {
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "Container": _CONTAINER,
    "ContainerPort": {"protocol": "TCP"},
    "Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "GRPCAction": {"service": ""},
    "ObjectFieldSelector": {"apiVersion": "v1"},
    "ResourceFieldSelector": {"divisor": "0"},
    "SecretVolumeSource": _FILES,
    "ConfigMapVolumeSource": _FILES,
    "DownwardAPIVolumeSource": _FILES,
    "ProjectedVolumeSource": _FILES,
    "ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "HostPathVolumeSource": {"type": ""},
}  # fmt: skip
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[a-zA-Z0-9.-]+(?::\d+)?/)?{_COMPONENT}(?:/{_COMPONENT})*(?::(?P<tag>[\w][\w.-]{{0,127}}))?(?P<digest>@\S+)?"
)


def _filled(defaults: Obj) -> Action:
    def action(obj: Obj, _path: str, _context: Any) -> tuple[()]:
        for name, value in defaults.items():
            if name not in obj:
                obj[name] = value if type(value) is not dict else {}
        return ()

    return action


def _pull_policy(image: str) -> str:
    """Always for the newest image; a text that names no image is not the newest one."""
    found = _IMAGE.fullmatch(image)
    newest = found is not None and (found["tag"] == "latest" or not (found["tag"] or found["digest"]))
    return "Always" if newest else "IfNotPresent"


def _container(container: Obj, _path: str, _context: Any) -> tuple[()]:
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image") or ""))
    return ()


def _volume(volume: Obj, _path: str, _context: Any) -> tuple[()]:
    if not any(name in volume for name in SOURCES):
        volume["emptyDir"] = {}
    if "image" in volume:
        volume["image"].setdefault("pullPolicy", _pull_policy(volume["image"].get("reference") or ""))
    return ()


def _thousandths(resources: Obj, _path: str, _context: Any) -> tuple[()]:
    """An amount is a whole number of thousandths."""
    for part in ("limits", "requests"):
        for name, text in (resources.get(part) or {}).items():
            if parse_quantity(text) * 1000 % 1:
                resources[part][name] = canonical(f"{math.ceil(parse_quantity(text) * 1000)}m")
    return ()


_ACTIONS: dict[str, tuple[Action, ...]] = {kind: (_filled(defaults),) for kind, defaults in _DEFAULTS.items()}
_ACTIONS["Container"] = (*_ACTIONS["Container"], _container)
_ACTIONS["EphemeralContainer"] = _ACTIONS["Container"]
_ACTIONS["Volume"] = (_volume,)
_ACTIONS["ResourceRequirements"] = (_thousandths,)
_WALK = Walk(_ACTIONS)


def default_spec(spec: Obj) -> None:
    """The defaults that pods and pod templates share."""
    _WALK("PodSpec", spec, "")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def default_pod_spec(spec: Obj) -> None:
    """The defaults of a pod's spec. Its account and its priority are admission's."""
    _default_requests(spec)
    default_spec(spec)
    # A negative period means the shortest one.
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)
    for container in _containers(spec):
        for port in (container.get("ports") or ()) if spec.get("hostNetwork") else ():
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])


def _containers(spec: Obj) -> tuple[Obj, ...]:
    return *(spec.get("containers") or ()), *(spec.get("initContainers") or ())


def _default_requests(spec: Obj) -> None:
    """Requests are as high as limits."""
    for container in _containers(spec):
        resources = container.get("resources") or {}
        for name, limit in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def defaulted(spec: Obj) -> Obj:
    """A copy of a spec with the defaults of a pod."""
    copy: Obj = json_copy(spec)
    default_pod_spec(copy)
    return copy
