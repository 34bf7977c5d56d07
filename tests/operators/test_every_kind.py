"""Rules of the library on the jobs of every kind; tests/reconcile has their cases."""

from typing import Any

import pytest

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.testutil.builders import job_manifest

JOBS: list[tuple[Framework, dict[str, int]]] = [
    (JAX, {"Worker": 2}),
    (MPI, {"Launcher": 1, "Worker": 2}),
    (MXNET, {"Scheduler": 1, "Server": 1, "Worker": 2}),
    (PADDLE, {"Master": 1, "Worker": 1}),
    (PYTORCH, {"Master": 1, "Worker": 1}),
    (TF, {"Chief": 1, "PS": 1, "Worker": 1}),
    (XGBOOST, {"Master": 1, "Worker": 1}),
]
REPLICAS = {framework.kind: replicas for framework, replicas in JOBS}
KINDS = pytest.mark.parametrize("framework", [framework for framework, _ in JOBS], ids=lambda framework: framework.kind)

#: what is wrong with a job, and the field that the error names; {specs} is the kind's field for its replica specs
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "its name": ({"name": "0test"}, "metadata.name"),
    "no replica specs": ({"specs": {}}, "spec.{specs}"),
    "an unknown replica type": ({"Robot": {}}, "spec.{specs}[Robot]"),
    "no containers": ({"containers": []}, "spec.{specs}[Worker].template.spec.containers"),
    "no image": ({"image": ""}, "spec.{specs}[Worker].template.spec.containers[0].image"),
    "the name of the main container": ({"container": "other"}, "spec.{specs}[Worker].template.spec.containers"),
}


@KINDS
@pytest.mark.parametrize(("wrong", "path"), WRONG.values(), ids=WRONG)
def test_an_error_names_the_field_of_the_kind(framework: Framework, wrong: dict[str, Any], path: str) -> None:
    manifest = job_manifest(framework, REPLICAS[framework.kind], name=wrong.get("name", "demo"))
    specs = manifest["spec"][framework.replica_specs]
    pod = specs["Worker"]["template"]["spec"]
    pod["containers"][0] |= {"image": wrong.get("image", "i"), "name": wrong.get("container", pod["containers"][0]["name"])}
    pod["containers"] = wrong.get("containers", pod["containers"])
    specs |= {kind: spec for kind, spec in wrong.items() if kind == "Robot"}
    manifest["spec"][framework.replica_specs] = wrong.get("specs", specs)
    any_name_will_do = "container" in wrong and not framework.container
    expected = [] if any_name_will_do else [path.format(specs=framework.replica_specs)]
    assert [error.path for error in read_job(framework, manifest).errors] == expected


@KINDS
def test_replica_types_are_read_in_any_spelling(framework: Framework) -> None:
    for spelt in (str.lower, str.upper):
        job = read_job(framework, job_manifest(framework, {spelt(kind): n for kind, n in REPLICAS[framework.kind].items()}))
        assert (job.errors, set(job.replica_specs)) == ((), set(REPLICAS[framework.kind]))
