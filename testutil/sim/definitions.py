"""The CustomResourceDefinitions of a run, when an administrator replaces them by older ones, or deletes them."""

from copy import deepcopy
from typing import Any

from jobcommon.framework import Framework
from jobcommon.testutil.sim import user
from localcluster import ApiServer

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "format": "int32"}
_CONDITION = ("lastTransitionTime", "lastUpdateTime", "message", "reason", "status", "type")
#: The status of a job in training-operator 1.9.
OLD_STATUS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "completionTime": _TEXT,
        "conditions": {"type": "array", "items": {"type": "object", "properties": dict.fromkeys(_CONDITION, _TEXT)}},
        "lastReconcileTime": _TEXT,
        "replicaStatuses": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {"active": _COUNT, "failed": _COUNT, "selector": _TEXT, "succeeded": _COUNT},
            },
        },
        "startTime": _TEXT,
    },
}

_old: dict[str, dict[str, Any]] = {}


def _path(framework: Framework) -> str:
    return f"{user.DEFINITIONS}/{framework.plural}.{framework.group}"


def old_definition(framework: Framework) -> dict[str, Any]:
    """The definition of a kind before the fields of the status that only our operators write."""
    if framework.kind not in _old:
        found = deepcopy(user.definition_of(framework))
        for version in found["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["properties"]["status"] = OLD_STATUS
        _old[framework.kind] = found
    return _old[framework.kind]


def downgrade(server: ApiServer, framework: Framework) -> None:
    """Put the older definition in the place of the present one."""
    _replace(server, framework, old_definition(framework))


def loosen(server: ApiServer, framework: Framework) -> None:
    """Put a definition without rules for the spec in the place of the present one, as an older release may have left it."""
    definition = deepcopy(user.definition_of(framework))
    for version in definition["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        schema.pop("x-kubernetes-validations", None)
    _replace(server, framework, definition)


def take_anything(server: ApiServer, framework: Framework) -> None:
    """Put a definition in the place of the present one that takes anything for a job's spec and status."""
    definition = deepcopy(user.definition_of(framework))
    anything = {"x-kubernetes-preserve-unknown-fields": True}
    for version in definition["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
        version["subresources"] = {"status": {}}
    _replace(server, framework, definition)


def restore(server: ApiServer, framework: Framework) -> None:
    """Put the present definition back, whether it was replaced or deleted."""
    user.install(server, framework)
    _replace(server, framework, user.definition_of(framework))


def _replace(server: ApiServer, framework: Framework, definition: dict[str, Any]) -> None:
    stored = user.ask(server, "GET", _path(framework))
    user.ask(server, "PUT", _path(framework), {**stored, "spec": definition["spec"]})


def remove(server: ApiServer, framework: Framework) -> None:
    """Delete the definition, and with it all jobs, unless it is gone already."""
    if (
        server.storage.table("customresourcedefinitions.apiextensions.k8s.io").get("", f"{framework.plural}.{framework.group}")
        is not None
    ):
        user.ask(server, "DELETE", _path(framework))
