"""What becomes of polyaxonfiles: amounts, commands, params, the seeds, whole golden documents, and overrides; and findings."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobcommon.api.job import ReplicaOverride, ReplicaSpec, template_for
from jobcommon.cli.convert import ConvertError, convert
from jobcommon.cli.convert.overrides import split
from jobcommon.cli.convert_command import as_yaml
from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.mxnet import MXNET
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.operators.tf import TF
from jobcommon.spec import read_job

DIRECTORY = Path(__file__).parent.parent / "golden" / "polyaxon"
FRAMEWORKS: dict[str, Framework] = {framework.kind: framework for framework in (TF, PYTORCH, MPI, MXNET)}
# A document that nothing is wrong with, to be changed by the cases.
PLAIN = {"version": 1, "build": {"image": "img"}, "run": {"cmd": "go"}}


def text_of(name: str) -> str:
    """A document of the golden files."""
    return (DIRECTORY / f"{name}.polyaxon.yml").read_text(encoding="utf-8")


def converted(document: str | Mapping[str, Any], **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Manifest and warnings."""
    conversion = convert(yaml.safe_load(document) if isinstance(document, str) else document, **options)
    return dict(conversion.manifest), [str(warning) for warning in conversion.warnings]


def job_of(manifest: Mapping[str, Any]) -> Job:
    """The manifest as the operator reads it; nothing is wrong with it."""
    job = read_job(FRAMEWORKS[manifest["kind"]], manifest)
    assert job.errors == (), [str(error) for error in job.errors]
    return job


def main_container(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The main container of one replica, its overrides applied."""
    return dict(template_for(spec, index)["spec"]["containers"][0])


def resources(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    return dict(main_container(spec, index).get("resources", {}))


def env(spec: ReplicaSpec, index: int = 0) -> dict[str, Any]:
    """The variables of one replica's main container: name -> value, or where it comes from."""
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in main_container(spec, index).get("env", ())}


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({"memory": {"requests": 256, "limits": 1024}}, {"memory": "256Mi"}, {"memory": "1024Mi"}),
        ({"memory": {"limits": 0.5}}, None, {"memory": "0.5Mi"}), ({"memory": {"limits": "2Gi"}}, None, {"memory": "2Gi"}),
        ({"cpu": {"requests": 1e-05, "limits": "500m"}}, {"cpu": "0.00001"}, {"cpu": "500m"}),
        ({"gpu": {"request": 1}}, {GPU: "1"}, {GPU: "1"}), ({"gpu": {"limits": "2"}}, {GPU: "2"}, {GPU: "2"}),
        ({"gpu": {"requests": 0, "limits": 0}}, None, None), ({}, None, None),
        ({"limits": {"cpu": 1, "memory": 64}, "requests": {"cpu": 1}}, {"cpu": "1"}, {"cpu": "1", "memory": "64Mi"}),
    ],
    ids=str,
)  # fmt: skip
def test_resources(given: dict[str, Any], requests: dict[str, str] | None, limits: dict[str, str] | None) -> None:
    manifest, _ = converted({**PLAIN, "framework": "pytorch", "environment": {"resources": given}})
    found = resources(job_of(manifest).replica_specs["Master"])
    assert (found.get("requests"), found.get("limits")) == (requests, limits)


@pytest.mark.parametrize(
    ("cmd", "line"),
    [
        ("python run.py \\\n  --lr 1 \\\n  --steps 2\n", "python run.py --lr 1 --steps 2"),
        ("python run.py\n  --lr 1", "python run.py --lr 1"), (["pip list", "python run.py"], "pip list && python run.py"),
        ("{{ program }} --lr={{ lr }} {{lr}}", "python --lr=0.1 0.1"), ("{{ params.program }}", "python"),
        ("echo {{ flag }} {{ many }}", "echo True [1, 2]"), ("echo '{ not }' ${HOME}", "echo '{ not }' ${HOME}"),
    ],
)  # fmt: skip
def test_command(cmd: Any, line: str) -> None:
    params = {"program": "python", "lr": 0.1, "flag": True, "many": [1, 2], "n": 3}
    environment = {"replicas": {"n_workers": "{{ n }}"}}
    document = {**PLAIN, "framework": "pytorch", "params": params, "run": {"cmd": cmd}, "environment": environment}
    specs = converted(document)[0]["spec"]["pytorchReplicaSpecs"]
    container = specs["Master"]["template"]["spec"]["containers"][0]
    assert (container["command"], container["args"], specs["Worker"]["replicas"]) == (["/bin/bash", "-c"], [line], 3)


