"""What becomes of polyaxonfiles: parts of their manifests, whole golden documents, and findings."""

import os
from collections.abc import Mapping
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.cli.convert import ConvertError, convert
from jobcommon.cli.yaml_scalars import as_yaml
from jobcommon.framework import Framework
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.spec import read_job

DIRECTORY = Path(__file__).parent.parent / "golden" / "polyaxon"
FRAMEWORKS: dict[str, Framework] = {framework.kind: framework for framework in (TF, PYTORCH, MPI, MXNET)}
# A document that nothing is wrong with, to be changed by the cases.
PLAIN = {"version": 1, "build": {"image": "img"}, "run": {"cmd": "go"}}


def converted(document: str | Mapping[str, Any], **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Manifest and warnings; if it is that of a training job, the operator finds nothing wrong with it."""
    conversion = convert(yaml.safe_load(document) if isinstance(document, str) else document, **options)
    manifest = dict(conversion.manifest)
    if manifest["kind"] != "Job":
        assert read_job(FRAMEWORKS[manifest["kind"]], manifest).errors == ()
    return manifest, [str(warning) for warning in conversion.warnings]


def changed(**sections: Any) -> dict[str, Any]:
    return {**PLAIN, **sections}


def tasks(framework: str = "tensorflow", **replicas: Any) -> dict[str, Any]:
    return changed(framework=framework, environment={"replicas": {"n_workers": 2, **replicas}})


def flat(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "command": ["mpirun", "x"]}]}}
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    return {**body, "spec": {"template": template, **spec}}


def resources(given: dict[str, Any]) -> dict[str, Any]:
    return changed(framework="pytorch", environment={"resources": given})


def command(cmd: Any, **params: Any) -> dict[str, Any]:
    given = params or {"flag": True, "many": [1, 2]}
    return changed(framework="pytorch", params={"program": "python", "lr": 0.1, **given}, run={"cmd": cmd})


def ring(cmd: Any = "go", gpus: int | None = None) -> dict[str, Any]:
    given = {} if gpus is None else {"resources": {"gpu": {"requests": gpus, "limits": gpus}}}
    return changed(name="exp", framework="horovod", run={"cmd": cmd}, environment={**given, "replicas": {"n_workers": 1}})


def restarts(own: int | None, default: int | None) -> dict[str, Any]:
    limits = [{} if limit is None else {"max_restarts": limit} for limit in (own, default)]
    return changed(framework="pytorch", environment={**limits[0], "replicas": {"n_workers": 1, "default_worker": limits[1]}})


GPU = "nvidia.com/gpu"
MASTER = "pytorchReplicaSpecs/Master/template/spec/containers/0"
LAUNCHER = "mpiReplicaSpecs/Launcher/template/spec/containers/0"
WORKER = "mpiReplicaSpecs/Worker/template/spec/containers/0"
START = "mpirun --allow-run-as-root -np 2 --tag-output --default-hostfile none -H localhost:1,exp-worker-0.exp:1"
WITH_GPUS = "mpirun --allow-run-as-root -np 8 -x LD_LIBRARY_PATH --tag-output --default-hostfile none"
RESOURCES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"memory": {"requests": 256, "limits": 1024}}, {"requests": {"memory": "256Mi"}, "limits": {"memory": "1024Mi"}}),
    ({"memory": {"limits": 0.5}}, {"limits": {"memory": "0.5Mi"}}),
    ({"memory": {"limits": "2Gi"}}, {"limits": {"memory": "2Gi"}}),
    ({"cpu": {"requests": 1e-05, "limits": "500m"}}, {"requests": {"cpu": "0.00001"}, "limits": {"cpu": "500m"}}),
    ({"gpu": {"request": 1}}, {"requests": {GPU: "1"}, "limits": {GPU: "1"}}),
    ({"gpu": {"limits": "2"}}, {"requests": {GPU: "2"}, "limits": {GPU: "2"}}),
    ({"gpu": {"requests": 0, "limits": 0}}, None),
    (
        {"limits": {"cpu": 1, "memory": 64}, "requests": {"cpu": 1}},
        {"requests": {"cpu": "1"}, "limits": {"cpu": "1", "memory": "64Mi"}},
    ),
]
COMMANDS: list[tuple[Any, str]] = [
    ("python run.py \\\n  --lr 1 \\\n  --steps 2\n", "python run.py --lr 1 --steps 2"),
    ("python run.py\n  --lr 1", "python run.py --lr 1"),
    (["pip list", "python run.py"], "pip list && python run.py"),
    ("{{ program }} --lr={{ lr }} {{lr}}", "python --lr=0.1 0.1"),
    ("{{ params.program }}", "python"),
    ("echo {{ flag }} {{ many }}", "echo True [1, 2]"),
    ("echo '{ not }' ${HOME}", "echo '{ not }' ${HOME}"),
]
# Every rank runs the whole command.
OF_RANKS: list[tuple[Any, str]] = [
    ("python train.py --lr 0.1", "python train.py --lr 0.1"),
    ("python train.py 'a;b'", "python train.py 'a;b'"),
    (["pip list", "python train.py"], "/bin/bash -c 'pip list && python train.py'"),
    ("A=1 python train.py", "/bin/bash -c 'A=1 python train.py'"),
    ("python train.py | tee log", "/bin/bash -c 'python train.py | tee log'"),
    ("echo \"it's", "/bin/bash -c 'echo \"it'\"'\"'s'"),
]
RESTARTS = [
    (0, None, ("Never", "Never"), None),
    (3, None, ("OnFailure", "OnFailure"), 3),
    (None, 2, ("Never", "OnFailure"), 2),
    (1, 5, ("OnFailure", "OnFailure"), 5),
]
SIZES: list[tuple[dict[str, Any], int, dict[str, Any] | None, int]] = [
    ({"gpus": 16, "gpusPerNode": 8}, 2, {"limits": {GPU: "8"}}, 8),
    ({"gpus": 4, "gpusPerNode": 8}, 1, {"limits": {GPU: "4"}}, 4),
    ({"gpus": 2}, 2, {"limits": {GPU: "1"}}, 1),
    ({"processingUnits": 8, "processingUnitsPerNode": 4, "slotsPerWorker": 2}, 2, {"limits": {GPU: "4"}}, 2),
    ({"replicas": 3}, 3, None, 1),
]
# A document, and by path below the spec what is there.
PARTS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    *((resources(given), {f"{MASTER}/resources": wanted}) for given, wanted in RESOURCES),
    *((command(cmd), {f"{MASTER}/args": [line], f"{MASTER}/command": ["/bin/bash", "-c"]}) for cmd, line in COMMANDS),
    ({**tasks("pytorch", n_workers="{{ n }}"), "params": {"n": 3}}, {"pytorchReplicaSpecs/Worker/replicas": 3}),
    # Kubernetes puts variables in for $(NAME), and a $ for $$.
    (command("go", price="$(A)"), {f"{MASTER}/env/2/value": '{"program": "python", "lr": 0.1, "price": "$$(A)"}'}),
    *((ring(cmd), {f"{LAUNCHER}/args": [f"{START} {program}"], "slotsPerWorker": 1}) for cmd, program in OF_RANKS),
    # A process for each GPU. Polyaxon crashed for a master without an entry for them.
    (ring(gpus=0), {f"{LAUNCHER}/args": [f"{START} go"], "slotsPerWorker": 1}),
    (ring(gpus=4), {f"{LAUNCHER}/args": [f"{WITH_GPUS} -H localhost:4,exp-worker-0.exp:4 go"], "slotsPerWorker": 4}),
    *(
        (restarts(own, default), {"pytorchReplicaSpecs/Master/restartPolicy": master,
         "pytorchReplicaSpecs/Worker/restartPolicy": worker, "runPolicy/backoffLimit": limit})
        for own, default, (master, worker), limit in RESTARTS
    ),
    *(
        (flat(**spec), {"mpiReplicaSpecs/Worker/replicas": workers, "slotsPerWorker": slots, f"{WORKER}/resources": given,
         f"{LAUNCHER}/resources": None})
        for spec, workers, given, slots in SIZES
    ),
]  # fmt: skip


def part(body: Any, path: str) -> Any:
    """What is at the path, None if nothing is."""
    return reduce(
        lambda found, key: found[int(key)] if isinstance(found, list) else (found or {}).get(key), path.split("/"), body
    )


@pytest.mark.parametrize(("document", "parts"), PARTS)
def test_parts_of_the_manifest(document: dict[str, Any], parts: dict[str, Any]) -> None:
    spec = converted(document)[0]["spec"]
    assert {path: part(spec, path) for path in parts} == parts


# -- Whole documents and what becomes of them, for people to read and to compare. ``make golden`` writes the manifests anew

NAMES = sorted(path.name.removesuffix(".polyaxon.yml") for path in DIRECTORY.glob("*.polyaxon.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_document_becomes_manifest(name: str) -> None:
    document = (DIRECTORY / f"{name}.polyaxon.yml").read_text(encoding="utf-8")
    manifest, warnings = converted(document, fallback=name, image="given" if name == "g0-flat" else None)
    text = "".join(f"# warning: {warning}\n" for warning in warnings) + as_yaml(manifest)
    path = DIRECTORY / f"{name}.manifest.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# -- What cannot be honoured is an error or a warning that names the field; nothing is dropped in silence


def _message(value: object) -> str:
    return value if isinstance(value, str) else ""


ERRORS = [
    ({"version": 1, "run": {"cmd": "c"}}, "build.image: is required: name an image there or with --image"),
    (changed(run={"cmd": {"a": 1}}), "run.cmd: must be a shell line"),
    (changed(run={"cmd": "c", "image": "j"}), "run.image: the image is given twice"),
    (changed(build={"image": "i", "build_steps": ["pip"]}), "build.build_steps: cannot run here"),
    (changed(matrix={"lr": {"values": [1]}}), "matrix: describes many experiments"),
    (changed(backend="slurm"), "backend: slurm is not supported: use one of native, kubeflow, mpi, other"),
    (
        changed(environment={"tensorflow": {"n_workers": 1}, "mxnet": {"n_workers": 1}}),
        "environment: only one framework can be used; there are tensorflow, mxnet",
    ),
    (changed(environment={"replicas": {"n_workers": 1}}), "framework: is required for distributed experiments"),
    (tasks("caffe"), "framework: `caffe` is not supported for distributed experiments"),
    (
        changed(framework="mxnet", environment={"tensorflow": {"n_workers": 1}}),
        "framework: mxnet is not the one under environment, which is tensorflow",
    ),
    (tasks("pytorch", n_ps=1), "pytorch has no parameter servers"),
    (tasks("mxnet", n_workers=0, n_ps=1), "servers without workers"),
    (changed(backend="mpi"), "environment.replicas.n_workers: is required for an MPI job"),
    (tasks(n_workers=10**6), "environment.replicas.n_workers: must be a whole number from 0 to 1000"),
    (tasks(worker=[{"labels": {"a": "b"}}]), "environment.replicas.worker[0]: index: is required"),
    (
        tasks(worker=[{"index": 1, "labels": {"a": "b"}}, {"index": 1, "labels": {"a": "c"}}]),
        "environment.replicas.worker[1]: labels is given twice for the same task",
    ),
    (
        tasks(default_worker={"resources": {"cpu": {"limits": 1}}}, default_worker_resources={"cpu": {"limits": 1}}),
        "resources is given twice",
    ),
    (
        changed(environment={"resources": {"memory": {"limits": "a lot"}}}),
        "environment.resources.memory.limits: must be a number of MiB, or text with a unit such as 2Gi, 0 or more",
    ),
    (
        changed(environment={"resources": {"gpu": {"limits": 0.5}}}),
        "environment.resources.gpu.limits: must be a number of whole devices",
    ),
    (
        changed(environment={"resources": {"cpu": {"limits": 1}, "limits": {"cpu": 2}}}),
        "environment.resources.cpu.limits: cpu limits are given twice",
    ),
    (changed(run={"cmd": "x {{ lr }}"}), 'run.cmd: "{{ lr }}" names no param (there are: none)'),
    (changed(params={"a": 1}, run={"cmd": "{{ a + 1 }}"}), "is more than a name"),
    (changed(run={"cmd": "{% if a %}x{% endif %}"}), "run.cmd: conditions and loops in braces"),
    (changed(params={"a": {"ref": "runs.1", "value": "outputs.x"}}), "params.a: a reference to another run"),
    (changed(environment={"n_workers": 1, "nWorkers": 2}), "environment.nWorkers: is given twice"),
    (changed(termination={"max_retries": 1}, environment={"max_restarts": 2}), "environment.max_restarts says the same"),
    ({"kind": "component", "version": 1.1, "run": {"kind": "tfjob"}}, "kind: belongs to Polyaxon 1.0 or later"),
    (flat(), "spec: needs exactly one of gpus, processingUnits and replicas; there is none"),
    (flat(gpus=6, gpusPerNode=4), "spec.gpus: 6 must be a multiple"),
]


@pytest.mark.parametrize(("document", "message"), ERRORS, ids=_message)
def test_error(document: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert(document)
    assert message in str(caught.value)


WARNINGS = [
    (restarts(1, 5), "environment.max_restarts: is counted over the whole job here"),
    (changed(colour="red"), "colour: has no meaning here and is omitted"),
    (tasks(worker=[{"index": 0, "magic": 1}]), "environment.replicas.worker[0].magic: has"),
    (tasks(worker=[{"index": 5, "labels": {"a": "b"}}]), "worker[0]: has no effect: there is no task 5"),
    (tasks(worker=[{"index": 0, "max_restarts": 1}]), "worker[0].max_restarts: of a single task is not supported"),
    (
        changed(environment={"resources": {"gpu": {"requests": 1, "limits": 2}}}),
        "environment.resources.gpu: requests and limits of devices must be equal in Kubernetes; both are 2, the limit",
    ),
    (changed(name="My Job_1"), 'name: "My Job_1" is not a valid name in Kubernetes; the job is called my-job-1'),
    (changed(framework="sklearn"), "framework: sklearn has no job kind here"),
]


@pytest.mark.parametrize(("document", "message"), WARNINGS, ids=_message)
def test_warning(document: dict[str, Any], message: str) -> None:
    _, warnings = converted(document)
    assert [warning for warning in warnings if message in warning], warnings


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(ConvertError) as caught:
        convert({"version": 1, "kind": "group", "run": {}, "environment": {"n_workers": "x"}})
    paths = [finding.path for finding in caught.value.findings]
    assert paths == ["kind", "environment.n_workers", "run.cmd", "build.image"]


@pytest.mark.parametrize(
    ("name", "message"),
    [("Has Spaces", "--name"), ("x" * 64, "is not a valid"), ("1abc", "is not a valid"), ("x" * 60, "at most 54 characters")],
)
def test_a_given_name_is_not_changed_but_refused(name: str, message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert(tasks(), name=name)
    assert message in str(caught.value)
