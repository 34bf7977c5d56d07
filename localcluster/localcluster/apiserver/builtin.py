"""The built-in resources, in the order in which discovery lists them: `builtin.json`, and the rules of those that have any.

A row has the fields of a `Resource`; `fields` are those that a selector may name. Objects of a `workload` make pods by a
controller that does not run here, and those that are `stored` restrict others elsewhere: both are created with a warning.
"""

import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from localcluster.apiserver import crd
from localcluster.apiserver.kinds import plain, pods
from localcluster.apiserver.resource import Resource, Scale, Strategy, field_table
from localcluster.apiserver.selectors import field

Obj = dict[str, Any]


def _pending(claim: Obj) -> None:
    claim["status"] = {"phase": "Pending"}


def _with_spec(obj: Obj) -> None:
    obj.setdefault("spec", {})


#: By kind.
_STRATEGIES: Mapping[str, Strategy] = {
    "ConfigMap": plain.CONFIG_MAP, "Event": plain.EVENT, "Namespace": plain.NAMESPACE, "Secret": plain.SECRET,
    "Service": plain.SERVICE,
    "Node": Strategy(default=_with_spec),
    "PersistentVolumeClaim": Strategy(on_create=_pending),
    "Pod": Strategy(
        default=pods.default, on_create=pods.on_create, on_update=pods.on_update, validate=pods.validate,
        validate_new=pods.validate_new, validate_update=pods.validate_update,
    ),
    "CustomResourceDefinition": Strategy(
        default=crd.default_crd, on_create=crd.on_create, on_update=crd.on_update, validate=crd.validate_crd,
    ),
    "ClusterRoleBinding": plain.BINDING, "RoleBinding": plain.BINDING, "ClusterRole": plain.ROLE, "Role": plain.ROLE,
}  # fmt: skip


def _resource(row: Obj) -> Resource:
    kind, selectable = row["kind"], field_table(*row.pop("fields", ()))
    if kind == "Event":
        selectable["source"] = field("source.component")
    warning = ""
    if row.pop("workload", False):
        warning = f"no controller for objects of kind {kind} runs in the embedded cluster: they create no pods"
    elif row.pop("stored", False):
        warning = f"the embedded cluster stores objects of kind {kind} and does not enforce them"
    scale = Scale(*row.pop("scale")) if "scale" in row else None
    given: Obj = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Resource(
        **given, fields=selectable, scale=scale, creation_warning=warning, strategy=_STRATEGIES.get(kind, Strategy())
    )


#: The built-in resources by group, version and plural name.
BUILTIN: Mapping[tuple[str, str, str], Resource] = {
    (row["group"], row["version"], row["plural"]): _resource(row)
    for row in json.loads(resources.files("localcluster.apiserver").joinpath("builtin.json").read_text())
}