@pytest.mark.parametrize(
    ("cmd", "program"),
    [
        ("python train.py --lr 0.1", "python train.py --lr 0.1"),
        ("python train.py 'a;b'", "python train.py 'a;b'"),
        (["pip list", "python train.py"], "/bin/bash -c 'pip list && python train.py'"),
        ("A=1 python train.py", "/bin/bash -c 'A=1 python train.py'"),
        ("python train.py | tee log", "/bin/bash -c 'python train.py | tee log'"),
        ("echo \"it's", "/bin/bash -c 'echo \"it'\"'\"'s'"),
    ],
)
def test_every_rank_runs_the_whole_command(cmd: Any, program: str) -> None:
    manifest, _ = converted(
        {**PLAIN, "framework": "horovod", "run": {"cmd": cmd}, "environment": {"replicas": {"n_workers": 1}}}, name="exp"
    )
    start = "mpirun --allow-run-as-root -np 2 --tag-output --default-hostfile none -H localhost:1,exp-worker-0.exp:1"
    container = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert container["args"] == [f"{start} {program}"]


@pytest.mark.parametrize(
    ("spec", "workers", "gpus", "slots"),
    [
        ({"gpus": 16, "gpusPerNode": 8}, 2, "8", 8),
        ({"gpus": 4, "gpusPerNode": 8}, 1, "4", 4),
        ({"gpus": 2}, 2, "1", 1),
        ({"processingUnits": 8, "processingUnitsPerNode": 4, "slotsPerWorker": 2}, 2, "4", 2),
        ({"replicas": 3}, 3, None, 1),
    ],
    ids=str,
)
def test_flat_mpijob_sizes(spec: dict[str, Any], workers: int, gpus: str | None, slots: int) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i", "command": ["mpirun", "x"]}]}}
    head = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    manifest, warnings = converted({**head, "spec": {"template": template, **spec}})
    found = job_of(manifest)
    assert warnings == []
    assert (found.replica_specs["Worker"].replicas, manifest["spec"]["slotsPerWorker"]) == (workers, slots)
    assert resources(found.replica_specs["Worker"]).get("limits", {}).get(GPU) == gpus
    assert resources(found.replica_specs["Launcher"]) == {}


# -- What the seeds say of distributed experiments, beside the golden documents


@pytest.mark.parametrize(("gpus", "slots", "processes"), [(None, 1, 4), (0, 1, 4), (1, 1, 4), (4, 4, 16)])
def test_horovod_has_a_process_for_each_gpu(gpus: int | None, slots: int, processes: int) -> None:
    """Polyaxon crashed for a master without a gpu entry."""
    given = {} if gpus is None else {"resources": {"gpu": {"requests": gpus, "limits": gpus}}}
    manifest, _ = converted({**PLAIN, "framework": "horovod", "environment": {**given, "replicas": {"n_workers": 3}}})
    assert manifest["spec"]["slotsPerWorker"] == slots
    line = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"][0]
    assert f"-np {processes} " in line
    assert ("-x LD_LIBRARY_PATH" in line) == bool(gpus)


