"""The rules over a whole job that its models cannot express. Most are also in the CRD; here they catch what it lets pass."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from jobcommon.api.job import MAX_REPLICAS, ReplicaSpec
from jobcommon.api.kueue import MULTIKUEUE
from jobcommon.api.replica import Replica, replica_count
from jobcommon.api.resources import parse_quantity
from jobcommon.api.template import containers_of
from jobcommon.framework import OUR_MANAGER, FieldError, Framework, Job, ReplicaType
from jobcommon.reconcile.features import features_of
from jobcommon.spec.structure import Json, structural_errors

MAX_NAME = 63
# Over all templates that overrides make. A larger job would block the event loop, and with it all other jobs, for seconds.
MAX_VALUES = 500_000
_AMOUNT = 20
# One string of a program's environment, as NAME=value with its end: 32 pages (execve(2)).
MAX_VARIABLE = 32 * 4096
_LIMIT = f"Linux starts no process with a variable of more than {MAX_VARIABLE}"
# The addresses of fewer do not come near it.
MANY_REPLICAS = 500
MANAGERS = (OUR_MANAGER, MULTIKUEUE)
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule about a field below runPolicy: as CEL over the object that has it, and whether it `holds` for a policy in JSON."""

    field: str
    message: str
    cel: str
    holds: Callable[[Mapping[str, Any]], bool]


_TOGETHER = "has(self.restartScope) && self.restartScope == 'Job'"


def _needs(name: str, *others: str) -> PolicyRule:
    """The field does nothing unless one of the others is set."""
    words = " or ".join(f"{other}: true" if other == "reportProgress" else other for other in others)
    is_set = " || ".join(f"has(self.{other}){' && self.reportProgress' * (other == 'reportProgress')}" for other in others)
    cel = f"!has(self.{name}) || {is_set}"
    return PolicyRule(name, f"{name} needs {words}", cel, lambda policy: name not in policy or any(map(policy.get, others)))


def _restarts_all(name: str, value: str, other: str) -> PolicyRule:
    """With that value the field restarts all replicas together, and with the other one it does not."""
    message = f"{name} {value} restarts all replicas: set restartScope to Job, or use {other}"
    cel = f"!has(self.{name}) || self.{name} != '{value}' || {_TOGETHER}"
    return PolicyRule(name, message, cel, lambda policy: policy.get(name) != value or policy.get("restartScope") == "Job")


def _ends_before(name: str) -> PolicyRule:
    """The deadline counts from no earlier than activeDeadlineSeconds does."""
    message = f"{name} must be less than activeDeadlineSeconds, which ends the job earlier"
    cel = f"!has(self.{name}) || !has(self.activeDeadlineSeconds) || self.{name} < self.activeDeadlineSeconds"
    return PolicyRule(name, message, cel, lambda policy: policy.get(name, 0) < policy.get("activeDeadlineSeconds", inf))


def _has_bounds_in_order(policy: Mapping[str, Any]) -> bool:
    elastic = policy.get("elastic", {})
    return bool(elastic.get("minReplicas", 1) <= elastic.get("maxReplicas", inf))


POLICY_RULES: Sequence[PolicyRule] = (
    _needs("progressDeadlineSeconds", "reportProgress"),
    _needs("progressStartDeadlineSeconds", "reportProgress"),
    _needs("evaluationSeconds", "progressDeadlineSeconds"),
    _needs("stallAction", "progressDeadlineSeconds", "progressStartDeadlineSeconds"),
    _needs("maxRestartsWithoutProgress", "reportProgress"),
    _needs("pendingDeadlineAction", "pendingDeadlineSeconds"),
    _restarts_all("stallAction", "Restart", "Fail"),
    _restarts_all("pendingDeadlineAction", "Restart", "Fail"),
    _restarts_all("restartMethod", "Auto", "Recreate"),
    PolicyRule(
        "pendingDeadlineAction",
        "pendingDeadlineAction Restart frees the nodes of all pods, which restartMethod Auto keeps: use Recreate, or Fail",
        "!has(self.pendingDeadlineAction) || self.pendingDeadlineAction != 'Restart'"
        " || !has(self.restartMethod) || self.restartMethod != 'Auto'",
        lambda policy: (policy.get("pendingDeadlineAction"), policy.get("restartMethod")) != ("Restart", "Auto"),
    ),
    PolicyRule(
        "elastic",
        "elastic restarts all replicas with each resize: set restartScope to Job",
        f"!has(self.elastic) || {_TOGETHER}",
        lambda policy: "elastic" not in policy or policy.get("restartScope") == "Job",
    ),
    PolicyRule(
        "elastic.minReplicas",
        "minReplicas must not exceed maxReplicas",
        "!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
        _has_bounds_in_order,
    ),
    _ends_before("progressDeadlineSeconds"),
    _ends_before("progressStartDeadlineSeconds"),
    _ends_before("pendingDeadlineSeconds"),
)


