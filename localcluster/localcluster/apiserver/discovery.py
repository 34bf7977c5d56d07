"""Discovery: which groups, versions and resources there are."""

import re
from collections.abc import Iterable
from typing import Any

from localcluster.apiserver.resource import Resource

Obj = dict[str, Any]

#: The kinds that a subresource takes or gives where they are not the resource's own.
_SUBRESOURCE_KINDS = {
    "binding": ("", "v1", "Binding"),
    "eviction": ("policy", "v1", "Eviction"),
    "exec": ("", "v1", "PodExecOptions"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
}
_KUBE_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?")
_LEVELS = {None: 0, "beta": 1, "alpha": 2}
_STATUS_VERBS = ("get", "patch", "update")


def _subresources(resource: Resource) -> list[tuple[str, tuple[str, ...], tuple[str, str, str]]]:
    found = [(name, verbs, _SUBRESOURCE_KINDS.get(name, resource.gvk)) for name, verbs in resource.subresources.items()]
    if resource.scale:
        found.append(("scale", ("get", "patch"), ("autoscaling", "v1", "Scale")))
    if resource.status:
        found.append(("status", _STATUS_VERBS, resource.gvk))
    return sorted(found)


def resource_list(resources: Iterable[Resource], group: str, version: str) -> Obj | None:
    """An APIResourceList, or None when the group version has no resources."""
    rows: list[Obj] = []
    for resource in sorted(resources, key=lambda one: one.plural):
        if (resource.group, resource.version) != (group, version):
            continue
        rows.append(_row(resource))
        rows += [_subresource_row(resource, name, verbs, gvk) for name, verbs, gvk in _subresources(resource)]
    if not rows:
        return None
    api_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": rows}


def _row(resource: Resource) -> Obj:
    groupings = {"shortNames": list(resource.short_names), "categories": list(resource.categories)}
    return {
        "name": resource.plural, "singularName": resource.singular_name, "namespaced": resource.namespaced,
        "kind": resource.kind, "verbs": list(resource.verbs), **{key: names for key, names in groupings.items() if names},
    }  # fmt: skip


def _subresource_row(resource: Resource, name: str, verbs: tuple[str, ...], gvk: tuple[str, str, str]) -> Obj:
    row: Obj = {"name": f"{resource.plural}/{name}", "singularName": "", "namespaced": resource.namespaced}
    row |= {"kind": gvk[2], "verbs": list(verbs)}
    if gvk != resource.gvk:
        row |= {"group": gvk[0], "version": gvk[1]}
    return row


def groups_of(resources: Iterable[Resource]) -> dict[str, list[str]]:
    """The named groups with their versions, preferred first."""
    found: dict[str, set[str]] = {}
    for resource in resources:
        if resource.group:
            found.setdefault(resource.group, set()).add(resource.version)
    return {group: sorted(versions, key=version_priority) for group, versions in found.items()}


def group(name: str, versions: list[str]) -> Obj:
    """One APIGroup."""
    shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": shown, "preferredVersion": shown[0]}


def group_list(resources: Iterable[Resource]) -> Obj:
    """The APIGroupList of /apis."""
    groups = [group(name, versions) for name, versions in groups_of(resources).items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def core_versions(address: str) -> Obj:
    """The APIVersions of /api."""
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def version_priority(version: str) -> tuple[int, int, int, int, str]:
    """Sort key of version names: GA before beta before alpha, newer first, then other names in alphabetical order.

    Source: "Version priority" in the Kubernetes documentation of CustomResourceDefinition versions.
    """
    match = _KUBE_VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, level, minor = match.groups()
    return (0, _LEVELS[level], -int(major), -int(minor or 0), "")