@pytest.mark.parametrize(
    ("restarts", "default", "master", "worker", "limit"),
    [(0, None, "Never", "Never", None), (3, None, "OnFailure", "OnFailure", 3), (None, 2, "Never", "OnFailure", 2),
     (1, 5, "OnFailure", "OnFailure", 5)],
)  # fmt: skip
def test_restarts(restarts: int | None, default: int | None, master: str, worker: str, limit: int | None) -> None:
    tasks = {"n_workers": 1, "default_worker": {} if default is None else {"max_restarts": default}}
    environment = {**({} if restarts is None else {"max_restarts": restarts}), "replicas": tasks}
    manifest, warnings = converted({**PLAIN, "framework": "pytorch", "environment": environment})
    found = job_of(manifest)
    assert [found.replica_specs[role].restart_policy for role in ("Master", "Worker")] == [master, worker]
    assert found.run_policy.backoff_limit == limit
    assert ["whole job" in w for w in warnings] == ([True] if restarts == 1 else [])


def test_a_dollar_in_a_param_is_not_a_reference() -> None:
    """Kubernetes puts variables in for $(NAME) and a $ for $$."""
    manifest, _ = converted({**PLAIN, "params": {"price": "$(POLYAXON_LOG_LEVEL)"}, "framework": "pytorch"})
    value = env(job_of(manifest).replica_specs["Master"])["POLYAXON_PARAMS"]
    assert value == '{"price": "$$(POLYAXON_LOG_LEVEL)"}'


# -- Whole documents and what becomes of them, for people to read and to compare. ``make golden`` writes the manifests anew

NAMES = sorted(path.name.removesuffix(".polyaxon.yml") for path in DIRECTORY.glob("*.polyaxon.yml"))


@pytest.mark.parametrize("name", NAMES)
def test_document_becomes_manifest(name: str) -> None:
    manifest, warnings = converted(text_of(name), fallback=name, image="given" if name == "g0-flat" else None)
    text = "".join(f"# warning: {warning}\n" for warning in warnings) + as_yaml(manifest)
    path = DIRECTORY / f"{name}.manifest.yaml"
    if os.environ.get("GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    if manifest["kind"] != "Job":
        job_of(manifest)


# -- One template with overrides says the same as a template for each replica

KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.one_of(
    st.integers(0, 2), st.lists(st.integers(0, 2), max_size=2), st.dictionaries(KEYS, st.integers(0, 2), max_size=2)
)
NAMED = st.lists(KEYS, unique=True, min_size=1, max_size=3).flatmap(
    lambda names: st.tuples(*(st.fixed_dictionaries({"name": st.just(n)}, optional={"value": VALUES}) for n in names)).map(list)
)
TEMPLATES = st.dictionaries(KEYS, st.one_of(VALUES, NAMED, st.dictionaries(KEYS, NAMED, max_size=2)), max_size=3)


def normal(value: Any) -> Any:
    """Named lists in the order of their names: a merge keeps the common template's order."""
    if isinstance(value, Mapping):
        return {key: normal(child) for key, child in value.items()}
    if isinstance(value, list) and value and all(isinstance(entry, Mapping) for entry in value):
        return sorted((normal(entry) for entry in value), key=lambda entry: entry["name"])
    return value


@settings(max_examples=100, derandomize=True, deadline=None)
@given(TEMPLATES, st.dictionaries(st.integers(0, 3), TEMPLATES, max_size=4))
def test_every_replica_gets_its_template(default: dict[str, Any], own: dict[int, dict[str, Any]]) -> None:
    common, overrides = split(default, own, 4)
    spec = ReplicaSpec(replicas=4, template=common, overrides=[ReplicaOverride.model_validate(entry) for entry in overrides])
    for index in range(4):
        assert normal(template_for(spec, index)) == normal(own.get(index, default))


# -- What cannot be honoured is an error or a warning that names the field; nothing is dropped in silence


def changed(**sections: Any) -> dict[str, Any]:
    return {**PLAIN, **sections}


def tasks(framework: str = "tensorflow", **replicas: Any) -> dict[str, Any]:
    return changed(framework=framework, environment={"replicas": {"n_workers": 2, **replicas}})


def flat(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    return {**body, "spec": {"template": template, **spec}}


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
