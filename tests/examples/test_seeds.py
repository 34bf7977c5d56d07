"""The manifests of the documents this project comes from, and what a person sees of them with kubectl."""

import asyncio
import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobcommon.testutil.polling import polled
from tests.cli.commands import PATIENCE, ROOT, Kubectl, cluster_up

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

SEEDS = "examples/seeds"
NO_MPI = [] if shutil.which("mpirun") else ["mpirun"]
NO_MPI += [] if importlib.util.find_spec("mpi4py") else ["mpi4py"]
AGE = re.compile(r"(?<= )(\d+[smh])+$", re.MULTILINE)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up")) as kubectl:
        yield kubectl


@pytest.fixture
def kubectl(cluster: Kubectl) -> Iterator[Kubectl]:
    yield cluster
    # What else there is changes the widths of kubectl's columns.
    cluster("delete", "tfjobs,pytorchjobs,mpijobs", "--all")
    cluster.until_gone("pods,services", "-l", "training.kubeflow.org/job-name")


def masked(output: str) -> str:
    """The output without the ages, which differ from run to run."""
    return AGE.sub("<age>", output)


def grep(output: str, pattern: str) -> str:
    """What `| grep pattern` leaves."""
    return "".join(line for line in output.splitlines(keepends=True) if pattern in line)


def until_pods(kubectl: Kubectl, job: str, wanted: str) -> None:
    """`kubectl get pod | grep job` shows what is wanted, ages aside."""

    async def shown() -> str:
        return masked(grep(kubectl("get", "pod"), job))

    asyncio.run(polled(shown, lambda seen: seen == wanted))


def wait(kubectl: Kubectl, job: str, condition: str) -> None:
    kubectl("wait", f"--for=condition={condition}", job, f"--timeout={PATIENCE:.0f}s")


def conditions(kubectl: Kubectl, job: str) -> list[str]:
    path = '{range .status.conditions[*]}{.type}={.status} {.reason} "{.message}"{"\\n"}{end}'
    return kubectl("get", job, "-o", f"jsonpath={path}").splitlines()


def in_order(text: str, *parts: str) -> bool:
    """Whether the parts are all there, one after the other."""
    return re.search(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None


def test_the_blogs_job(kubectl: Kubectl) -> None:
    name = "mnist-tensorflow-job"
    assert kubectl("apply", "-f", f"{SEEDS}/{name}/{name}.yaml") == f"tfjob.kubeflow.org/{name} created\n"
    wait(kubectl, f"tfjob/{name}", "Succeeded")
    assert masked(kubectl("get", "tfjob", name)).splitlines()[1] == f"{name}   Succeeded   <age>"
    until_pods(kubectl, name, f"{name}-worker-0   0/1     Completed   0          <age>\n")
    assert kubectl("logs", f"{name}-worker-0") == "worker 0 of 2\nafter 60 steps: 3.00\n"
    assert [line.split(" ")[0] for line in conditions(kubectl, f"tfjob/{name}")] == [
        "Created=True", "Running=False", "Succeeded=True",
    ]  # fmt: skip
    kubectl.told("TFJob", name, "TFJobSucceeded")
    said = kubectl("describe", "tfjob", name)
    assert in_order(said, "API Version:  kubeflow.org/v1", "Kind:         TFJob", "Tf Replica Specs:", "Replicas:        1")
    assert in_order(said, "Type:                  Created", "Type:                  Succeeded")
    assert in_order(said, "Events:", f"Created pod: {name}-ps-0", "TFJobSucceeded")


def test_the_notebooks_tfjob(kubectl: Kubectl, tmp_path: Path) -> None:
    name, seen = "distributed-tensorflow-job", tmp_path / "seen"
    manifest = (ROOT / SEEDS / name / f"{name}.yaml").read_text(encoding="utf-8")
    # Its few seconds are as many as it takes to see it run.
    loop = "while step < STEPS or "
    assert loop in manifest
    created = kubectl("create", "-f", "-", stdin=manifest.replace(loop, f"{loop}not os.path.exists('{seen}') or "))
    assert created == f"tfjob.kubeflow.org/{name} created\n"
    until_pods(
        kubectl, name,
        f"{name}-ps-0       1/1     Running   0          <age>\n"
        f"{name}-ps-1       1/1     Running   0          <age>\n"
        f"{name}-worker-0   1/1     Running   0          <age>\n"
        f"{name}-worker-1   1/1     Running   0          <age>\n"
        f"{name}-worker-2   1/1     Running   0          <age>\n"
        f"{name}-worker-3   1/1     Running   0          <age>\n",
    )  # fmt: skip
    wait(kubectl, f"tfjob/{name}", "Running")
    annotation = r"jsonpath={.metadata.annotations.sidecar\.istio\.io/inject}"
    assert kubectl("get", "pod", f"{name}-ps-1", "-o", annotation) == "false"
    assert grep(kubectl("get", "tfjob"), name).split()[:2] == [name, "Running"]
    # It blocks until the job is over.
    following = kubectl.start("logs", "-f", f"{name}-worker-0")
    seen.touch()
    followed, _ = following.communicate(timeout=PATIENCE)
    assert followed == "worker 0 of 4\nafter 100 steps: 3.00 4.00\n"
    wait(kubectl, f"tfjob/{name}", "Succeeded")
    assert kubectl("logs", f"{name}-worker-0") == followed
    assert conditions(kubectl, f"tfjob/{name}") == [
        f'Created=True TFJobCreated "TFJob {name} is created."',
        f'Running=False TFJobRunning "TFJob default/{name} is running."',
        f'Succeeded=True TFJobSucceeded "TFJob default/{name} successfully completed."',
    ]


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="not installed: torch (pip install 'jobcommon[examples]', or make setup)"
)
def test_the_notebooks_pytorchjob(kubectl: Kubectl) -> None:
    name = "distributed-pytorch-job"
    manifest = f"{SEEDS}/{name}/{name}.yaml"
    assert kubectl("apply", "-f", manifest) == f"pytorchjob.kubeflow.org/{name} created\n"
    assert kubectl("apply", "-f", manifest) == f"pytorchjob.kubeflow.org/{name} unchanged\n"
    wait(kubectl, f"pytorchjob/{name}", "Running")
    # Among other lines: torch may warn of a connection that it tries again.
    assert "gloo: process 0 of 3: sum 6" in kubectl("logs", "-f", f"{name}-master-0").splitlines()
    wait(kubectl, f"pytorchjob/{name}", "Succeeded")
    assert masked(kubectl("get", "pytorchjob", name)).splitlines()[1] == f"{name}   Succeeded   <age>"
    kubectl.told("PyTorchJob", name, "PyTorchJobSucceeded")
    assert in_order(kubectl("describe", "pytorchjob", name), f"Created pod: {name}-master-0", "PyTorchJobSucceeded")


