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


def component(**run: Any) -> dict[str, Any]:
    role = {"container": {"image": "i"}}
    return {"version": 1.1, "kind": "component", "run": {"kind": "tfjob", "worker": role, **run}}


def flat(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {"apiVersion": "kubeflow.org/v1alpha1", "kind": "MPIJob", "metadata": {"name": "f"}}
    return {**body, "spec": {"template": template, **spec}}


ERRORS = [
    pytest.param({"version": 1, "run": {"image": "i"}}, "run.cmd: is required", id="no command"),
    pytest.param(
        {"version": 1, "run": {"cmd": "c"}}, "build.image: is required: name an image there or with --image", id="no image"
    ),
    pytest.param(changed(run={"cmd": {"a": 1}}), "run.cmd: must be a line of shell", id="cmd of a wrong type"),
    pytest.param(changed(run="x"), "run: must be a mapping", id="run of a wrong type"),
    pytest.param(changed(run={"cmd": "c", "image": "j"}), "run.image: the image is given twice", id="two images"),
    pytest.param(changed(build={"image": "i", "build_steps": ["pip"]}), "build.build_steps: cannot run here", id="build_steps"),
    pytest.param(changed(build={"dockerfile": "D"}), "build.dockerfile: cannot run here", id="dockerfile"),
    pytest.param(changed(kind="group"), "kind: group is not supported", id="kind"),
    pytest.param(changed(hptuning={"matrix": {}, "a": 1}), "hptuning: describes many experiments", id="hptuning"),
    pytest.param(changed(matrix={"lr": {"values": [1]}}), "matrix: describes many experiments", id="matrix"),
    pytest.param(
        changed(backend="slurm"), "backend: slurm is not supported: use one of native, kubeflow, mpi, other", id="backend"
    ),
    pytest.param(
        changed(environment={"tensorflow": {"n_workers": 1}, "mxnet": {"n_workers": 1}}),
        "environment: only one framework can be used; there are tensorflow, mxnet",
        id="two frameworks",
    ),
    pytest.param(
        changed(environment={"replicas": {"n_workers": 1}}), "framework: is required for distributed experiments", id="none"
    ),
    pytest.param(tasks("caffe"), "framework: `caffe` is not supported for distributed experiments", id="unknown framework"),
    pytest.param(
        changed(framework="mxnet", environment={"tensorflow": {"n_workers": 1}}),
        "framework: mxnet is not the one under environment, which is tensorflow",
        id="frameworks that differ",
    ),
    pytest.param(tasks("pytorch", n_ps=1), "pytorch has no parameter servers", id="pytorch with ps"),
    pytest.param(tasks("horovod", n_ps=1), "horovod has no parameter servers", id="horovod with ps"),
    pytest.param(tasks("mxnet", n_workers=0, n_ps=1), "servers without workers", id="mxnet without workers"),
    pytest.param(
        changed(backend="mpi"), "environment.replicas.n_workers: is required for an MPI job", id="mpi without workers"
    ),
    pytest.param(tasks(n_workers=-1), "environment.replicas.n_workers: must be a whole number", id="negative"),
    pytest.param(
        tasks(n_workers=10**6), "environment.replicas.n_workers: must be a whole number from 0 to 1000", id="too many"
    ),
    pytest.param(tasks(n_workers=True), "environment.replicas.n_workers: must be a whole number", id="boolean"),
    pytest.param(tasks(worker=[{"labels": {"a": "b"}}]), "environment.replicas.worker[0]: index: is required", id="no index"),
    pytest.param(tasks(worker=["x"]), "environment.replicas.worker[0]: must be a mapping", id="no mapping"),
    pytest.param(tasks(worker="x"), "environment.replicas.worker: must be a list of mappings", id="no list"),
    pytest.param(
        tasks(worker=[{"index": 1, "labels": {"a": "b"}}, {"index": 1, "labels": {"a": "c"}}]),
        "environment.replicas.worker[1]: labels is given twice for the same task",
        id="index twice",
    ),
    pytest.param(
        tasks(default_worker={"resources": {"cpu": {"limits": 1}}}, default_worker_resources={"cpu": {"limits": 1}}),
        "resources is given twice",
        id="default in two spellings",
    ),
    pytest.param(
        changed(environment={"resources": {"memory": {"limits": "a lot"}}}),
        "environment.resources.memory.limits: must be a number of MiB, or text with a unit such as 2Gi, 0 or more",
        id="memory",
    ),
    pytest.param(
        changed(environment={"resources": {"gpu": {"limits": 0.5}}}),
        "environment.resources.gpu.limits: must be a number of whole devices",
        id="part of a gpu",
    ),
    pytest.param(
        changed(environment={"resources": {"cpu": {"limits": 1}, "limits": {"cpu": 2}}}),
        "environment.resources.cpu.limits: cpu limits are given twice",
        id="resources in two layouts",
    ),
    pytest.param(changed(environment={"labels": {"a": [1]}}), "environment.labels.a: must be text", id="label"),
    pytest.param(changed(environment={"tolerations": {"a": 1}}), "environment.tolerations: must be a list", id="tolerations"),
    pytest.param(changed(environment={"affinity": [1]}), "environment.affinity: must be a mapping", id="affinity"),
    pytest.param(changed(environment={"secret_refs": [1]}), "environment.secret_refs[0]: must be a name", id="secret_refs"),
    pytest.param(changed(build={"image": "i", "env_vars": [["A"]]}), "build.env_vars[0]: must be a pair", id="env_vars"),
    pytest.param(changed(run={"cmd": "x {{ lr }}"}), 'run.cmd: "{{ lr }}" names no param (there are: none)', id="no param"),
    pytest.param(changed(params={"a": 1}, run={"cmd": "{{ a + 1 }}"}), "is more than a name", id="expression"),
    pytest.param(changed(run={"cmd": "{% if a %}x{% endif %}"}), "run.cmd: conditions and loops in braces", id="statement"),
    pytest.param(changed(params=[1]), "params: must be a mapping", id="params"),
    pytest.param(
        changed(params={"a": {"ref": "runs.1", "value": "outputs.x"}}), "params.a: a reference to another run", id="ref"
    ),
    pytest.param(
        changed(environment={"n_workers": 1, "nWorkers": 2}), "environment.nWorkers: is given twice", id="both spellings"
    ),
    pytest.param(
        changed(termination={"max_retries": 1}, environment={"max_restarts": 2}),
        "environment.max_restarts says the same",
        id="limits",
    ),
    pytest.param(component(kind="xgbjob"), 'run.kind: "xgbjob" is not supported: use one of tfjob, pytorchjob', id="run.kind"),
    pytest.param(component(worker=None), "run: has no role: name at least one of chief, ps, worker, evaluator", id="no role"),
    pytest.param(component(worker={"container": {}}), "run.worker.container.image: is required", id="no image in a role"),
    pytest.param(
        component(worker={"container": {"image": "i"}, "init": [{"git": {"url": "u"}}]}),
        "run.worker.init[0].git: is fetched by Polyaxon's own images",
        id="git",
    ),
    pytest.param(
        component(worker={"container": {"image": "i"}, "environment": {"restartPolicy": "Maybe"}}),
        "run.worker.environment.restartPolicy: Maybe is not supported",
        id="restartPolicy",
    ),
    pytest.param(component(cleanPodPolicy="Some"), "run.cleanPodPolicy: Some is not supported", id="cleanPodPolicy"),
    pytest.param({**component(), "inputs": [{"name": "x", "type": "int"}]}, "inputs[0]: has no value", id="input"),
    pytest.param(
        {"kind": "operation", "version": 1.1, "hubRef": "x"}, "hubRef: names a component that is elsewhere", id="hubRef"
    ),
    pytest.param({**component(), "matrix": {"kind": "grid"}}, "matrix: describes many runs", id="matrix of 1.0"),
    pytest.param(flat(), "spec: needs exactly one of gpus, processingUnits and replicas; there is none", id="no size"),
    pytest.param(flat(gpus=4, replicas=2), "there are gpus, replicas", id="two sizes"),
    pytest.param(flat(gpus=6, gpusPerNode=4), "spec.gpus: 6 must be a multiple", id="no multiple"),
    pytest.param(flat(replicas=1, processingResourceType="fpga"), "spec.processingResourceType: fpga", id="device"),
    pytest.param(flat(replicas=1, template={}), "spec.template.spec.containers: is required", id="no container"),
]


@pytest.mark.parametrize(("document", "message"), ERRORS)
def test_error(document: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert(document)
    assert message in str(caught.value)


STORES = "needs Polyaxon's catalogue of stores"
WARNINGS = [
    pytest.param(changed(colour="red"), "colour: has no meaning here and is left out", id="unknown at the top"),
    pytest.param(changed(run={"cmd": "c", "shell": "zsh"}), "run.shell: has no meaning here", id="unknown in run"),
    pytest.param(changed(environment={"magic": 1}), "environment.magic: has no meaning here", id="unknown in environment"),
    pytest.param(tasks(n_evaluators=1), "environment.replicas.n_evaluators: has no meaning here", id="unknown in replicas"),
    pytest.param(tasks(worker=[{"index": 0, "magic": 1}]), "environment.replicas.worker[0].magic: has", id="unknown in a task"),
    pytest.param(
        changed(environment={"resources": {"fpga": {"limits": 1}}}), "environment.resources.fpga: has no meaning", id="resource"
    ),
    pytest.param(changed(environment={"resources": {"cpu": {"max": 1}}}), "environment.resources.cpu.max: has", id="bound"),
    pytest.param(changed(environment={"data_refs": ["d"]}), f"environment.data_refs: {STORES}", id="data_refs"),
    pytest.param(changed(environment={"artifact_refs": ["d"]}), f"environment.artifact_refs: {STORES}", id="artifact_refs"),
    pytest.param(changed(environment={"persistence": {"data": "d"}}), f"environment.persistence: {STORES}", id="persistence"),
    pytest.param(changed(environment={"outputs": {"jobs": [1]}}), f"environment.outputs: {STORES}", id="outputs"),
    pytest.param(
        changed(environment={"secret_refs": [{"name": "s", "items": ["k"]}]}), "secret_refs[0].items: has", id="items"
    ),
    pytest.param(
        tasks(worker=[{"index": 5, "labels": {"a": "b"}}]), "worker[0]: has no effect: there is no task 5", id="index"
    ),
    pytest.param(
        tasks(worker=[{"index": 0, "max_restarts": 1}]),
        "worker[0].max_restarts: of a single task is not supported",
        id="restarts",
    ),
    pytest.param(tasks(n_ps=0, default_ps={"labels": {"a": "b"}}), "default_ps: has no effect: n_ps is 0", id="default"),
    pytest.param(tasks(default_worker_config={"a": 1}), "default_worker_config: is a setting of TensorFlow's", id="estimator"),
    pytest.param(
        changed(environment={"resources": {"gpu": {"requests": 1, "limits": 2}}}),
        "environment.resources.gpu: requests and limits of devices must be equal in Kubernetes; both are 2, the limit",
        id="gpu",
    ),
    pytest.param(changed(environment={"resources": {"tpu": {"limits": 8}}}), "environment.resources.tpu: becomes", id="tpu"),
    pytest.param(
        changed(name="My Job_1"), 'name: "My Job_1" is not a valid name in Kubernetes; the job is called my-job-1', id="name"
    ),
    pytest.param(changed(framework="sklearn"), "framework: sklearn has no job kind here", id="framework"),
    pytest.param(changed(build={"image": "i", "nocache": True}), "build.nocache: is for building an image", id="nocache"),
    pytest.param(changed(cache={"disable": True}), "cache: is a service of the Polyaxon platform", id="cache"),
    pytest.param(changed(termination={"culling": {"timeout": 1}}), "termination.culling: is watched by", id="culling"),
    pytest.param({**component(), "plugins": {"auth": True}}, "plugins: is a service of the Polyaxon platform", id="plugins"),
    pytest.param(component(colour=1), "run.colour: has no meaning here", id="unknown in a run"),
    pytest.param(
        component(worker={"container": {"image": "i"}, "connections": ["s3"]}),
        "run.worker.connections: needs Polyaxon's catalogue of connections",
        id="connections",
    ),
    pytest.param(
        component(worker={"container": {"image": "i"}, "environment": {"magic": 1}}),
        "run.worker.environment.magic: has",
        id="in a role",
    ),
    pytest.param(flat(replicas=1, colour=1), "spec.colour: has no meaning here", id="unknown in a flat MPIJob"),
]


@pytest.mark.parametrize(("document", "message"), WARNINGS)
def test_warning(document: dict[str, Any], message: str) -> None:
    _, warnings = converted(document)
    assert [warning for warning in warnings if message in warning], warnings


def test_a_light_launcher_leaves_its_gpus() -> None:
    environment = {"resources": {"gpu": {"limits": 1}, "cpu": {"limits": 1}}, "replicas": {"n_workers": 1}}
    manifest, warnings = converted(changed(backend="mpi", environment=environment))
    launcher = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert launcher["resources"] == {"limits": {"cpu": "1"}}
    assert [w.partition(":")[0] for w in warnings] == ["environment.resources"]


def test_a_plain_document_has_no_warnings() -> None:
    assert converted(PLAIN)[1] == []
    assert converted(component())[1] == []


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


def test_image_makes_build_steps_a_warning() -> None:
    _, warnings = converted(changed(build={"image": "i", "build_steps": ["pip"]}), image="done")
    assert warnings == ["build.build_steps: is not run: the image is done, which must have what it would add"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1\na: 2", 'line 2, column 1: not valid YAML: field "a" is given twice', id="twice"),
        pytest.param("run: !!set {a}", "a set is not supported", id="set"),
        pytest.param("a: 1\n---\nb: 2", "line 3, column 1: a second document begins here", id="two documents"),
        pytest.param("- 1", "a polyaxonfile is a mapping of names to values, not a list", id="list"),
        pytest.param("", "not nothing", id="empty"),
        pytest.param("a: [", "line 1, column 5: not valid YAML", id="broken"),
        pytest.param("a: 1", "is not a polyaxonfile", id="something else"),
    ],
)
def test_a_text_that_is_no_polyaxonfile_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConvertError) as caught:
        convert_text(text)
    assert message in str(caught.value)
