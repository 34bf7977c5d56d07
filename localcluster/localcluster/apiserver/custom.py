"""From a CustomResourceDefinition to the resources it serves: one per served version, all stored in one table."""

from typing import Any

from localcluster.apiserver.resource import Resource, Scale, field_table
from localcluster.apiserver.schema import compile_schema
from localcluster.apiserver.version_priority import version_priority

Obj = dict[str, Any]


def resources_of(definition: Obj) -> list[Resource]:
    """The served versions of a stored (so: valid) definition, the preferred one first."""
    spec = definition["spec"]
    served = [entry for entry in spec["versions"] if entry["served"]]
    return [_resource(spec, entry) for entry in sorted(served, key=lambda entry: version_priority(entry["name"]))]


def _resource(spec: Obj, entry: Obj) -> Resource:
    names, group, subresources = spec["names"], spec["group"], entry.get("subresources") or {}
    selectable = [one["jsonPath"].removeprefix(".") for one in entry.get("selectableFields") or ()]
    warning = entry.get("deprecationWarning") or f"{group}/{entry['name']} {names['kind']} is deprecated"
    return Resource(
        group, entry["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced", names["singular"],
        tuple(names.get("shortNames") or ()), tuple(names.get("categories") or ()), status="status" in subresources,
        scale=_scale(subresources["scale"]) if subresources.get("scale") is not None else None,
        table=f"{names['plural']}.{group}", list_kind=names["listKind"], generation=True, unconditional_update=False,
        fields=field_table(*selectable), schema=compile_schema(entry), crd_version=entry,
        deprecation=warning if entry.get("deprecated") else "",
    )  # fmt: skip


def _scale(scale: Obj) -> Scale:
    return Scale(
        scale["specReplicasPath"].removeprefix("."),
        scale["statusReplicasPath"].removeprefix("."),
        (scale.get("labelSelectorPath") or "").removeprefix("."),
    )
