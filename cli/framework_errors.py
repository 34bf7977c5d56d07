"""Errors in a `Framework` that no type checker sees, found when it is loaded: later they would be jobs that never end."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from jobcommon.api.job import JobSpec
from jobcommon.framework import FollowLeader, Framework, ReplicaType
from jobcommon.reconcile.features import features_of


def framework_errors(framework: Framework) -> list[str]:
    """The errors, each with the name of the field; empty if there are none."""
    return [
        *_names(framework),
        *_replica_types(framework.replica_types),
        *_versions(framework),
        *_leaders(framework),
        *_scale(framework),
        *_own_options(framework.own_options),
        *_features(framework),
    ]


def _features(framework: Framework) -> Iterator[str]:
    try:
        features_of(framework)
    except ValueError as error:
        yield f"features: {error}"


def _names(framework: Framework) -> Iterator[str]:
    if framework.replica_specs in _fields_of(framework.spec):
        yield f"replica_specs: {framework.replica_specs} is a field of the spec already; choose another name"


def _replica_types(types: tuple[ReplicaType, ...]) -> Iterator[str]:
    if not types:
        yield "replica_types: a framework needs at least one"
    for name in _repeated(kind.name.lower() for kind in types):
        yield f"replica_types: {name} is given twice; names must differ in more than case"
    for kind in types:
        where, most = f"replica_types[{kind.name}]", kind.max_replicas
        if most is not None and not kind.min_replicas <= most:
            yield f"{where}.min_replicas: {kind.min_replicas} is more than max_replicas, which is {most}"
        elif kind.replicas < kind.min_replicas or (most is not None and kind.replicas > most):
            yield f"{where}.replicas: the default {kind.replicas} is not between min_replicas and max_replicas"
        if not kind.indexed and most != 1:
            yield f"{where}.max_replicas: must be 1 for a type whose pod has no index in its name"
        if kind.restart_policy not in kind.restart_policies:
            yield f"{where}.restart_policy: {kind.restart_policy} is not among its restart_policies"


def _versions(framework: Framework) -> Iterator[str]:
    if (stored := sum(version.storage for version in framework.versions)) != 1:
        yield f"versions: exactly one must be stored (storage=True), not {stored}"
    known = {*_fields_of(framework.spec), framework.replica_specs}
    for version in framework.versions:
        for name in version.defaults:
            if name not in known:
                yield f"versions[{version.name}].defaults: {name} is not a field of the spec"


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


def _scale(framework: Framework) -> Iterator[str]:
    if framework.scale is None:
        return
    before, _, kind = framework.scale.spec.removesuffix(".replicas").rpartition(".")
    if before == f".spec.{framework.replica_specs}" and kind not in [one.name for one in framework.replica_types]:
        yield f"scale.spec: {kind} is not a replica type; use one of {', '.join(one.name for one in framework.replica_types)}"


def _fields_of(model: type[JobSpec]) -> set[str]:
    """The fields as manifests name them."""
    return {field.alias or name for name, field in model.model_fields.items()}


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
