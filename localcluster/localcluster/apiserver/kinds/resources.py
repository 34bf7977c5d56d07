"""Requests and limits of containers and pods."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from localcluster.apiserver.errors import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_found_cause,
    not_supported,
    required,
)
from localcluster.apiserver.kinds.rules import NEGATIVE
from localcluster.apiserver.names import check, dns1123_label, qualified_name
from localcluster.quantity import parse_quantity, plus

Obj = dict[str, Any]
HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Names without a prefix that exist, most of them for quotas only.
_STANDARD = (
    *_CONTAINER_RESOURCES, *(f"{part}.{name}" for part in ("requests", "limits") for name in _CONTAINER_RESOURCES),
    "requests.storage", "storage", "pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers",
    "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
)  # fmt: skip
_COUNTED = _STANDARD[_STANDARD.index("pods") :]
POD_RESOURCES = ("cpu", "memory")
_Amounts = Mapping[str, str]


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _extended(name: str) -> bool:
    return not _native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def _overcommits(name: str) -> bool:
    return _native(name) and not name.startswith(HUGE_PAGES)


def _standard_name(name: str, path: str) -> list[Cause]:
    causes = check(qualified_name, path, name)
    if not causes and "/" not in name and not (name in _STANDARD or name.startswith((HUGE_PAGES, f"requests.{HUGE_PAGES}"))):
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return causes


def _container_name(name: str, path: str) -> list[Cause]:
    causes = _standard_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _native(name) and not _extended(name):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def _pod_name(name: str, path: str) -> list[Cause]:
    causes = _standard_name(name, path)
    if not causes and name not in POD_RESOURCES and not name.startswith(HUGE_PAGES):
        causes.append(not_supported(path, name, ("cpu", HUGE_PAGES, "memory")))
    return causes


def amount_causes(name: str, text: str, path: str) -> Iterator[Cause]:
    """What is wrong with an amount of a resource."""
    value = parse_quantity(text)
    if value < 0:
        yield invalid(path, text, NEGATIVE)
    if (name in _COUNTED or _extended(name)) and value % 1:
        yield invalid(path, text, "must be an integer")
    if name.startswith(HUGE_PAGES) and not _whole_pages(name, value):
        yield invalid(path, text, f"{text} is not positive integer multiple of {name}")


def _whole_pages(name: str, value: Decimal) -> bool:
    try:
        page = parse_quantity(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return False
    return page > 0 and not page % 1 and not math.ceil(value) % page


def container_resources(resources: Obj, path: str, claims: Sequence[str]) -> Iterator[Cause]:
    """The rules of a container's resources; `claims` are the names of the pod's resource claims."""
    yield from _requirements(resources, path, _container_name)
    yield from _claims(resources.get("claims") or (), f"{path}.claims", claims)


def _requirements(resources: Obj, path: str, name_causes: Callable[[str, str], list[Cause]]) -> Iterator[Cause]:
    limits: _Amounts = resources.get("limits") or {}
    requests: _Amounts = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where = f"{path}.{part}[{name}]"
            yield from name_causes(name, where)
            yield from amount_causes(name, text, where)
    for name, text in requests.items():
        yield from _against_limit(name, text, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _against_limit(name: str, request: str, limit: str | None, path: str) -> Iterator[Cause]:
    if limit is None:
        if not _overcommits(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        return
    asked, allowed = parse_quantity(request), parse_quantity(limit)
    if asked != allowed and not _overcommits(name):
        yield invalid(f"{path}.requests", request, f"must be equal to {name} limit of {limit}")
    elif asked > allowed:
        yield invalid(f"{path}.requests", request, f"must be less than or equal to {name} limit of {limit}")


def _claims(given: Sequence[Obj], path: str, names: Sequence[str]) -> Iterator[Cause]:
    seen: set[str] = set()
    for index, claim in enumerate(given):
        where, name, request = f"{path}[{index}]", claim.get("name") or "", claim.get("request") or ""
        if not name:
            yield required(where)
            continue
        if request:
            yield from check(dns1123_label, f"{where}.request", request)
        key = f"{name}/{request}" if request else name
        if name in seen:
            yield duplicate(where, name)
        elif key in seen or (not request and any(one.startswith(f"{name}/") for one in seen)):
            yield duplicate(where, key)
        seen.add(key)
        if name not in names:
            told = f": {', '.join(sorted(names))}" if names else " which is empty"
            missing = not_found_cause(where, name)
            yield replace(missing, message=f"{missing.message}: must be one of the names in pod.spec.resourceClaims{told}")


def overhead(amounts: _Amounts, path: str) -> Iterator[Cause]:
    """The rules of a pod's overhead, which are those of limits."""
    return _requirements({"limits": amounts}, path, _container_name)


def pod_resources(spec: Obj, path: str) -> Iterator[Cause]:
    """The rules of the resources of a pod as a whole, and how those of its containers fit into them."""
    resources = spec["resources"]
    if "claims" in resources:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from _requirements(resources, path, _pod_name)
    for name, total in together(spec, "requests").items():
        given = (resources.get("requests") or {}).get(name)
        if given is not None and parse_quantity(total) > parse_quantity(given):
            told = f"must be greater than or equal to aggregate container requests of {total}"
            yield invalid(f"{path}.requests[{name}]", given, told)
    limits = resources.get("limits") or {}
    for name, total in together(spec, "limits").items():
        if name.startswith(HUGE_PAGES) and name in limits and parse_quantity(total) > parse_quantity(limits[name]):
            told = f"must be greater than or equal to aggregate container limits of {total}"
            yield invalid(f"{path}.limits[{name}]", limits[name], told)
    for index, container in enumerate(spec.get("containers") or ()):
        for name, limit in _amounts_of(container, "limits").items():
            if name in limits and parse_quantity(limit) > parse_quantity(limits[name]):
                where = f"{path}.containers[{index}][{name}].limits"
                yield invalid(where, limit, f"must be less than or equal to pod limits of {limits[name]}")


def together(spec: Obj, part: str) -> dict[str, str]:
    """What the containers of a pod have at once: the main ones with the sidecars, or an init container with those before it."""
    total: dict[str, str] = {}
    beside: dict[str, str] = {}
    initial: dict[str, str] = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts_of(container, part))
    for container in spec.get("initContainers") or ():
        amounts = _amounts_of(container, part)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(beside, amounts)
        else:
            now = dict(amounts)
            _add(now, {name: beside[name] for name in amounts if name in beside})
            _raise(initial, now)
    _raise(total, initial)
    return total


def _amounts_of(container: Obj, part: str) -> _Amounts:
    return (container.get("resources") or {}).get(part) or {}


def _add(to: dict[str, str], amounts: _Amounts) -> None:
    for name, text in amounts.items():
        to[name] = plus(to[name], text) if name in to else text


def _raise(to: dict[str, str], amounts: _Amounts) -> None:
    for name, text in amounts.items():
        if name not in to or parse_quantity(text) > parse_quantity(to[name]):
            to[name] = text
