"""JAXJob: the cases of the reference's tests, and what comes with the library: facts and one function give a whole operator."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from jobcommon.api import labels
from jobcommon.api.observed import Observed
from jobcommon.operators.jax import JAX
from jobcommon.reconcile import Create, plan, read_job
from jobcommon.testutil.builders import START, Pod, job_manifest
from jobcommon.testutil.plans import status_of

COORDINATOR = {"COORDINATOR_PORT": "6666", "COORDINATOR_ADDRESS": "demo-worker-0.demo.default.svc"}


def job_of(replicas: Mapping[str, Any], **options: Any) -> Any:
    """A JAXJob as the controller reads it."""
    return read_job(JAX, job_manifest(JAX, replicas, **options))


def created_pods(replicas: Mapping[str, Any], **options: Any) -> list[Mapping[str, Any]]:
    """The pods that the first plan creates."""
    actions = plan(JAX, job_of(replicas, **options), Observed(), START).actions
    return [a.manifest for a in actions if isinstance(a, Create) and a.plural == "pods"]


def worker(replicas: int, **container: Any) -> dict[str, Any]:
    """A replica spec with a container of those fields."""
    return {"replicas": replicas, "template": {"spec": {"containers": [{"name": "jax", "image": "i", **container}]}}}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            worker(1),
            [{**COORDINATOR, "NUM_PROCESSES": "1", "PROCESS_ID": "0"}],
            id="one process",
        ),
        pytest.param(
            worker(3),
            [
                {**COORDINATOR, "NUM_PROCESSES": "3", "PROCESS_ID": str(i)}
                for i in range(3)
            ],
            id="three processes, ids by index",
        ),
        pytest.param(
            worker(1, ports=[{"name": "jaxjob-port", "containerPort": 7777}]),
            [{"COORDINATOR_PORT": "7777"}],
            id="the port of the template",
        ),
        pytest.param(
            worker(1, env=[{"name": "PYTHONUNBUFFERED", "value": "0"}, {"name": "PROCESS_ID", "value": "9"}]),
            [{"PYTHONUNBUFFERED": "0", "PROCESS_ID": "0"}],
            id="the user's default wins, the cluster's definition does not give way",
        ),
    ],
)  # fmt: skip
def test_processes_get_their_number_and_the_coordinators_address(
    spec: Mapping[str, Any], expected: Sequence[Mapping[str, str]]
) -> None:
    environments = [
        {e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]} for pod in created_pods({"Worker": spec})
    ]
    assert len(environments) == len(expected)
    for environment, wanted in zip(environments, expected, strict=True):
        assert wanted.items() <= environment.items()
        assert environment["PYTHONUNBUFFERED"] in ("0", "1")


def test_the_rest_comes_with_the_library() -> None:
    first, second = created_pods({"Worker": worker(2)})
    assert [p["metadata"]["name"] for p in (first, second)] == ["demo-worker-0", "demo-worker-1"]
    assert first["metadata"]["labels"][labels.OPERATOR_NAME] == "jaxjob-controller"
    assert first["metadata"]["labels"][labels.JOB_ROLE] == "master"
    assert labels.JOB_ROLE not in second["metadata"]["labels"]
    assert first["spec"]["restartPolicy"] == "Never"
    assert first["spec"]["containers"][0]["ports"] == [{"name": "jaxjob-port", "containerPort": 6666}]


@pytest.mark.parametrize(
    ("pods", "state", "reason"),
    [
        pytest.param(("running", "pending"), "Running", "JAXJobRunning", id="one worker running"),
        pytest.param(("succeeded", "running"), "Running", "JAXJobRunning", id="one has succeeded, one runs"),
        pytest.param(("succeeded", "succeeded"), "Succeeded", "JAXJobSucceeded", id="all workers have succeeded"),
        pytest.param(("failed", "running"), "Failed", "JAXJobFailed", id="restartPolicy Never: one failure is final"),
    ],
)
def test_all_workers_decide(pods: Sequence[str], state: str, reason: str) -> None:
    job = job_of({"Worker": worker(2)})
    states = {
        "pending": lambda pod: pod,
        "running": lambda pod: pod.running(at=START + 1),
        "succeeded": lambda pod: pod.running(at=START + 1).succeeded(at=START + 2),
        "failed": lambda pod: pod.running(at=START + 1).failed(1, at=START + 2),
    }
    views = tuple(states[word](Pod.of(JAX, job, "Worker", index)).view for index, word in enumerate(pods))
    status = status_of(plan(JAX, job, Observed(pods=views), START + 3))
    assert (status.conditions[-1].type, status.conditions[-1].reason) == (state, reason)


def test_there_is_at_least_one_worker() -> None:
    assert [error.path for error in job_of({"Worker": worker(0)}).errors] == ["spec.jaxReplicaSpecs[Worker].replicas"]
