"""From a CustomResourceDefinition to the resources it serves: one per served version, all stored in one table."""

from typing import Any

from localcluster.apiserver.crd import ServedVersion, served_versions
from localcluster.apiserver.resource import Resource, Scale
from localcluster.apiserver.schema import compile_schema
from localcluster.apiserver.selectors import field

Obj = dict[str, Any]


def resources_of(definition: Obj) -> list[Resource]:
    """The served versions of a stored (so: valid) definition."""
    return [_resource(definition["spec"], version) for version in served_versions(definition)]


def _resource(spec: Obj, version: ServedVersion) -> Resource:
    names = spec["names"]
    selectable = [entry["jsonPath"].removeprefix(".") for entry in version.entry.get("selectableFields") or ()]
    return Resource(
        group=spec["group"],
        version=version.name,
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular=names["singular"],
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        status=version.status_subresource,
        scale=None if version.scale is None else _scale(version.scale),
        table=f"{names['plural']}.{spec['group']}",
        list_kind=names["listKind"],
        generation=True,
        unconditional_update=False,
        fields={path: field(path) for path in selectable},
        schema=compile_schema(version.entry),
        crd_version=version.entry,
        deprecation=version.deprecation_warning,
    )


def _scale(scale: Obj) -> Scale:
    return Scale(
        scale["specReplicasPath"].removeprefix("."),
        scale["statusReplicasPath"].removeprefix("."),
        (scale.get("labelSelectorPath") or "").removeprefix("."),
    )
