"""What `jobcommon plan` refuses beyond what the operator would: as an API server with strict field validation does."""

from copy import deepcopy
from typing import Any

import pytest

from jobcommon.crd import custom_resource_definition, field_errors
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.builders import Manifest, job_manifest
from localcluster.rules import compile_schema

WORKER = "spec.pytorchReplicaSpecs[Worker]"
C = "template.spec.containers.0"
CASES: list[tuple[str, Any, str]] = [
    ("replica", 2, f'{WORKER}.replica: unknown field; did you mean "replicas"?'),
    (f"{C}.imagePullPolcy", "Always", '[0].imagePullPolcy: unknown field; did you mean "imagePullPolicy"?'),
    (f"{C}.env", [{"name": "A", "value": 1}], f"{WORKER}.template.spec.containers[0].env[0].value: must be text, in quotes"),
    (f"{C}.resources", {"limits": {"memory": "4GB"}}, 'limits[memory]: "4GB" is not a quantity; write a number, with a suffix'),
    (f"{C}.resources", {"limits": {"cpu": True}}, "limits[cpu]: must be a whole number, or text in quotes"),
    (f"{C}.ports", [{"containerPort": 70000}], "ports[0].containerPort: must be at most 65535"),
    (f"{C}.ports", [{"name": "x"}], "ports[0].containerPort: Required value"),
    (f"{C}.tty", "yes", "tty: must be true or false"),
    ("template.metadata", {"label": {}}, 'template.metadata.label: unknown field; did you mean "labels"?'),
    ("template.spec.nodeSelector", {"a": 1}, "nodeSelector[a]: must be text, in quotes"),
    ("template.spec.containers", [{"name": "pytorch", "image": "x"}] * 101, "containers: must have at most 100 entries"),
]  # fmt: skip


def changed(path: str, value: Any) -> Manifest:
    manifest = job_manifest(PYTORCH, {"Master": 1, "Worker": 1})
    *parents, last = path.split(".")
    at: Any = manifest["spec"]["pytorchReplicaSpecs"]["Worker"]
    for part in parents:
        at = at[int(part)] if isinstance(at, list) else at.setdefault(part, {})
    at[last] = value
    return manifest


@pytest.mark.parametrize(("path", "value", "says"), CASES, ids=[f"{n}-{case[0]}" for n, case in enumerate(CASES)])
def test_fields_that_an_api_server_refuses_are_errors(path: str, value: Any, says: str) -> None:
    manifest = changed(path, value)
    found = [str(error) for error in field_errors(PYTORCH, manifest)]
    assert any(says in error for error in found), found
    compiled = compile_schema(custom_resource_definition(PYTORCH)["spec"]["versions"][0])
    pruned = deepcopy(manifest)
    assert compiled.prune(pruned) or compiled.validate(pruned), "the embedded server takes it"


def test_the_rest_of_an_object() -> None:
    manifest = job_manifest(MPI, {"Launcher": 1, "Worker": 1})
    assert field_errors(MPI, manifest) == []
    for version in ("v1", "v1alpha2"):
        assert field_errors(MPI, {**manifest, "apiVersion": f"kubeflow.org/{version}"}) == []
    (error,) = field_errors(MPI, {**manifest, "apiVersion": "kubeflow.org/v2"})
    assert str(error) == (
        'apiVersion: "kubeflow.org/v2" has no MPIJob; use kubeflow.org/v2beta1 or kubeflow.org/v1 or kubeflow.org/v1alpha2'
    )
    odd = {**manifest, "specs": {}, "metadata": {**manifest["metadata"], "label": {}, "labels": {"a": 1}}, "status": {"x": 1}}
    assert sorted(str(error) for error in field_errors(MPI, odd)) == [
        'metadata.label: unknown field; did you mean "labels"?',
        "metadata.labels[a]: must be text, in quotes",
        'specs: unknown field; did you mean "spec"?',
    ]
