"""Requests and limits of containers and pods."""

import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from localcluster.apiserver.errors import (
    Cause,
    forbidden,
    invalid,
    required,
)
from localcluster.apiserver.kinds.rules import NEGATIVE
from localcluster.apiserver.names import check, qualified_name
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]
_HUGE_PAGES = "hugepages-"
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
#: Names without a prefix that exist, most of them for quotas only.
_STANDARD = (
    *_CONTAINER_RESOURCES, *(f"{part}.{name}" for part in ("requests", "limits") for name in _CONTAINER_RESOURCES),
    "requests.storage", "storage", "pods", "resourcequotas", "services", "services.nodeports", "services.loadbalancers",
    "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
)  # fmt: skip
_COUNTED = _STANDARD[_STANDARD.index("pods") :]
_Amounts = Mapping[str, str]


def _native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _extended(name: str) -> bool:
    return not _native(name) and not name.startswith("requests.") and not qualified_name(f"requests.{name}")


def _overcommits(name: str) -> bool:
    return _native(name) and not name.startswith(_HUGE_PAGES)


def _standard_name(name: str, path: str) -> list[Cause]:
    causes = check(qualified_name, path, name)
    if not causes and "/" not in name and not (name in _STANDARD or name.startswith((_HUGE_PAGES, f"requests.{_HUGE_PAGES}"))):
        causes.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return causes


def _container_name(name: str, path: str) -> list[Cause]:
    causes = _standard_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not name.startswith(_HUGE_PAGES):
            causes.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _native(name) and not _extended(name):
        causes.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return causes


def _amount_causes(name: str, text: str, path: str) -> Iterator[Cause]:
    """What is wrong with an amount of a resource."""
    value = parse_quantity(text)
    if value < 0:
        yield invalid(path, text, NEGATIVE)
    if (name in _COUNTED or _extended(name)) and value % 1:
        yield invalid(path, text, "must be an integer")
    if name.startswith(_HUGE_PAGES) and not _whole_pages(name, value):
        yield invalid(path, text, f"{text} is not positive integer multiple of {name}")


def _whole_pages(name: str, value: Decimal) -> bool:
    try:
        page = parse_quantity(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return False
    return page > 0 and not page % 1 and not math.ceil(value) % page


def container_resources(resources: Obj, path: str) -> Iterator[Cause]:
    """The rules of a container's resources."""
    limits: _Amounts = resources.get("limits") or {}
    requests: _Amounts = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where = f"{path}.{part}[{name}]"
            yield from _container_name(name, where)
            yield from _amount_causes(name, text, where)
    for name, text in requests.items():
        yield from _against_limit(name, text, limits.get(name), path)
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & {"cpu", "memory"}:
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
