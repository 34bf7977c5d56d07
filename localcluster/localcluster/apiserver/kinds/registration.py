"""Registrations for admission: webhooks, and policies with their bindings."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from localcluster.apiserver import cel
from localcluster.apiserver.errors import Cause, duplicate, invalid, required
from localcluster.apiserver.kinds.scheduling import selector_check
from localcluster.apiserver.kinds.tables import (
    between,
    defaults,
    each_at,
    each_of,
    filled,
    given,
    needed,
    needed_name,
    one_of,
    rules,
    under,
)
from localcluster.apiserver.names import check, dns1123_subdomain, qualified_name
from localcluster.apiserver.resource import Strategy

Obj = dict[str, Any]

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_RULE_PARTS = ("operations", "apiGroups", "apiVersions", "resources")
_FAILURE = one_of("Fail", "Ignore")
_MATCH = one_of("Equivalent", "Exact")


def _rule(path: str, rule: Obj, _parent: Obj) -> Sequence[Cause]:
    causes = [required(f"{path}.{part}") for part in _RULE_PARTS if not rule.get(part)]
    causes += [
        invalid(f"{path}.{part}", rule[part], "if '*' is present, must not specify others")
        for part in ("operations", "apiGroups", "apiVersions")
        if "*" in rule.get(part, ()) and len(rule[part]) > 1
    ]
    unknown = [index for index, name in enumerate(rule.get("operations") or ()) if name not in _OPERATIONS]
    for index in unknown:
        causes += each_of(*_OPERATIONS)(f"{path}.operations[{index}]", [rule["operations"][index]], rule)
    return causes + list(one_of("*", "Cluster", "Namespaced")(f"{path}.scope", rule.get("scope"), rule))


def _conditions(path: str, listed: Sequence[Obj], _parent: Obj) -> Sequence[Cause]:
    causes: list[Cause] = []
    for index, condition in enumerate(listed or ()):
        where, name = f"{path}[{index}]", condition.get("name") or ""
        causes += check(qualified_name, f"{where}.name", name) if name else [required(f"{where}.name")]
        causes += _expression(f"{where}.expression", condition.get("expression"), "BOOL")
        if name in [one.get("name") for one in listed[:index]]:
            causes.append(duplicate(f"{where}.name", name))
    return causes


def _expression(path: str, text: str | None, kind: str) -> Sequence[Cause]:
    if not (text or "").strip():
        return [required(path, "expression is not specified")]
    try:
        cel.compile_expression(text or "", kind=kind, variables=cel.ADMISSION)
    except cel.CelError as error:
        return [invalid(path, text, str(error))]
    return []


# Webhooks


def _client(path: str, config: Obj) -> Sequence[Cause]:
    url, service = config.get("url"), config.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if service is not None:
        causes = [required(f"{path}.service.{name}") for name in ("name", "namespace") if not service.get(name)]
        return causes + list(between(1, 65535)(f"{path}.service.port", service.get("port"), service))
    parts = urlsplit(str(url))
    form = "; desired format: https://host[/path]"
    wrong = [("scheme", parts.scheme, "'https' is the only allowed URL scheme" + form)] if parts.scheme != "https" else []
    wrong += [] if parts.hostname else [("host", parts.netloc, "host must be specified" + form)]
    wrong += [("query", parts.query, "query parameters are not permitted in the URL")] if parts.query else []
    wrong += [("fragment", parts.fragment, "fragments are not permitted in the URL")] if parts.fragment else []
    wrong += [("user", parts.username, "user information is not permitted in the URL")] if parts.username else []
    return [invalid(f"{path}.url", value, detail) for _, value, detail in wrong]


def _versions(path: str, versions: Sequence[str] | None, _parent: Obj) -> Sequence[Cause]:
    if not versions:
        return [required(path, "must specify one of v1, v1beta1")]
    known = {"v1", "v1beta1"}.intersection(versions)
    return [] if known else [invalid(path, versions, "must include at least one of v1, v1beta1")]


def _full_name(path: str, name: Any, _parent: Obj) -> Sequence[Cause]:
    if not name:
        return [required(path)]
    causes = check(dns1123_subdomain, path, name)
    if not causes and name.count(".") < 2:
        causes.append(invalid(path, name, "should be a domain with at least three segments separated by dots"))
    return causes


def _unique_names(obj: Obj) -> Sequence[Cause]:
    names = [hook.get("name") for hook in obj.get("webhooks") or ()]
    return [duplicate(f"webhooks[{index}].name", name) for index, name in enumerate(names) if name in names[:index]]


_MATCHES: Obj = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}


def _webhooks(**more: str) -> Strategy:
    return Strategy(
        default=defaults(
            *under("webhooks[]", failurePolicy="Fail", timeoutSeconds=10, clientConfig={}, **_MATCHES, **more),
            ("webhooks[].rules[].scope", "*"),
            ("webhooks[].clientConfig.service.port", 443),
        ),
        validate=rules(
            ("webhooks[].name", _full_name),
            ("webhooks[].rules[]", _rule),
            ("webhooks[].failurePolicy", _FAILURE),
            ("webhooks[].matchPolicy", _MATCH),
            ("webhooks[].reinvocationPolicy", one_of("IfNeeded", "Never")),
            ("webhooks[].sideEffects", needed("must specify one of None, NoneOnDryRun")),
            ("webhooks[].sideEffects", one_of("None", "NoneOnDryRun")),
            ("webhooks[].timeoutSeconds", between(1, 30)),
            *each_at(selector_check, "webhooks[].namespaceSelector", "webhooks[].objectSelector"),
            ("webhooks[].clientConfig", given(_client)),
            ("webhooks[].admissionReviewVersions", _versions),
            ("webhooks[].matchConditions", _conditions),
            _unique_names,
        ),
    )


VALIDATING_WEBHOOKS = _webhooks()
MUTATING_WEBHOOKS = _webhooks(reinvocationPolicy="Never")

# Policies


def _match_defaults(path: str) -> list[tuple[str, Any]]:
    return under(path, **_MATCHES, **{"resourceRules[].scope": "*", "excludeResourceRules[].scope": "*"})


def _match_rules(path: str) -> list[tuple[str, Any]]:
    return [
        (f"{path}.matchPolicy", _MATCH),
        *each_at(selector_check, f"{path}.namespaceSelector", f"{path}.objectSelector"),
        *each_at(_rule, f"{path}.resourceRules[]", f"{path}.excludeResourceRules[]"),
    ]


def _validations(obj: Obj) -> Sequence[Cause]:
    spec = obj["spec"]
    causes: list[Cause] = []
    if not spec.get("validations") and not spec.get("auditAnnotations"):
        detail = "validations or auditAnnotations must contain at least one item"
        causes += [required(f"spec.{name}", detail) for name in ("validations", "auditAnnotations")]
    for index, variable in enumerate(spec.get("variables") or ()):
        causes += _expression(f"spec.variables[{index}].expression", variable.get("expression"), "ANY")
    for index, validation in enumerate(spec.get("validations") or ()):
        where = f"spec.validations[{index}]"
        causes += _expression(f"{where}.expression", validation.get("expression"), "BOOL")
        if validation.get("messageExpression"):
            causes += _expression(f"{where}.messageExpression", validation["messageExpression"], "STRING")
        if "\n" in (validation.get("message") or "").strip():
            causes.append(invalid(f"{where}.message", validation["message"], "must not contain line breaks"))
    return causes


_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized")
POLICY = Strategy(
    default=defaults(*filled("spec", failurePolicy="Fail"), *_match_defaults("spec.matchConstraints")),
    on_create=defaults(("status", {})),
    validate=rules(
        ("spec.failurePolicy", _FAILURE),
        *each_at(needed(), "spec.matchConstraints", "spec.matchConstraints.resourceRules"),
        *_match_rules("spec.matchConstraints"),
        *each_at(needed(), "spec.paramKind.apiVersion", "spec.paramKind.kind"),
        ("spec.matchConditions", _conditions),
        ("spec.variables[].name", needed("name is not specified")),
        ("spec.validations[].reason", one_of(*_REASONS)),
        _validations,
    ),
)


def _actions(path: str, actions: Sequence[str] | None, _parent: Obj) -> Sequence[Cause]:
    if not actions:
        return [required(path, "at least one validation action is required")]
    causes: list[Cause] = []
    if {"Deny", "Warn"} <= set(actions):
        causes.append(invalid(path, actions, "must not contain both Deny and Warn"))
    for index, action in enumerate(actions):
        causes += one_of("Audit", "Deny", "Warn")(f"{path}[{index}]", action, {})
    return causes


def _param_ref(path: str, ref: Obj) -> Sequence[Cause]:
    causes: list[Cause] = []
    if bool(ref.get("name")) == ("selector" in ref):
        causes.append(required(path, "one of name or selector must be specified"))
    if not ref.get("parameterNotFoundAction"):
        causes.append(required(f"{path}.parameterNotFoundAction"))
    return causes + list(one_of("Allow", "Deny")(f"{path}.parameterNotFoundAction", ref.get("parameterNotFoundAction"), ref))


BINDING = Strategy(
    default=defaults(("spec", {}), *_match_defaults("spec.matchResources")),
    validate=rules(
        ("spec.policyName", needed_name(dns1123_subdomain)),
        ("spec.paramRef", given(_param_ref)),
        *_match_rules("spec.matchResources"),
        ("spec.validationActions", _actions),
    ),
)
