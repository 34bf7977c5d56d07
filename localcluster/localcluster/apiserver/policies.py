"""ValidatingAdmissionPolicies: CEL rules about requests, in effect through their bindings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from localcluster.apiserver import cel, conditions
from localcluster.apiserver.call import Call
from localcluster.apiserver.errors import ApiError, forbidden_error
from localcluster.apiserver.matching import registered, request_of, version_for
from localcluster.apiserver.selectors import from_object

Obj = dict[str, Any]

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class _NoParamsError(Exception):
    """A binding whose parameters are missing denies the request."""


@dataclass(frozen=True, slots=True)
class _Denial:
    message: str
    reason: str = "Invalid"


def check(call: Call, operation: str, new: Obj | None, old: Obj | None) -> None:
    """Raise the ApiError of the first policy that denies the request; failures that only warn become warnings."""
    policies = registered(call, "validatingadmissionpolicies")
    bindings = registered(call, "validatingadmissionpolicybindings") if policies else []
    for policy in policies:
        match = policy.obj["spec"].get("matchConstraints") or {}
        shown = version_for(call, operation, match, match.get("resourceRules") or (), (new, old))
        bound = [one for one in bindings if one.obj["spec"].get("policyName") == policy.name] if shown else []
        for binding in bound:
            spec = binding.obj["spec"]
            match = spec.get("matchResources") or {}
            if shown is None or version_for(call, operation, match, match.get("resourceRules"), (new, old)) is None:
                continue
            request = request_of(call, operation, shown, new, old)
            told = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
            for denial in _denials(call, policy.obj["spec"], spec, request):
                if "Warn" in spec["validationActions"]:
                    call.warnings.append(f"Validation failed for {told}: {denial.message}")
                if "Deny" in spec["validationActions"]:
                    raise _denied(call, request.get("name", ""), f"{told} denied request: {denial.message}", denial.reason)


def _denied(call: Call, name: str, message: str, reason: str) -> ApiError:
    error = forbidden_error(call.resource.plural, call.resource.group, name, message, [{"message": message}])
    return ApiError(_CODES.get(reason, 422), reason, error.message, error.details)


def _denials(call: Call, policy: Obj, binding: Obj, request: Obj) -> Iterator[_Denial]:
    try:
        found = list(_params(call, policy, binding))
    except _NoParamsError as error:
        yield from _failed(policy, str(error))
        return
    for params in found:
        given = conditions.variables(call, request, params)
        met = conditions.met(policy.get("matchConditions") or (), given)
        if isinstance(met, str):
            yield from _failed(policy, met)
        elif met:
            _set_variables(policy, given)
            for validation in policy.get("validations") or ():
                yield from _denial(policy, validation, given)


def _failed(policy: Obj, message: str) -> Iterator[_Denial]:
    if policy["failurePolicy"] == "Fail":
        yield _Denial(message)


def _set_variables(policy: Obj, given: dict[str, Any]) -> None:
    """Each variable may refer to those before it. One that cannot be computed is missing where it is used."""
    for variable in policy.get("variables") or ():
        found = conditions.value(variable["expression"], given, "ANY")
        if not isinstance(found, cel.Failure):
            given["variables"] = {**given["variables"], variable["name"]: found}


def _denial(policy: Obj, validation: Obj, given: Mapping[str, Any]) -> Iterator[_Denial]:
    expression = validation["expression"].strip()
    found = conditions.value(validation["expression"], given)
    if isinstance(found, cel.Failure):
        yield from _failed(policy, f"expression '{expression}' resulted in error: {found.message}")
    elif found is False:
        message = (validation.get("message") or "").strip() or f"failed expression: {expression}"
        if validation.get("messageExpression"):
            computed = conditions.value(validation["messageExpression"], given, "STRING")
            message = computed.strip() if isinstance(computed, str) and computed.strip() else message
        yield _Denial(message, validation.get("reason") or "Invalid")


def _params(call: Call, policy: Obj, binding: Obj) -> Iterator[Obj | None]:
    """The objects with the parameters; None for a policy without. Raises _NoParamsError."""
    kind, reference = policy.get("paramKind"), binding.get("paramRef")
    if not kind or not reference:
        yield None
        return
    resource = next(call.registry.where(lambda one: (one.api_version, one.kind) == (kind["apiVersion"], kind["kind"])), None)
    if resource is None:
        raise _NoParamsError(f"failed to find resource referenced by paramKind: '{kind['apiVersion']}, Kind={kind['kind']}'")
    namespace = (reference.get("namespace") or call.namespace) if resource.namespaced else ""
    table = call.storage.table(resource.storage_key)
    selector = from_object(reference.get("selector"))
    if selector is None:
        named = table.get(namespace, reference["name"])
        found = [] if named is None else [named]
    else:
        found = [item for item in table.sorted(namespace) if selector.matches(item.obj["metadata"].get("labels") or {})]
    if not found and reference.get("parameterNotFoundAction") == "Deny":
        raise _NoParamsError("no params found for policy binding with `Deny` parameterNotFoundAction")
    for item in found:
        yield resource.typed(item.obj)
