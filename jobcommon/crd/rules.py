"""The CEL rules that every kind has, with messages a person understands.

They repeat what `jobcommon.spec.validation` checks, so that a wrong job is refused when it is applied and not
accepted and failed.
Rules are kept cheap: the API server refuses a CRD whose rules may cost too much.
"""

from collections.abc import Iterator, Mapping

from jobcommon.api.job import MAX_REPLICAS, RestartPolicy
from jobcommon.framework import CelRule, Framework, ReplicaType
from jobcommon.spec.validation import MANAGERS, MAX_NAME, POLICY_RULES, needs_type


def _unchanged(*path: str) -> str:
    """A transition rule: the field below spec is as it was, or still absent.

    Written with has(): a real API server cannot bound what `orValue` costs and refuses the CRD.
    """
    old, new = (_or_empty(root, path) for root in ("oldSelf", "self"))
    return f"{new} == {old}"


def _or_empty(root: str, path: tuple[str, ...]) -> str:
    there = " && ".join(f"has({'.'.join((root, *path[:depth]))})" for depth in range(1, len(path) + 1))
    return f"({there} ? {'.'.join((root, *path))} : '')"


def common_rules(framework: Framework) -> list[CelRule]:
    """The rules of a kind that follow from its facts, and the framework's own."""
    return [*_name(framework), *_run_policy(framework), *_replicas(framework), *framework.rules]


def _name(framework: Framework) -> Iterator[CelRule]:
    """For new jobs, and for pod names that grow. A job that is there already must be open to writes whatever its name, or it
    would get no status, and no client could remove its finalizer.
    """
    yield CelRule(
        "oldSelf.?metadata.hasValue() || "
        f"size(self.metadata.name) <= {MAX_NAME} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        f"metadata.name must have at most {MAX_NAME} lower case letters, digits and '-', beginning with a letter",
        optional_old=True,
    )
    specs = f"self.spec.{framework.replica_specs}"
    before = f"oldSelf.?spec.?{framework.replica_specs}[?k]"
    count, earlier = f"{specs}[k].?replicas.orValue(1)", f"{before}.?replicas.orValue(1)"
    last, index = f"size(string({count} - 1))", f"({count} > 1 ? 1 + size(string({count} - 1)) : 2)"
    longest = max(len(kind.name) for kind in framework.replica_types)
    safe = MAX_NAME - len("-") - longest - len(f"-{MAX_REPLICAS - 1}")
    single = [f"'{kind.name.lower()}'" for kind in framework.replica_types if not kind.indexed]
    if single:
        index = f"(k.lowerAscii() in [{', '.join(single)}] ? 0 : {index})"
    yield CelRule(
        f"{specs}.all(k, size(self.metadata.name) + 1 + size(k) + {index} <= {MAX_NAME}"
        f" || {before}.hasValue() && ({count} <= {earlier} || {last} <= size(string({earlier} - 1))))",
        f"metadata.name is too long: pods are named <name>-<replica type>-<index> and may have {MAX_NAME} characters;"
        f" a name of {safe} always fits",
        optional_old=True,
    )


def _managers(framework: Framework) -> list[str]:
    """The values of managedBy: the common ones, and the operator's old name where the framework understands it."""
    old = f"kubeflow.org/{framework.name}-operator"
    policy = framework.upgrade({"runPolicy": {"managedBy": old}}, framework.storage_version).get("runPolicy")
    understood = isinstance(policy, Mapping) and policy.get("managedBy") in MANAGERS
    return [*MANAGERS, old] if understood else [*MANAGERS]


def _run_policy(framework: Framework) -> Iterator[CelRule]:
    spec = ("spec",)
    for path in (("runPolicy", "managedBy"), ("managedBy",)):
        text = "managedBy cannot be changed; delete and recreate the job"
        yield CelRule(_unchanged(*path), text, spec, f".{'.'.join(path)}")
    if framework.queue_is_fixed:
        text = "spec.runPolicy.schedulingPolicy.queue is immutable; delete and recreate the job"
        rule = _unchanged("runPolicy", "schedulingPolicy", "queue")
        yield CelRule(rule, text, spec, ".runPolicy.schedulingPolicy.queue")
    listed = ", ".join(f"'{name}'" for name in _managers(framework))
    for above in (("spec", "runPolicy"), spec):
        text = f"managedBy must be one of {listed}"
        yield CelRule(f"!has(self.managedBy) || self.managedBy in [{listed}]", text, above, ".managedBy")
    yield from policy_rules()


def policy_rules() -> Iterator[CelRule]:
    """Those of any runPolicy, without managedBy and the queue."""
    for rule in POLICY_RULES:
        *above, name = rule.field.split(".")
        yield CelRule(rule.cel, rule.message, ("spec", "runPolicy", *above), f".{name}")


def _replicas(framework: Framework) -> Iterator[CelRule]:
    path = ("spec", framework.replica_specs)
    names = [kind.name for kind in framework.replica_types]
    listed = ", ".join(f"'{name.lower()}'" for name in names)
    # The spelling is free in case, as it is for the operator and was for the reference.
    yield CelRule(f"self.all(k, k.lowerAscii() in [{listed}])", f"replica types are {', '.join(names)}", path)
    for kind in framework.replica_types:
        yield from _type_rules(kind, path)
        if kind.required:
            rule = f"self.exists(k, k.lowerAscii() == '{kind.name.lower()}')"
            yield CelRule(rule, needs_type(framework.kind, kind.name), path)
    yield _container_rule(framework.container, (*path, "*"))


def _container_rule(name: str, path: tuple[str, ...]) -> CelRule:
    if not name:
        return CelRule(
            "!has(self.template.spec) || self.template.spec.containers.all(c, c.name != '')",
            "a container must have a name",
            path,
        )
    return CelRule(
        f"has(self.template.spec) && self.template.spec.containers.exists(c, c.name == '{name}')",
        f'one container must be named "{name}"',
        path,
    )


def _type_rules(kind: ReplicaType, path: tuple[str, ...]) -> Iterator[CelRule]:
    other, replicas = f"k.lowerAscii() != '{kind.name.lower()}'", "self[k].?replicas.orValue(1)"
    low, high = kind.min_replicas, kind.max_replicas
    if low == high:
        yield CelRule(f"self.all(k, {other} || {replicas} == {low})", f"{kind.name} must have exactly {_many(low)}", path)
    elif low > 0:
        yield CelRule(f"self.all(k, {other} || {replicas} >= {low})", f"{kind.name} must have at least {_many(low)}", path)
    if high is not None and low != high:
        yield CelRule(f"self.all(k, {other} || {replicas} <= {high})", f"{kind.name} must have at most {_many(high)}", path)
    allowed = kind.restart_policies
    if len(allowed) < len(RestartPolicy):
        listed = ", ".join(f"'{policy}'" for policy in (*allowed, RestartPolicy.DEFAULT))
        yield CelRule(
            f"self.all(k, {other} || !has(self[k].restartPolicy) || self[k].restartPolicy in [{listed}])",
            f"the restartPolicy of {kind.name} must be one of {', '.join(allowed)}",
            path,
        )


def _many(count: int) -> str:
    return "1 replica" if count == 1 else f"{count} replicas"