def test_the_slides_tfjob(kubectl: Kubectl) -> None:
    name, kind = "distributed-training", "tfjobs.v1beta1.kubeflow.org"
    created = kubectl("apply", "-f", f"{SEEDS}/slides-tfjob/distributed-training.yaml")
    assert created == f"tfjob.kubeflow.org/{name} created\n"
    wait(kubectl, f"{kind}/{name}", "Succeeded")
    assert masked(kubectl("get", kind, name)).splitlines()[1] == f"{name}   Succeeded   <age>"
    assert kubectl("logs", f"{name}-worker-0") == "worker 0 of 4: sum 6\n"
    limit = r"jsonpath={.spec.containers[0].resources.limits.nvidia\.com/gpu}"
    assert kubectl("get", "pod", f"{name}-worker-0", "-o", limit) == "4"


@pytest.mark.skipif(bool(NO_MPI), reason=f"not installed: {', '.join(NO_MPI)} (apt: openmpi-bin, pip: mpi4py)")
def test_the_slides_mpijob(kubectl: Kubectl) -> None:
    name = "distributed-training"
    kind = "mpijobs.v1alpha2.kubeflow.org"
    created = kubectl("apply", "-f", f"{SEEDS}/slides-mpijob/{name}.yaml")
    assert created == f"mpijob.kubeflow.org/{name} created\n"
    wait(kubectl, f"{kind}/{name}", "Succeeded")
    assert masked(kubectl("get", kind, name)) == (
        "NAME                   STATE       AGE\n"
        "distributed-training   Succeeded   <age>\n"
    )  # fmt: skip
    until_pods(kubectl, name, f"{name}-launcher   0/1     Completed   0          <age>\n")
    hosts = " ".join(f"{name}-worker-{index}" for index in range(4))
    # Among other lines: Open MPI may warn of what it finds on this machine.
    assert f"4 ranks on {hosts}: sum 6" in kubectl("logs", f"{name}-launcher").splitlines()
    # The launcher does no work on GPUs and asks for none.
    assert "nvidia.com/gpu" not in kubectl("get", "pod", f"{name}-launcher", "-o", "yaml")
    assert kubectl("get", kind, name, "-o", "jsonpath={.spec.mpiReplicaSpecs.Launcher}") == "", "the manifest stays as it was"
