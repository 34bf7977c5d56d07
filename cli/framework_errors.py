"""Errors in a `Framework` value, reported when it is loaded: later they would be jobs that never end, or tracebacks."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from jobcommon.framework import FollowLeader, Framework, ReplicaType

_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_KIND = re.compile(r"[A-Z][A-Za-z0-9]{0,62}")
_FIELD = re.compile(r"[a-z][A-Za-z0-9]*")
_TYPE = re.compile(r"[A-Za-z][A-Za-z0-9]{0,61}")
_PORT_NAME = re.compile(r"(?=.*[a-z])[a-z0-9]([-a-z0-9]{0,13}[a-z0-9])?")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


def framework_errors(framework: Framework) -> list[str]:
    """The errors, each with the name of the field; empty if there are none."""
    return [
        *_names(framework),
        *_replica_types(framework.replica_types),
        *_versions(framework),
        *_leaders(framework),
        *_own_options(framework.own_options),
    ]


def _names(framework: Framework) -> Iterator[str]:
    for field, pattern, example in (
        ("kind", _KIND, "TestJob"),
        ("plural", _LABEL, "testjobs"),
        ("name", _LABEL, "test"),
        ("group", _GROUP, "kubeflow.org"),
        ("replica_specs", _FIELD, "testReplicaSpecs"),
    ):
        yield from _shape(field, getattr(framework, field), pattern, example)
    if framework.container:
        yield from _shape("container", framework.container, _LABEL, "test")
    if framework.port_name:
        yield from _shape("port_name", framework.port_name, _PORT_NAME, "testjob-port")
        if not 0 < framework.port < 65536:
            yield f"port: {framework.port} is not a valid port; use a number from 1 to 65535"


def _replica_types(types: Iterable[ReplicaType]) -> Iterator[str]:
    types = tuple(types)
    if not types:
        yield "replica_types: a framework has at least one"
    for name in _repeated(kind.name.lower() for kind in types):
        yield f"replica_types: {name} is there twice; names differ in more than case"
    for kind in types:
        where = f"replica_types[{kind.name}]"
        yield from _shape(f"{where}.name", kind.name, _TYPE, "Worker")
        if kind.max_replicas is not None and not kind.min_replicas <= kind.max_replicas:
            yield f"{where}.min_replicas: {kind.min_replicas} is more than max_replicas, which is {kind.max_replicas}"
        if not kind.indexed and kind.max_replicas != 1:
            yield f"{where}.max_replicas: must be 1 for a type whose pod has no index in its name"
        if kind.restart_policy not in kind.restart_policies:
            yield f"{where}.restart_policy: {kind.restart_policy} is not among its restart_policies"


def _versions(framework: Framework) -> Iterator[str]:
    names = [version.name for version in framework.versions]
    for name in names:
        yield from _shape("versions", name, _LABEL, "v1")
    for name in _repeated(names):
        yield f"versions: {name} is there twice"
    stored = sum(version.storage for version in framework.versions)
    if stored != 1:
        yield f"versions: exactly one is stored (storage=True), and here {stored} are"


def _leaders(framework: Framework) -> Iterator[str]:
    names = [kind.name for kind in framework.replica_types]
    if isinstance(framework.outcome, FollowLeader):
        for leader in framework.outcome.leaders:
            if leader not in names:
                yield f'outcome: succeed_with("{leader}"): there is no such replica type; use one of {", ".join(names)}'
        if not framework.outcome.leaders:
            yield "outcome: succeed_with() names no replica type, so that no job would ever end"


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


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, count in Counter(names).items() if count > 1]
