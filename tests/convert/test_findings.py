"""What cannot be honoured is an error or a warning that names the field; nothing is dropped in silence."""

from collections.abc import Mapping
from typing import Any

import pytest

from jobcommon.cli.convert import ConvertError, convert, convert_text
from tests.convert.documents import PLAIN, converted


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


STORES = "needs Polyaxon's catalogue of stores"
WARNINGS = [
    (changed(colour="red"), "colour: has no meaning here and is omitted"),
    (tasks(worker=[{"index": 0, "magic": 1}]), "environment.replicas.worker[0].magic: has"),
    (changed(environment={"data_refs": ["d"]}), f"environment.data_refs: {STORES}"),
    (tasks(worker=[{"index": 5, "labels": {"a": "b"}}]), "worker[0]: has no effect: there is no task 5"),
    (tasks(worker=[{"index": 0, "max_restarts": 1}]), "worker[0].max_restarts: of a single task is not supported"),
    (tasks(default_worker_config={"a": 1}), "default_worker_config: is a setting of TensorFlow's"),
    (
        changed(environment={"resources": {"gpu": {"requests": 1, "limits": 2}}}),
        "environment.resources.gpu: requests and limits of devices must be equal in Kubernetes; both are 2, the limit",
    ),
    (changed(environment={"resources": {"tpu": {"limits": 8}}}), "environment.resources.tpu: becomes"),
    (changed(name="My Job_1"), 'name: "My Job_1" is not a valid name in Kubernetes; the job is called my-job-1'),
    (changed(framework="sklearn"), "framework: sklearn has no job kind here"),
    (changed(termination={"culling": {"timeout": 1}}), "termination.culling: is watched by"),
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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: !!set {a}", "a set is not supported"), ("a: 1\n---\nb: 2", "line 3, column 1: a second document begins here"),
        ("- 1", "a polyaxonfile is a mapping of names to values, not a list"), ("", "not nothing"),
        ("a: [", "line 1, column 5: not valid YAML"), ("a: 1", "is not a polyaxonfile"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_polyaxonfile_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert_text(text)
    assert message in str(caught.value)
