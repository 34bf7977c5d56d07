"""Where torchrun meets restarts of single replicas, the user is told."""

from typing import Any

import pytest

from jobcommon.diagnosis.torchrun import SCOPE_ADVICE, partial_restarts
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.spec import read_job
from jobcommon.testutil.builders import job_manifest, replica_spec, template

TORCHRUN = ["torchrun", "--nnodes", "2", "train.py"]
# command, workers, run policy, further fields of the spec, whether it is told
CASES: dict[str, tuple[list[str], int, dict[str, Any], dict[str, Any], bool]] = {
    "torchrun": (TORCHRUN, 2, {}, {}, True),
    "as a module": (["python", "-m", "torch.distributed.run", "train.py"], 2, {}, {}, True),
    "in a shell": (["sh", "-c", "exec torchrun train.py"], 2, {"restartScope": "Pod"}, {}, True),
    "one pod": (TORCHRUN, 1, {}, {}, False),
    "all together": (TORCHRUN, 2, {"restartScope": "Job"}, {}, False),
    "elastic": (TORCHRUN, 2, {}, {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 2}}, False),
    "a script": (["python", "train.py"], 2, {}, {}, False),
}


@pytest.mark.parametrize(("command", "workers", "policy", "spec", "told"), CASES.values(), ids=CASES)
def test_torchrun_needs_the_restart_of_all(
    command: list[str], workers: int, policy: dict[str, Any], spec: dict[str, Any], told: bool
) -> None:
    worker = {**replica_spec(PYTORCH, workers), "template": template(PYTORCH, command=command)}
    job = read_job(PYTORCH, job_manifest(PYTORCH, {"Worker": worker}, run_policy=policy, **spec))
    assert not job.errors
    assert partial_restarts(job) == (SCOPE_ADVICE if told else None)


def test_a_spec_with_errors_gets_no_advice() -> None:
    """A job that has begun is planned in spite of them, and its templates may be of any shape."""
    manifest = job_manifest(PYTORCH, {"Master": 1, "Worker": 2})
    for broken in (True, {"spec": True}, {"spec": {"containers": True}}):
        manifest["spec"]["pytorchReplicaSpecs"]["Worker"]["template"] = broken
        assert partial_restarts(read_job(PYTORCH, manifest)) is None
