"""The SDK of Kubeflow Trainer as it is on PyPI against the embedded cluster: each call of `TrainerClient`."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.architecture.source import ROOT
from tests.cli.commands import PATIENCE, Kubectl, cluster_up
from tests.docs.blocks import blocks

WHY = "kubeflow works with kubernetes before 36, so it has an environment of its own: make sdk"
trainer_sdk = pytest.importorskip("kubeflow.trainer", reason=WHY)
options: Any = importlib.import_module("kubeflow.trainer.options")
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]
#: The interpreter of the pods, which has PyTorch; that of this environment has not.
PODS = ROOT / ".venv" / "bin" / "python"
SECONDS = int(PATIENCE)
PYTHON = str(PODS if PODS.exists() else sys.executable)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with cluster_up(tmp_path_factory.mktemp("up"), "--framework", "trainjob", "--python", PYTHON) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def client(kubectl: Kubectl) -> Any:
    backend = trainer_sdk.KubernetesBackendConfig(config_file=str(kubectl.kubeconfig), namespace="default")
    return trainer_sdk.TrainerClient(backend)


def lines(client: Any, name: str, step: str = "node-0", **how: Any) -> list[str]:
    return "\n".join(client.get_job_logs(name, step=step, **how)).splitlines()


def finished(client: Any, name: str, *status: str) -> Any:
    return client.wait_for_job_status(name, status={*(status or ("Complete",))}, timeout=SECONDS, polling_interval=1)


def train(word: str) -> None:
    """What the SDK is to run: its source is sent."""
    import os

    torch, jax = ["RANK", "WORLD_SIZE"], ["JAX_PROCESS_ID", "JAX_NUM_PROCESSES"]
    others = ["DMLC_TASK_ID", "DMLC_NUM_WORKER", "OMPI_COMM_WORLD_RANK"]
    found = {name: os.environ[name] for name in (*torch, *jax, *others) if name in os.environ}
    print(word, *(f"{name}={value}" for name, value in found.items()), flush=True)


def test_the_runtimes_of_this_machine(client: Any, capfd: pytest.CaptureFixture[str]) -> None:
    found = {runtime.name: runtime for runtime in client.list_runtimes()}
    assert {"torch-distributed", "jax-distributed", "xgboost-distributed", "plain", "mpi-distributed"} <= found.keys()
    runtime = client.get_runtime("torch-distributed")
    assert runtime.trainer.framework == "torch"
    client.get_runtime_packages(client.get_runtime("plain"))
    assert "pip" in capfd.readouterr().out.lower()
    assert client.list_jobs() == []


#: by runtime, what the first two of its processes print after the word
FUNCTIONS = {
    "torch-distributed": ("RANK=0 WORLD_SIZE=2", "RANK=1 WORLD_SIZE=2"),
    "jax-distributed": ("JAX_PROCESS_ID=0 JAX_NUM_PROCESSES=2", "JAX_PROCESS_ID=1 JAX_NUM_PROCESSES=2"),
    "xgboost-distributed": ("DMLC_TASK_ID=0 DMLC_NUM_WORKER=2", "DMLC_TASK_ID=1 DMLC_NUM_WORKER=2"),
    "plain": ("", ""),
    "tensorflow-distributed": ("", ""),
}


@pytest.mark.parametrize(("runtime", "printed"), FUNCTIONS.items(), ids=FUNCTIONS)
def test_a_function_on_two_nodes(client: Any, kubectl: Kubectl, runtime: str, printed: tuple[str, str]) -> None:
    if runtime == "torch-distributed" and subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
        pytest.skip(f"{PYTHON} has no torch")
    trainer = trainer_sdk.CustomTrainer(func=train, func_args={"word": "hello"}, num_nodes=2)
    name = client.train(trainer=trainer, runtime=client.get_runtime(runtime))
    assert [job.name for job in client.list_jobs()] == [name]
    finished(client, name, "Running", "Complete")
    followed = lines(client, name, follow=True)
    job = finished(client, name)
    assert job.status == "Complete"
    assert [(step.name, step.status) for step in job.steps] == [("node-0", "Succeeded"), ("node-1", "Succeeded")]
    assert f"hello {printed[0]}".strip() in followed
    assert f"hello {printed[1]}".strip() in lines(client, name, step="node-1")
    assert any(event.reason == "TrainJobSucceeded" for event in client.get_job_events(name))
    client.delete_job(name)
    kubectl.until_gone("pods,services,configmaps", "-l", f"training.kubeflow.org/job-name={name}")
    assert client.list_jobs() == []


MPI = "needs mpirun, sshd and root: openmpi-bin, openssh-server"


@pytest.mark.skipif(shutil.which("mpirun") is None or os.geteuid() != 0, reason=MPI)
def test_a_function_by_mpirun(client: Any) -> None:
    trainer = trainer_sdk.CustomTrainer(func=train, func_args={"word": "hello"}, num_nodes=2)
    name = client.train(trainer=trainer, runtime=client.get_runtime("mpi-distributed"))
    finished(client, name)
    found = sorted(line for line in lines(client, name) if line.startswith("hello"))
    assert found == ["hello OMPI_COMM_WORLD_RANK=0", "hello OMPI_COMM_WORLD_RANK=1"]
    client.delete_job(name)


def _code(document: str) -> str:
    if document.endswith(".md"):
        return "\n".join(block.text for block in blocks() if block.document.name == document and block.language == "python")
    cells = json.loads((ROOT / "docs/notebooks" / document).read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


@pytest.mark.parametrize("document", ["kubeflow-sdk.md", "kubeflow-sdk.ipynb"])
def test_the_code_of_the_documents(kubectl: Kubectl, document: str) -> None:
    """From a file, as from a notebook: the SDK sends the source of a function."""
    (page := kubectl.kubeconfig.parent / "page.py").write_text(_code(document))
    environment = {**os.environ, "KUBECONFIG": str(kubectl.kubeconfig)}
    argv = [sys.executable, str(page)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert "torch-distributed torch" in done.stdout
    assert "[('node-0', 'Succeeded'), ('node-1', 'Succeeded')]\nnode 1 of 2: round 0\nnode 1 of 2: round 1" in done.stdout
    assert "TrainJobSucceeded" in done.stdout


def test_a_container_with_options(client: Any, kubectl: Kubectl) -> None:
    """The SDK's options: a name, labels, annotations by which a runPolicy is set, a deadline, a patch of the runtime."""
    trainer = trainer_sdk.CustomTrainerContainer(image="any", num_nodes=1)
    patched = options.PodTemplatePatch(spec=options.PodSpecPatch(node_selector={"kubernetes.io/os": "linux"}))
    job_patch = options.JobTemplatePatch(spec=options.JobSpecPatch(template=patched))
    roles = [options.ReplicatedJobPatch(name="node", template=job_patch)]
    template = options.JobSetTemplatePatch(spec=options.JobSetSpecPatch(replicated_jobs=roles))
    chosen = [
        options.Name("chosen"),
        options.Labels({"team": "ml"}),
        options.Annotations({"training.kubeflow.org/run-policy.backoffLimit": "0"}),
        options.ActiveDeadlineSeconds(500),
        options.TrainerCommand(["sh", "-c", "echo tried; exit 3"]),
        options.RuntimePatch(training_runtime_spec=options.TrainingRuntimeSpecPatch(template=template)),
    ]
    assert client.train(trainer=trainer, runtime="plain", options=chosen) == "chosen"
    with pytest.raises(RuntimeError, match=r"(?i)fail"):
        finished(client, "chosen")
    assert finished(client, "chosen", "Failed").status == "Failed"
    assert lines(client, "chosen") == ["tried"]
    assert kubectl("get", "trainjob", "chosen", "-o", "jsonpath={.spec.runtimePatches[0].time}")
    assert kubectl("get", "pod", "chosen-node-0-0", "-o", "jsonpath={.spec.nodeSelector}") == '{"kubernetes.io/os":"linux"}'
    client.delete_job("chosen")


def test_a_program_reports_its_progress_by_the_sdk(client: Any, kubectl: Kubectl) -> None:
    """To the server of the operator, by the path and the audience of Trainer's."""
    program = "from kubeflow.trainer import update_trainjob_status as report; assert report(40, metrics={'loss': 0.5})"
    command = options.TrainerCommand([sys.executable, "-c", program])
    trainer = trainer_sdk.CustomTrainerContainer(image="any", num_nodes=1)
    name = client.train(trainer=trainer, runtime="plain", options=[command])
    assert finished(client, name).status == "Complete"
    kubectl.until("40", "get", "trainjob", name, "-o", "jsonpath={.status.trainerStatus.progressPercentage}")
    client.delete_job(name)
