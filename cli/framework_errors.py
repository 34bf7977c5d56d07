"""Errors in a `Framework` value, reported when it is loaded: later they would be jobs that never end, or tracebacks."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from jobcommon.api.definition import CelRule, Definition, ScalePaths, Version
from jobcommon.api.job import JobSpec, ReplicaSpec, RestartPolicy
from jobcommon.framework import (
    Check,
    CompanionKind,
    FieldError,
    FollowLeader,
    Framework,
    Options,
    RelatedKind,
    ReplicaType,
)
from jobcommon.reconcile.features import features_of

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_FIELD = re.compile(r"[a-z][A-Za-z0-9]*")
_TYPE = re.compile(r"[A-Za-z]([-A-Za-z0-9]{0,60}[A-Za-z0-9])?")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_API_VERSION = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?v[0-9][a-z0-9]*")
_ONE = {
    "port": int,
    "options": Options,
    "env_in_main_only": bool,
    "queue_is_fixed": bool,
    "missing": bool,
    "queued_by_kueue": bool,
    "subdomain": str,
    "rival": str,
}
_MANY = {
    "replica_types": ReplicaType,
    "former_controllers": str,
    "versions": Version,
    "companion_kinds": CompanionKind,
    "rules": CelRule,
    "checks": Check,
    "related": RelatedKind,
    "suspend_at": str,
    "unresolved": FieldError,
}
_MODELS = {"spec": JobSpec, "replica_spec": ReplicaSpec}
_FUNCTIONS = (
    *("index_offsets", "env", "is_master", "upgrade", "validate", "blocked", "shape_pod", "companions", "may_create"),
    *("tolerates_failure", "retries", "joins", "references", "shipped"),
)
_OPTIONAL_FUNCTIONS = ("outcome", "specialize", "status_fields", "corrections")


def framework_errors(framework: Framework) -> list[str]:
    """The errors, each with the name of the field; empty if there are none."""
    # What is of another type cannot be read any further.
    return list(_types(framework)) or [
        *_names(framework),
        *_replica_types(framework.replica_types),
        *_versions(framework),
        *_leaders(framework),
        *_definition(framework),
        *_companion_kinds(framework.companion_kinds),
        *_own_options(framework.own_options),
        *_features(framework),
    ]


def _types(framework: Framework) -> Iterator[str]:
    for field, wanted in _ONE.items():
        if not isinstance(value := getattr(framework, field), wanted) or (wanted is int and isinstance(value, bool)):
            yield f"{field}: {value!r} cannot be used; give a value of type {wanted.__name__}"
    for field, wanted in _MANY.items():
        value = getattr(framework, field)
        if not isinstance(value, tuple) or not all(isinstance(one, wanted) for one in value):
            yield f"{field}: {value!r} cannot be used; give a tuple of {wanted.__name__}"
    for field, model in _MODELS.items():
        value = getattr(framework, field)
        if not isinstance(value, type) or not issubclass(value, model):
            yield f"{field}: {value!r} cannot be used; give a class derived from {model.__name__}"
    for field in (*_FUNCTIONS, *(name for name in _OPTIONAL_FUNCTIONS if getattr(framework, name) is not None)):
        if not callable(value := getattr(framework, field)):
            yield f"{field}: {value!r} cannot be used; give a function"
    for field, wanted in (("scale", ScalePaths), ("definition", Definition)):
        if not isinstance(value := getattr(framework, field), wanted | None):
            yield f"{field}: {value!r} cannot be used; give {wanted.__name__}, or None"


def _features(framework: Framework) -> Iterator[str]:
    given = framework.features
    if given is not None and not (isinstance(given, tuple) and all(isinstance(one, type) for one in given)):
        yield f"features: {given} cannot be used; give a tuple of classes, or None"
        return
    try:
        features_of(framework)
    except ValueError as error:
        yield f"features: {error}"


def _names(framework: Framework) -> Iterator[str]:
    for field, pattern, example in (
        ("kind", _KIND, "TestJob"),
        ("plural", _LABEL, "testjobs"),
        ("name", _LABEL, "test"),
        ("group", _GROUP, "kubeflow.org"),
        ("replica_specs", _FIELD, "testReplicaSpecs"),
    ):
        yield from _shape(field, getattr(framework, field), pattern, example)
    if framework.replica_specs in _fields_of(framework.spec):
        yield f"replica_specs: {framework.replica_specs} is a field of the spec already; choose another name"
    if framework.container != "":
        yield from _shape("container", framework.container, _LABEL, "test")
    if framework.port_name != "":
        yield from _shape("port_name", framework.port_name, _PORT_NAME, "testjob-port")
        if not 0 < framework.port < 65536:
            yield f"port: {framework.port} is not a valid port; use a number from 1 to 65535"
    elif framework.port:
        yield f"port: {framework.port} has no effect without a port_name"
    if framework.controller != "":
        yield from _shape("controller", framework.controller, _LABEL_VALUE, "testjob-controller")
    for name in framework.former_controllers:
        yield from _shape("former_controllers", name, _LABEL_VALUE, "testjob-controller")


def _replica_types(types: tuple[ReplicaType, ...]) -> Iterator[str]:
    if not types:
        yield "replica_types: a framework needs at least one"
    for name in _repeated(str(kind.name).lower() for kind in types):
        yield f"replica_types: {name} is given twice; names must differ in more than case"
    for kind in types:
        where = f"replica_types[{kind.name}]"
        yield from _shape(f"{where}.name", kind.name, _TYPE, "Worker")
        counts = {name: getattr(kind, name) for name in ("replicas", "min_replicas", "max_replicas")}
        wrong = [name for name, count in counts.items() if not _is_count(count) and (name, count) != ("max_replicas", None)]
        yield from (f"{where}.{name}: {counts[name]!r} cannot be used; give a number from 0" for name in wrong)
        if not wrong:
            yield from _numbers(where, kind)
        if not kind.indexed and kind.max_replicas != 1:
            yield f"{where}.max_replicas: must be 1 for a type whose pod has no index in its name"
        if kind.restart_policy not in kind.restart_policies:
            yield f"{where}.restart_policy: {kind.restart_policy} is not among its restart_policies"
        for policy in kind.restart_policies:
            if policy not in tuple(RestartPolicy):
                yield f"{where}.restart_policies: {policy!r} cannot be used; use {', '.join(RestartPolicy)}"


def _numbers(where: str, kind: ReplicaType) -> Iterator[str]:
    most = kind.max_replicas
    if most is not None and not kind.min_replicas <= most:
        yield f"{where}.min_replicas: {kind.min_replicas} is more than max_replicas, which is {most}"
    elif kind.replicas < kind.min_replicas or (most is not None and kind.replicas > most):
        yield f"{where}.replicas: the default {kind.replicas} is not between min_replicas and max_replicas"


def _versions(framework: Framework) -> Iterator[str]:
    names = [version.name for version in framework.versions]
    for name in names:
        yield from _shape("versions", name, _LABEL, "v1")
    for name in _repeated(names):
        yield f"versions: {name} is given twice"
    stored = sum(version.storage for version in framework.versions)
    if stored != 1:
        yield f"versions: exactly one must be stored (storage=True), not {stored}"
    known = {*_fields_of(framework.spec), framework.replica_specs}
    for version in framework.versions:
        for name in version.defaults:
            if name not in known:
                yield f"versions[{version.name}].defaults: {name} is not a field of the spec"


def _definition(framework: Framework) -> Iterator[str]:
    for rule in framework.rules:
        if not isinstance(rule.path, tuple) or rule.path[:1] not in ((), ("spec",), ("metadata",), ("status",)):
            yield f"rules: the path {rule.path!r} cannot be used; it must begin with spec, metadata or status, or be empty"
    if framework.scale is None:
        return
    for name, root in (("spec", ".spec."), ("status", ".status."), ("selector", ".status.")):
        if not getattr(framework.scale, name).startswith(root):
            yield f"scale.{name}: {getattr(framework.scale, name)!r} cannot be used; it must begin with {root}"
    before, _, kind = framework.scale.spec.removesuffix(".replicas").rpartition(".")
    if before == f".spec.{framework.replica_specs}" and kind not in [one.name for one in framework.replica_types]:
        yield f"scale.spec: {kind} is not a replica type; use one of {', '.join(one.name for one in framework.replica_types)}"


def _companion_kinds(kinds: Iterable[CompanionKind]) -> Iterator[str]:
    for kind in kinds:
        where = f"companion_kinds[{kind.kind}]"
        yield from _shape(f"{where}.kind", kind.kind, _KIND, "ConfigMap")
        yield from _shape(f"{where}.plural", kind.plural, _LABEL, "configmaps")
        yield from _shape(f"{where}.api_version", kind.api_version, _API_VERSION, "apps/v1")


def _leaders(framework: Framework) -> Iterator[str]:
    names = [kind.name for kind in framework.replica_types]
    if isinstance(framework.outcome, FollowLeader):
        for leader in framework.outcome.leaders:
            if leader not in names:
                yield f'outcome: succeed_with("{leader}"): there is no such replica type; use one of {", ".join(names)}'
        if not framework.outcome.leaders:
            yield "outcome: succeed_with() names no replica type, so no job would ever end"
    default = names[:1] if framework.outcome is None else []
    for name in framework.outcome.leaders if isinstance(framework.outcome, FollowLeader) else default:
        if name in names and not framework.runs_to_completion(name):
            text = "decides whether a job has succeeded, but does not run to completion, so no job would ever end"
            yield f"replica_types[{name}].runs_to_completion: {name} {text}; name another type in outcome=succeed_with(…)"


def _own_options(options: Any) -> Iterator[str]:
    if options is None:
        return
    parameters = getattr(options, "__dataclass_params__", None)
    if isinstance(options, type) or parameters is None or not parameters.frozen:
        yield f"own_options: {options!r} cannot be used; give the value of a frozen dataclass"
        return
    for field in fields(options):
        if type(value := getattr(options, field.name)) not in (bool, int, float, str):
            yield f"own_options.{field.name}: the default {value!r} cannot be used; an option is a bool, int, float or str"


def _shape(field: str, value: str, pattern: re.Pattern[str], example: str) -> Iterator[str]:
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        yield f'{field}: {value!r} cannot be used; write something like "{example}"'


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _fields_of(model: type[JobSpec]) -> set[str]:
    """The fields as manifests name them."""
    return {field.alias or name for name, field in model.model_fields.items()}


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