def validate(framework: Framework, job: Job) -> list[FieldError]:
    """What is wrong with the job, in the order of its fields; empty when nothing is."""
    if job.managed_elsewhere:
        return []
    errors = [*_name_errors(job), *run_policy_errors(job)]
    for kind in framework.replica_types:
        path = f"spec.{framework.replica_specs}[{kind.name}]"
        spec = job.replica_specs.get(kind.name)
        if spec is not None:
            errors += _replica_errors(framework, kind, spec, path)
        elif kind.required:
            errors.append(FieldError(path, f"Required value: {needs_type(job.kind, kind.name)}"))
    if job.total_replicas > MAX_REPLICAS:
        errors.append(FieldError(f"spec.{framework.replica_specs}", f"must not have more than {MAX_REPLICAS} replicas in all"))
    return errors or [
        *framework.validate(job),
        *(error for feature in features_of(framework) for error in feature.validate(job)),
        *_elastic_errors(framework, job),
        *_variable_errors(framework, job),
    ]


def template_errors(framework: Framework, job: Job) -> Iterator[FieldError]:
    """What is wrong with the pod templates of the replica specs that could be read, whatever else of the job could not."""
    for name, spec in job.replica_specs.items():
        yield from _errors_of_templates(framework, spec, f"spec.{framework.replica_specs}[{name}]")


def _elastic_errors(framework: Framework, job: Job) -> Iterator[FieldError]:
    kind = framework.scaled_type
    if job.run_policy.elastic is None:
        return
    if not kind or framework.joins(job, kind):
        yield FieldError("spec.runPolicy.elastic", f"Forbidden: {kind or 'no type'} of this job can be resized as a whole")
    elif kind not in job.replica_specs:
        yield FieldError(
            "spec.runPolicy.elastic", f"Forbidden: it applies to replicas of type {kind}, which the job does not have"
        )


def _variable_errors(framework: Framework, job: Job) -> Iterator[FieldError]:
    """A variable that no process can be started with: a list of all peers grows with the job."""
    if job.total_replicas < MANY_REPLICAS:
        return
    for kind in job.replica_specs:
        for variable in framework.env(job, Replica(kind, 0)) if job.count(kind) else ():
            size = len(variable.name) + len(variable.value.encode()) + 2
            if size > MAX_VARIABLE:
                text = f"Too many: the variable {variable.name} of a {kind} would have {size} bytes"
                advice = f"use at most some {job.total_replicas * MAX_VARIABLE // size} replicas, or a shorter name"
                yield FieldError(f"spec.{framework.replica_specs}", f"{text}, and {_LIMIT}; {advice}")
                return


def _name_errors(job: Job) -> Iterator[FieldError]:
    if len(job.name) > MAX_NAME or not _DNS_1035.fullmatch(job.name):
        yield FieldError(
            "metadata.name",
            f'Invalid value: "{job.name[:80]}": use up to {MAX_NAME} lower case letters, digits and "-", beginning with a '
            "letter",
        )
        return
    last = [Replica(kind, max(replica_count(spec) - 1, 0)) for kind, spec in job.replica_specs.items()]
    longest = max((job.pod_name(replica) for replica in last), key=len, default=job.name)
    if len(longest) > MAX_NAME:
        allowed = len(job.name) - (len(longest) - MAX_NAME)
        yield FieldError(
            "metadata.name",
            f'Invalid value: "{job.name}": the pod {longest} would have {len(longest)} characters, '
            f"{MAX_NAME} are allowed; use a name of at most {allowed} characters",
        )


def run_policy_errors(job: Job) -> Iterator[FieldError]:
    """What is wrong with the run policy, as far as it could be read."""
    given = job.run_policy.model_dump(by_alias=True, exclude_none=True)
    yield from (FieldError(f"spec.runPolicy.{rule.field}", rule.message) for rule in POLICY_RULES if not rule.holds(given))
    gang = job.run_policy.scheduling_policy
    for name, amount in ((gang.min_resources if gang is not None else None) or {}).items():
        try:
            parse_quantity(amount)
        except ValueError as error:
            yield FieldError(f"spec.runPolicy.schedulingPolicy.minResources[{name}]", str(error))


