"""Requests and limits of containers."""

from collections.abc import Iterator, Mapping
from typing import Any

from localcluster.apiserver.errors import Cause, invalid, required
from localcluster.apiserver.names import check, qualified_name
from localcluster.quantity import parse_quantity

Obj = dict[str, Any]
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"


def _overcommits(name: str) -> bool:
    """Whether less may be requested than the limit: of what Kubernetes knows itself, but for huge pages."""
    return ("/" not in name or "kubernetes.io/" in name) and not name.startswith(_HUGE_PAGES)


def container_resources(resources: Obj, path: str) -> Iterator[Cause]:
    """The rules of a container's resources."""
    limits: Mapping[str, str] = resources.get("limits") or {}
    requests: Mapping[str, str] = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            where, value = f"{path}.{part}[{name}]", parse_quantity(text)
            problems = check(qualified_name, where, name)
            if not problems and "/" not in name and name not in _STANDARD and not name.startswith(_HUGE_PAGES):
                problems = [invalid(where, name, "must be a standard resource for containers")]
            yield from problems
            if value < 0:
                yield invalid(where, text, "must be greater than or equal to 0")
            if "/" in name and not _overcommits(name) and value % 1:
                yield invalid(where, text, "must be an integer")
    for name, text in requests.items():
        yield from _against_limit(name, text, limits.get(name), path)


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
