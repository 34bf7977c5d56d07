"""A framework is checked when it is loaded, and what is wrong names the field."""

from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from jobcommon.api.job import ReplicaSpec, RestartPolicy
from jobcommon.api.model import ApiModel
from jobcommon.cli.framework_errors import framework_errors
from jobcommon.cli.frameworks import installed
from jobcommon.framework import CelRule, CompanionKind, Feature, Framework, ReplicaType, ScalePaths, Version, succeed_with
from jobcommon.reconcile.gang import Gang
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
    ({"features": (Feature,)}, "features: Feature is no PodShape, Admission or Lifecycle"),
    (
        {"features": [Gang]},
        "features: [<class 'jobcommon.reconcile.gang.Gang'>] cannot be used; give a tuple",
    ),
    ({"features": (Nameless,)}, "features: Nameless has the name ''; a field of the API needs one like maintenanceWindow"),
    ({"replica_types": ()}, "replica_types: a framework needs at least one"),
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
    ({"versions": (Version("v1"),)}, "versions: exactly one must be stored (storage=True), not 0"),
    ({"versions": (Version("v1", storage=True), Version("v1"))}, "versions: v1 is given twice"),
    (
        {"replica_types": (ReplicaType("W", min_replicas=2),)},
        "replica_types[W].replicas: the default 1 is not between min_replicas",
    ),
    (
        {"replica_types": (ReplicaType("W", min_replicas=-1),)},
        "replica_types[W].min_replicas: -1 cannot be used; give a number",
    ),
    (
        {"replica_types": (ReplicaType("W", restart_policies=("Never", "Often")),)},  # type: ignore[arg-type]
        "replica_types[W].restart_policies: 'Often' cannot be used; use Always, OnFailure, Never, ExitCode",
    ),
    ({"replica_types": [ReplicaType("W")]}, "replica_types: [ReplicaType("),
    ({"replica_types": ("Worker",)}, "replica_types: ('Worker',) cannot be used; give a tuple of ReplicaType"),
    ({"replica_specs": "runPolicy"}, "replica_specs: runPolicy is a field of the spec already; choose another name"),
    ({"container": None}, "container: None cannot be used"),
    ({"port": "2222"}, "port: '2222' cannot be used; give a value of type int"),
    ({"port_name": ""}, "port: 2222 has no effect without a port_name"),
    ({"controller": "my controller"}, "controller: 'my controller' cannot be used; write something like"),
    ({"former_controllers": ("-",)}, "former_controllers: '-' cannot be used; write something like"),
    ({"former_controllers": "old"}, "former_controllers: 'old' cannot be used; give a tuple of str"),
    ({"spec": ReplicaSpec}, "spec: <class 'jobcommon.api.job.ReplicaSpec'> cannot be used; give a class derived from JobSpec"),
    ({"replica_spec": "TestSpec"}, "replica_spec: 'TestSpec' cannot be used; give a class derived from ReplicaSpec"),
    ({"versions": ("v1",)}, "versions: ('v1',) cannot be used; give a tuple of Version"),
    ({"versions": (Version("v1", True, {"slots": 1}),)}, "versions[v1].defaults: slots is not a field of the spec"),
    ({"env_in_main_only": "yes"}, "env_in_main_only: 'yes' cannot be used; give a value of type bool"),
    ({"queue_is_fixed": "no"}, "queue_is_fixed: 'no' cannot be used; give a value of type bool"),
    *(
        ({name: "no function"}, f"{name}: 'no function' cannot be used; give a function")
        for name in (
            *("index_offsets", "env", "outcome", "is_master", "upgrade", "validate", "blocked", "shape_pod", "companions"),
            *("may_create", "tolerates_failure", "retries", "joins"),
            *("references", "specialize", "shipped", "status_fields", "corrections"),
        )
    ),
    (
        {"companion_kinds": (CompanionKind("apps", "Deployment", "deployments"),)},
        "companion_kinds[Deployment].api_version: 'apps' cannot be used; write something like \"apps/v1\"",
    ),
    ({"companion_kinds": (CompanionKind("v1", "secret", "secrets"),)}, "companion_kinds[secret].kind: 'secret' cannot be used"),
    ({"related": ("pods",)}, "related: ('pods',) cannot be used; give a tuple of RelatedKind"),
    ({"unresolved": ("a",)}, "unresolved: ('a',) cannot be used; give a tuple of FieldError"),
    ({"suspend_at": "suspend"}, "suspend_at: 'suspend' cannot be used; give a tuple of str"),
    ({"queued_by_kueue": 0}, "queued_by_kueue: 0 cannot be used; give a value of type bool"),
    ({"missing": "no"}, "missing: 'no' cannot be used; give a value of type bool"),
    ({"subdomain": None}, "subdomain: None cannot be used; give a value of type str"),
    ({"rival": None}, "rival: None cannot be used; give a value of type str"),
    ({"checks": ("a",)}, "checks: ('a',) cannot be used; give a tuple of Check"),
    ({"rules": ("self.a",)}, "rules: ('self.a',) cannot be used; give a tuple of CelRule"),
    ({"rules": (CelRule("true", "never", ("slots",)),)}, "rules: the path ('slots',) cannot be used; it must begin with spec"),
    (
        {"scale": ScalePaths("spec.a", ".status.b", ".status.c")},
        "scale.spec: 'spec.a' cannot be used; it must begin with .spec.",
    ),
    (
        {"scale": ScalePaths.of_type("testReplicaSpecs", "Robot")},
        "scale.spec: Robot is not a replica type; use one of Master, Worker",
    ),
    ({"definition": "a"}, "definition: 'a' cannot be used; give Definition, or None"),
    ({"scale": ".spec.a"}, "scale: '.spec.a' cannot be used; give ScalePaths, or None"),
    ({"options": {}}, "options: {} cannot be used; give a value of type Options"),
    ({"own_options": {"a": 1}}, "own_options: {'a': 1} cannot be used; give the value of a frozen dataclass"),
    ({"own_options": OwnOptions()}, "own_options.names: the default ('a',) cannot be used"),
]


@pytest.mark.parametrize(("change", "says"), CASES, ids=[f"{n}-{next(iter(case[0]))}" for n, case in enumerate(CASES)])
def test_each_error_names_its_field(change: dict[str, Any], says: str) -> None:
    (error,) = framework_errors(replace(TEST_JOB, **change))
    assert error.startswith(says)


def test_every_field_is_checked() -> None:
    assert {field.name for field in fields(Framework)} == {name for change, _ in CASES for name in change}
