"""CEL expressions about a request: the match conditions of webhooks and policies."""

from collections.abc import Mapping, Sequence
from typing import Any

from localcluster.apiserver import cel
from localcluster.apiserver.call import Call
from localcluster.apiserver.matching import namespace_of

Obj = dict[str, Any]


def variables(call: Call, request: Obj, params: Obj | None = None) -> dict[str, Any]:
    """What an expression may refer to."""
    attributes = {key: value for key, value in request.items() if key not in ("object", "oldObject")}
    return {
        "object": request["object"], "oldObject": request["oldObject"], "request": attributes, "params": params,
        "namespaceObject": namespace_of(call) if call.resource.namespaced else None, "variables": {},
    }  # fmt: skip


def value(expression: str, given: Mapping[str, Any], kind: str = "BOOL") -> Any:
    """The value of an expression, or a `cel.Failure`; None where the engine lacks what it uses."""
    program = cel.compile_expression(expression, kind=kind, variables=cel.ADMISSION)
    return None if program is None else program.run(given)


def met(conditions: Sequence[Obj], given: Mapping[str, Any]) -> bool | str:
    """Whether all conditions hold; the error of the first that has failed, if none is false."""
    problem = ""
    for condition in conditions:
        found = value(condition["expression"], given)
        if found is False:
            return False
        if isinstance(found, cel.Failure):
            problem = problem or f"match condition {condition['name']!r} resulted in error: {found.message}"
    return problem or True