def needs_type(kind: str, name: str) -> str:
    """The error of a job without a type that is required."""
    return f"every {kind} needs a {name}; add it"


def _replica_errors(framework: Framework, kind: ReplicaType, spec: ReplicaSpec, path: str) -> Iterator[FieldError]:
    count = replica_count(spec)
    too_many = kind.max_replicas is not None and count > kind.max_replicas
    if too_many or count < kind.min_replicas:
        bound = "" if kind.min_replicas == kind.max_replicas else "at most " if too_many else "at least "
        allowed = kind.max_replicas if too_many else kind.min_replicas
        yield FieldError(f"{path}.replicas", f"Forbidden: must be {bound}{allowed}")
    if spec.restart_policy is not None and spec.restart_policy not in kind.restart_policies:
        policies = ", ".join(filter(None, kind.restart_policies))
        yield FieldError(f"{path}.restartPolicy", f'Unsupported value: "{spec.restart_policy}": use one of {policies}')
    yield from _errors_of_templates(framework, spec, path)


def _errors_of_templates(framework: Framework, spec: ReplicaSpec, path: str) -> Iterator[FieldError]:
    """Every distinct template that the overrides make is checked once; an error is attributed to the last of its overrides.

    An override for an index beyond `replicas` is valid: it applies again after a scale-up.
    """
    yield from _template_errors(framework, spec.template, f"{path}.template")
    if not spec.overrides:
        return
    own, added = _values(spec.template), [_values(override.template) for override in spec.overrides]
    distinct = [positions for positions in spec.templates.distinct if positions]
    made = sum(own + sum(added[position] for position in positions) for positions in distinct)
    if made > MAX_VALUES:
        text = f"{len(distinct)} different templates have {made} values in total, {MAX_VALUES} are allowed"
        yield FieldError(f"{path}.overrides", f"Too many: {text}; use fewer overrides or a smaller template")
        return
    for positions in distinct:
        yield from _template_errors(framework, spec.templates.at(positions), f"{path}.overrides[{positions[-1]}].template")


def _values(document: object) -> int:
    """How many values a document has, at all depths; an amount of a resource costs as much to read as many others."""
    count, left = 0, [document]
    while left:
        value = left.pop()
        count += 1
        if isinstance(value, Mapping):
            count += sum(_AMOUNT * len(value[name]) for name in ("limits", "requests") if isinstance(value.get(name), Mapping))
        left += value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return count


def _list_of(**node: Any) -> Json:
    return {"type": "array", "nullable": True, "items": node}


def _object(**properties: Json) -> Json:
    return {"type": "object", "nullable": True, "properties": properties}


_TEXTS = {"type": "object", "nullable": True, "additionalProperties": {"type": "string"}}
_WORDS, _OBJECTS = _list_of(type="string"), _list_of(type="object")
_NAMED = _list_of(type="object", properties={"name": {"type": "string"}})
_IN_CONTAINER = {"command": _WORDS, "args": _WORDS, "env": _NAMED, "ports": _NAMED, "volumeMounts": _NAMED}
#: The fields of a template that an operator reads or extends. The API server validates the rest of a pod.
_TEMPLATE = _object(
    metadata=_object(labels=_TEXTS, annotations=_TEXTS),
    spec=_object(
        containers=_list_of(
            type="object", properties={"name": {"type": "string"}, "image": {"type": "string"}, **_IN_CONTAINER}
        ),
        initContainers=_NAMED,
        volumes=_NAMED,
        tolerations=_OBJECTS,
        affinity=_object(nodeAffinity=_object()),
        terminationGracePeriodSeconds={"type": "integer", "nullable": True, "minimum": 0},
        dnsConfig=_object(searches=_WORDS),
    ),
)


def _template_errors(framework: Framework, template: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    wrong = list(structural_errors(_TEMPLATE, template, path, prunes=True))
    for error in wrong:
        a_line = error.path.endswith((".command", ".args"))
        yield replace(error, message=f'{error.message}; for a shell line use ["sh", "-c", "the line"]') if a_line else error
    where, containers = f"{path}.spec.containers", list(containers_of(template))
    if wrong:
        return
    if not containers:
        yield FieldError(where, "Required value: at least one container")
    for position, container in enumerate(containers):
        for name in ("image",) if framework.container else ("image", "name"):
            if not container.get(name):
                yield FieldError(f"{where}[{position}].{name}", "Required value")
    if framework.container and containers and all(container.get("name") != framework.container for container in containers):
        yield FieldError(where, f'Required value: one container must be named "{framework.container}"')
