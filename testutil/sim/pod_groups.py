"""The CRDs of the gang schedulers' PodGroups, as small as they can be: any spec, and a status of its own."""

from typing import Any

from jobcommon.api import gang

Obj = dict[str, Any]


def _definition(api_version: str) -> Obj:
    group, _, version = api_version.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": gang.POD_GROUP, "plural": gang.POD_GROUPS, "singular": "podgroup", "listKind": "PodGroupList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{gang.POD_GROUPS}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }


VOLCANO_GROUPS = _definition(gang.VOLCANO_API)
COSCHEDULING_GROUPS = _definition(gang.COSCHEDULING_API)
