"""A framework is checked when it is loaded, and what is wrong names the field."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from jobcommon.api.job import RestartPolicy
from jobcommon.cli.framework_errors import framework_errors
from jobcommon.cli.frameworks import installed
from jobcommon.framework import ReplicaType, Version, succeed_with
from jobcommon.testutil.frameworks import TEST_JOB


@pytest.mark.parametrize("framework", [*installed().values(), TEST_JOB], ids=lambda f: f.kind)
def test_those_there_are_have_nothing_wrong(framework: Any) -> None:
    assert framework_errors(framework) == []


@dataclass(frozen=True)
class OwnOptions:
    """A type that no option of the command has."""

    names: tuple[str, ...] = ("a",)


CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"outcome": succeed_with("Clinet")},
        'outcome: succeed_with("Clinet"): there is no such replica type; use one of Master, Worker',
    ),
    ({"outcome": succeed_with()}, "outcome: succeed_with() names no replica type, so that no job would ever end"),
    (
        {"replica_types": (ReplicaType("Worker"), ReplicaType("worker"))},
        "replica_types: worker is there twice; names differ in more than case",
    ),
    ({"replica_types": ()}, "replica_types: a framework has at least one"),
    ({"replica_types": (ReplicaType("My Worker"),)}, "replica_types[My Worker].name: 'My Worker' cannot be used"),
    ({"replica_types": (ReplicaType("W", min_replicas=3, max_replicas=2),)}, "replica_types[W].min_replicas: 3 is more than"),
    ({"replica_types": (ReplicaType("W", indexed=False),)}, "replica_types[W].max_replicas: must be 1"),
    (
        {"replica_types": (ReplicaType("W", RestartPolicy.ALWAYS, restart_policies=(RestartPolicy.NEVER,)),)},
        "replica_types[W].restart_policy: Always is not among its restart_policies",
    ),
    ({"plural": "Test Jobs"}, "plural: 'Test Jobs' cannot be used; write something like \"testjobs\""),
    ({"kind": "testjob"}, "kind: 'testjob' cannot be used"),
    ({"name": ""}, "name: '' cannot be used"),
    ({"group": "org"}, "group: 'org' cannot be used"),
    ({"replica_specs": "Test-Specs"}, "replica_specs: 'Test-Specs' cannot be used"),
    ({"container": "Test"}, "container: 'Test' cannot be used"),
    ({"port_name": "a-port-name-too-long"}, "port_name: 'a-port-name-too-long' cannot be used"),
    ({"port": 0}, "port: 0 is not a valid port; use a number from 1 to 65535"),
    ({"versions": (Version("v1"),)}, "versions: exactly one is stored (storage=True), and here 0 are"),
    ({"versions": (Version("v1", storage=True), Version("v1"))}, "versions: v1 is there twice"),
    ({"own_options": {"a": 1}}, "own_options: {'a': 1} cannot be used; give the value of a frozen dataclass"),
    ({"own_options": OwnOptions()}, "own_options.names: the default ('a',) cannot be used"),
]


@pytest.mark.parametrize(("change", "says"), CASES, ids=[f"{n}-{next(iter(case[0]))}" for n, case in enumerate(CASES)])
def test_what_is_wrong_names_its_field(change: dict[str, Any], says: str) -> None:
    (error,) = framework_errors(replace(TEST_JOB, **change))
    assert error.startswith(says)
