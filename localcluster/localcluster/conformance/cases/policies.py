"""What admission policies make of requests."""

from localcluster.conformance.case import Case, Expect, Json, Kind, Step
from localcluster.conformance.kinds import CONFIG_MAPS, config_map, obj

_PREFIX = "/apis/admissionregistration.k8s.io/v1"
_POLICIES = Kind(_PREFIX, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False)
_BINDINGS = Kind(_PREFIX, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False)


def _case(name: str, spec: Json, expect: Expect, *more: Step, actions: tuple[str, ...] = ("Deny",), **binding: Json) -> Case:
    """The policy is about config maps with the label ``policy: <name>`` only, because other cases share the server."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}
    match = {"resourceRules": [rule], "objectSelector": {"matchLabels": {"policy": name}}}
    bound = {"policyName": name, "validationActions": list(actions), **binding}
    made = config_map("m", {"k": "v"}, labels={"policy": name})
    return Case(f"policy: {name}", (
        *more,
        Step("POST", _POLICIES, body=obj(_POLICIES, name, {"spec": {"matchConstraints": match, **spec}})),
        Step("POST", _BINDINGS, body=obj(_BINDINGS, name, {"spec": bound})),
        # A real server follows policies with a watch.
        Step("POST", CONFIG_MAPS, body=made, query={"dryRun": "All"}, expect=expect, settle=True),
        Step("DELETE", _BINDINGS, name),
        Step("DELETE", _POLICIES, name),
    ), comparable=False)  # fmt: skip


_PARAMS = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "params.data.k == 'other'"}]}

CASES = (
    _case("denied", {"validations": [{"expression": "object.data.k != 'v'"}]},
          Expect(422, "Invalid", "with binding 'denied' denied request: failed expression: object.data.k != 'v'")),
    _case("reason", {"validations": [{"expression": "false", "message": "m", "reason": "Forbidden"}]},
          Expect(403, "Forbidden", "denied request: m")),
    _case("message", {"variables": [{"name": "k", "expression": "object.data.k"}],
                      "validations": [{"expression": "false", "messageExpression": "'k is ' + variables.k"}]},
          Expect(422, "Invalid", "denied request: k is v")),
    _case("error", {"validations": [{"expression": "object.data.absent == ''"}]}, Expect(422, "Invalid", "resulted in error")),
    _case("params", _PARAMS, Expect(422, "Invalid", "failed expression"),
          Step("POST", CONFIG_MAPS, body=config_map("param")),
          paramRef={"name": "param", "parameterNotFoundAction": "Deny"}),
    _case("no-params", _PARAMS, Expect(422, "Invalid", "no params found for policy binding with `Deny`"),
          paramRef={"name": "param", "parameterNotFoundAction": "Deny"}),
)  # fmt: skip
