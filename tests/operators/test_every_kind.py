"""Rules of the library on the jobs of every kind; tests/reconcile has their cases."""

from typing import Any

import pytest

from jobcommon.api.replica import Replica
from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.reconcile import read_job
from jobcommon.reconcile.children import pod_manifest
from jobcommon.testutil import plans
from jobcommon.testutil.builders import job_manifest, replica_spec
from jobcommon.testutil.plans import conditions, creates, deletes, holding, next_pass

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


@KINDS
@pytest.mark.parametrize("policy", [None, "Always", "OnFailure"])
@pytest.mark.parametrize("own", ["no port", "another port", "the port"])
def test_a_template_keeps_its_policy_and_ports_and_gets_those_it_lacks(
    framework: Framework, policy: str | None, own: str
) -> None:
    port = {"name": framework.port_name or "other", "containerPort": framework.port}
    given = {"no port": [], "another port": [{**port, "name": "another"}], "the port": [{**port, "containerPort": 999}]}[own]
    spec = replica_spec(framework, None, policy)
    spec["template"]["spec"]["containers"][0]["ports"] = given
    job = read_job(framework, job_manifest(framework, {**REPLICAS[framework.kind], "Worker": spec}))
    default = next(kind for kind in framework.replica_types if kind.name == "Worker").restart_policy
    assert (job.replica_specs["Worker"].replicas, job.replica_specs["Worker"].restart_policy) == (1, policy or default)
    added = [port] if framework.port_name and own != "the port" else []
    (container, *_) = pod_manifest(framework, job, Replica("Worker", 0))["spec"]["containers"]
    assert container["ports"] == [*given, *added]


@KINDS
def test_a_job_of_every_kind_is_suspended_and_resumed(framework: Framework) -> None:
    """Created suspended, resumed, suspended while it runs, and resumed again."""
    replicas = REPLICAS[framework.kind]
    suspended, manifest = job_manifest(framework, replicas, run_policy={"suspend": True}), job_manifest(framework, replicas)
    job = read_job(framework, manifest)
    pods, running = [job.pod_name(replica) for replica in job.replicas], dict.fromkeys(map(str, job.replicas), "running")

    created = plans.decide(framework, suspended, {})
    assert creates(created) == []
    assert conditions(created)[-1].startswith(f"Suspended=T {framework.kind}Suspended")
    resumed = plans.decide(framework, next_pass(manifest, created), {})
    assert creates(plans.decide(framework, next_pass(manifest, resumed), {})) == pods

    ran = plans.decide(framework, manifest, running)
    assert holding(ran)[-1] == "Running"
    stopped = plans.decide(framework, next_pass(suspended, ran), running)
    assert deletes(plans.decide(framework, next_pass(suspended, stopped), running)) == pods
    resumed = plans.decide(framework, next_pass(manifest, stopped), {})
    assert creates(plans.decide(framework, next_pass(manifest, resumed), {})) == pods
