"""From a CustomResourceDefinition to the resources it serves: one per served version, all stored in one table."""

from typing import Any

from localcluster.apiserver.resource import Resource, Scale
from localcluster.apiserver.schema import compile_schema
from localcluster.apiserver.selectors import field

Obj = dict[str, Any]


def resources_of(definition: Obj) -> list[Resource]:
    """The served versions of a stored (so: valid) definition."""
    spec = definition["spec"]
    return [_resource(spec, version) for version in spec["versions"] if version.get("served", True)]


def _resource(spec: Obj, version: Obj) -> Resource:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    selectable = [entry["jsonPath"].removeprefix(".") for entry in version.get("selectableFields") or ()]
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names["singular"],
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status="status" in subresources,
        scale=None if scale is None else _scale(scale),
        table=f"{names['plural']}.{spec['group']}",
        list_kind=names["listKind"],
        generation=True,
        unconditional_update=False,
        fields={path: field(path) for path in selectable},
        schema=compile_schema(version),
        crd_version=version,
    )


def _scale(scale: Obj) -> Scale:
    return Scale(
        scale["specReplicasPath"].removeprefix("."),
        scale["statusReplicasPath"].removeprefix("."),
        (scale.get("labelSelectorPath") or "").removeprefix("."),
    )
