"""The `kubeflow-training` SDK as it is on PyPI against the embedded cluster: each call, for each kind it knows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from tests.cli.commands import PATIENCE, Kubectl, cluster_up

# Version 36 of Kubernetes' client changed what the SDK reads, version 37 what it may write (docs/frameworks.md).
WHY = "kubeflow-training works with kubernetes before 36, so it has an environment of its own: make sdk"
training_sdk = pytest.importorskip("kubeflow.training", reason=WHY)
TrainingClient, models = training_sdk.TrainingClient, training_sdk.models
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

WAITING = "echo started; while [ ! -e {flag} ]; do sleep 0.05; done; echo finished"


@dataclass(frozen=True)
class Kind:
    """What the SDK calls the parts of one kind, and the job of these tests in it."""

    name: str
    spec: str
    container: str
    roles: tuple[tuple[str, int], ...]
    leader: str

    @property
    def pods(self) -> list[str]:
        """Their names in the job `sdk`."""
        indexed = [f"sdk-{role.lower()}-{index}" for role, count in self.roles for index in range(count)]
        return sorted(name.replace("launcher-0", "launcher") for name in indexed)

    def job(self, name: str, command: str) -> Any:
        """A job whose leader runs `command`; its other replicas wait to be stopped."""
        specs = {role: self._replicas(role, count, command) for role, count in self.roles}
        specs_field = f"{self.spec}_replica_specs"
        fields = {specs_field: specs, "run_policy": models.KubeflowOrgV1RunPolicy(clean_pod_policy="None")}
        return getattr(models, f"KubeflowOrgV1{self.name}")(
            api_version="kubeflow.org/v1",
            kind=self.name,
            metadata=client.V1ObjectMeta(name=name),
            spec=getattr(models, f"KubeflowOrgV1{self.name}Spec")(**fields),
        )

    def _replicas(self, role: str, count: int, command: str) -> Any:
        shell = ["sh", "-c", command if role == self.leader else "exec sleep 600"]
        container = client.V1Container(name=self.container, image="any", command=shell)
        pod = client.V1PodSpec(containers=[container], termination_grace_period_seconds=1)
        template = client.V1PodTemplateSpec(spec=pod)
        return models.KubeflowOrgV1ReplicaSpec(replicas=count, restart_policy="Never", template=template)


ONE_OF_EACH = (("Master", 1), ("Worker", 1))
KINDS = (
    Kind("PyTorchJob", "pytorch", "pytorch", ONE_OF_EACH, "Master"),
    Kind("TFJob", "tf", "tensorflow", (("PS", 1), ("Worker", 1)), "Worker"),
    Kind("MPIJob", "mpi", "mpi", (("Launcher", 1), ("Worker", 2)), "Launcher"),
    Kind("XGBoostJob", "xgb", "xgboost", ONE_OF_EACH, "Master"),
    Kind("PaddleJob", "paddle", "paddle", ONE_OF_EACH, "Master"),
    Kind("JAXJob", "jax", "jax", (("Worker", 1),), "Worker"),
)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


def wait(training: Any, name: str, condition: str) -> Any:
    return training.wait_for_job_conditions(
        name, expected_conditions={condition}, wait_timeout=PATIENCE, polling_interval=0.2
    )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_life_of_a_job(kubectl: Kubectl, tmp_path: Path, kind: Kind, capsys: pytest.CaptureFixture[str]) -> None:
    training = TrainingClient(config_file=str(kubectl.kubeconfig), job_kind=kind.name)
    flag, leader = tmp_path / "flag", f"sdk-{kind.leader.lower()}"
    leader = next(pod for pod in kind.pods if pod.startswith(leader))
    training.create_job(kind.job("sdk", WAITING.format(flag=flag)))
    with pytest.raises(RuntimeError, match="Failed to create"):
        training.create_job(kind.job("sdk", "true"))

    wait(training, "sdk", "Running")
    # The status is complete when all replicas run: `update_job` below is refused if the operator writes after `get_job`.
    for role, count in kind.roles:
        active = f"jsonpath={{.status.replicaStatuses.{role}.active}}"
        kubectl.until(str(count), "get", kind.name, "sdk", "-o", active)
    assert training.is_job_created("sdk")
    assert training.is_job_running("sdk")
    assert not any(ask("sdk") for ask in (training.is_job_restarting, training.is_job_succeeded, training.is_job_failed))
    job = training.get_job("sdk")
    assert type(job).__name__ == f"KubeflowOrgV1{kind.name}"
    assert job.status.replica_statuses[kind.leader].active == 1
    assert [item.metadata.name for item in training.list_jobs()] == ["sdk"]
    assert sorted(training.get_job_pod_names("sdk")) == kind.pods
    assert training.get_job_pod_names("sdk", is_master=True) == [leader]
    by_type = training.get_job_pods("sdk", replica_type=kind.leader.lower(), replica_index=0)
    assert [pod.metadata.name for pod in by_type] == [leader]

    # The SDK patches with the whole job, as it read it.
    job.spec.run_policy.backoff_limit = 3
    training.update_job(job, "sdk")
    assert training.get_job("sdk").spec.run_policy.backoff_limit == 3

    flag.touch()
    logs, _ = training.get_job_logs("sdk", follow=True)
    assert logs == {leader: "startedfinished"}, "the SDK joins the lines it follows without line ends"
    assert f"[Pod {leader}]: finished" in capsys.readouterr().out
    done = wait(training, "sdk", "Succeeded")
    assert done.status.completion_time is not None
    assert training.is_job_succeeded("sdk")
    assert not any(ask("sdk") for ask in (training.is_job_restarting, training.is_job_running, training.is_job_failed))
    found = {condition.type: condition.status for condition in training.get_job_conditions("sdk")}
    assert found == {"Created": "True", "Running": "False", "Succeeded": "True"}
    kubectl.told(kind.name, "sdk", f"{kind.name}Succeeded")
    logs, events = training.get_job_logs("sdk", verbose=True)
    assert logs == {leader: "started\nfinished\n"}
    assert any("Created pod: " in line and leader in line for line in events[f"{kind.name.lower()}/sdk"])

    training.delete_job("sdk")
    kubectl.until_gone("pods,services", "-l", "training.kubeflow.org/job-name=sdk")
    assert training.list_jobs() == []
    with pytest.raises(RuntimeError, match="Failed to get"):
        training.get_job("sdk")


def test_a_job_that_fails(kubectl: Kubectl) -> None:
    training = TrainingClient(config_file=str(kubectl.kubeconfig))
    training.create_job(KINDS[0].job("fails", "exit 3"))
    with pytest.raises(RuntimeError, match="is Failed"):
        wait(training, "fails", "Succeeded")
    wait(training, "fails", "Failed")
    assert training.is_job_failed("fails")


def test_a_job_from_a_function(kubectl: Kubectl) -> None:
    """The SDK's own way to make a job: it starts torchrun on the function's source, or python for a single process."""

    def train(parameters: dict[str, str]) -> None:
        import os

        print(f"{parameters['word']} from rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")

    training = TrainingClient(config_file=str(kubectl.kubeconfig))
    training.create_job(name="function", train_func=train, parameters={"word": "hello"}, num_workers=1)
    wait(training, "function", "Succeeded")
    logs, _ = training.get_job_logs("function")
    assert logs["function-master-0"].splitlines()[-1] == "hello from rank 0 of 1"
