"""A framework is checked when it is loaded, and what is wrong names the field."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from jobcommon.api.job import RestartPolicy
from jobcommon.api.model import ApiModel
from jobcommon.cli.framework_errors import framework_errors
from jobcommon.cli.frameworks import installed
from jobcommon.framework import Feature, ReplicaType, ScalePaths, Version, succeed_with
from jobcommon.reconcile.view import Lifecycle
from jobcommon.testutil.frameworks import TEST_JOB


@pytest.mark.parametrize("framework", [*installed().values(), TEST_JOB], ids=lambda f: f.kind)
def test_those_there_are_have_nothing_wrong(framework: Any) -> None:
    assert framework_errors(framework) == []


@dataclass(frozen=True)
class OwnOptions:
    """A type that no option of the command has."""

    names: tuple[str, ...] = ("a",)


class Nameless(Lifecycle):
    """It would record what no field has."""

    status = ApiModel


CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"outcome": succeed_with("Clinet")},
        'outcome: succeed_with("Clinet"): there is no such replica type; use one of Master, Worker',
    ),
    (
        {"replica_types": (ReplicaType("Server", runs_to_completion=False), ReplicaType("Worker"))},
        (
            "replica_types[Server].runs_to_completion: Server decides whether a job has succeeded, but does not run to "
            "completion, so no job would ever end; name another type in outcome=succeed_with(…)"
        ),
    ),
    ({"outcome": succeed_with()}, "outcome: succeed_with() names no replica type, so no job would ever end"),
    (
        {"replica_types": (ReplicaType("Worker"), ReplicaType("worker"))},
        "replica_types: worker is given twice; names must differ in more than case",
    ),
    ({"replica_types": ()}, "replica_types: a framework needs at least one"),
    ({"replica_types": (ReplicaType("W", min_replicas=3, max_replicas=2),)}, "replica_types[W].min_replicas: 3 is more than"),
    ({"replica_types": (ReplicaType("W", indexed=False),)}, "replica_types[W].max_replicas: must be 1"),
    (
        {"replica_types": (ReplicaType("W", RestartPolicy.ALWAYS, restart_policies=(RestartPolicy.NEVER,)),)},
        "replica_types[W].restart_policy: Always is not among its restart_policies",
    ),
    (
        {"replica_types": (ReplicaType("W", min_replicas=2),)},
        "replica_types[W].replicas: the default 1 is not between min_replicas",
    ),
    ({"versions": (Version("v1"),)}, "versions: exactly one must be stored (storage=True), not 0"),
    ({"replica_specs": "runPolicy"}, "replica_specs: runPolicy is a field of the spec already; choose another name"),
    ({"versions": (Version("v1", True, {"slots": 1}),)}, "versions[v1].defaults: slots is not a field of the spec"),
    (
        {"scale": ScalePaths.of_type("testReplicaSpecs", "Robot")},
        "scale.spec: Robot is not a replica type; use one of Master, Worker",
    ),
    ({"features": (Feature,)}, "features: Feature is no PodShape, Admission or Lifecycle"),
    ({"features": (Nameless,)}, "features: Nameless has the name ''; a field of the API needs one like maintenanceWindow"),
    ({"own_options": {"a": 1}}, "own_options: {'a': 1} cannot be used; give the value of a frozen dataclass"),
    ({"own_options": OwnOptions()}, "own_options.names: the default ('a',) cannot be used"),
]


@pytest.mark.parametrize(("change", "says"), CASES, ids=[f"{n}-{next(iter(case[0]))}" for n, case in enumerate(CASES)])
def test_each_error_names_its_field(change: dict[str, Any], says: str) -> None:
    (error,) = framework_errors(replace(TEST_JOB, **change))
    assert error.startswith(says)


@pytest.mark.parametrize("framework", installed().values(), ids=lambda f: f.kind)
def test_a_job_is_suspended_where_its_kind_has_the_field(framework: Any) -> None:
    assert framework.is_suspended(framework.with_suspend(True))
    for other in (framework.with_suspend(False), {"spec": None}, {"spec": {"suspend": {}}}):
        assert not framework.is_suspended(other)
