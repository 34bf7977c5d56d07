"""The generated CRDs: what the API server accepts, what fits, what explains itself, and what they refuse."""

import copy
import functools
import gzip
import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import yaml
from pydantic import Field

from jobcommon.api.job import enum_field
from jobcommon.api.model import ApiModel
from jobcommon.api.structural import bounded, model_schema
from jobcommon.api.text import shortened
from jobcommon.cli.frameworks import installed
from jobcommon.crd import crd_files, to_file, to_json
from jobcommon.crd import custom_resource_definition as generated
from jobcommon.crd.pod_template import ARTEFACT, pod_template
from jobcommon.crd.yaml_text import to_yaml
from jobcommon.framework import CelRule, Framework, ReplicaType, Version
from jobcommon.operators.mpi.framework import MPI
from jobcommon.operators.mxnet.framework import MXNET
from jobcommon.operators.pytorch.framework import PYTORCH
from jobcommon.operators.tf.framework import TF
from jobcommon.testutil.pod_template_schema import generate
from localcluster.rules import CompiledSchema, compile_schema, validate_crd, version_priority

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
FRAMEWORKS = {framework.kind: framework for framework in (PYTORCH, TF, MXNET, MPI, *installed().values())}
#: The same language as `yaml.SafeLoader`, in a tenth of the time.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: What a plain `kubectl apply` may carry in its annotation.
ANNOTATION_LIMIT = 262_144


@functools.cache
def _cached(kind: str) -> Json:
    return generated(FRAMEWORKS[kind])


def custom_resource_definition(framework: Framework) -> Json:
    """The CRD; that of a real framework is generated once for all tests."""
    return _cached(framework.kind) if framework is FRAMEWORKS.get(framework.kind) else generated(framework)


@pytest.fixture(params=list(FRAMEWORKS))
def framework(request: pytest.FixtureRequest) -> Framework:
    return FRAMEWORKS[request.param]


def test_a_real_server_would_accept_it(framework: Framework) -> None:
    assert validate_crd(custom_resource_definition(framework)) == []


def test_each_definition_fits_a_plain_apply(framework: Framework) -> None:
    """With room for fields to come."""
    assert len(to_json(custom_resource_definition(framework))) < ANNOTATION_LIMIT - 17_000


def test_the_same_framework_gives_the_same_bytes(framework: Framework) -> None:
    assert json.dumps(custom_resource_definition(framework)) == json.dumps(generated(framework))


def test_committed_files_are_the_generated_ones() -> None:
    expected = crd_files(installed().values())
    folder = ROOT / "charts" / "crds"
    assert {path.name for path in folder.iterdir()} == expected.keys(), "run `make crds`"
    for name, text in expected.items():
        assert (folder / name).read_text() == text, f"{name} is not what the code generates: run `make crds`"


def test_a_file_is_yaml_that_every_reader_takes_for_the_same(framework: Framework) -> None:
    """PyYAML quotes neither "n" nor "1e3", which kubectl's library takes for a boolean and a number."""
    crd = custom_resource_definition(framework)
    text = to_file(crd)
    assert yaml.load(text, LOADER) == crd
    assert text.startswith("apiVersion: apiextensions.k8s.io/v1\n")
    assert not re.search(r"[&*]id\d", text)
    odd = {"a": ["y", "n", "on", "1e3", "0o7", "12:30", ".inf", "~", "", "x: y", "- z", "1.0", "True", "a\nb", "é #"]}
    assert yaml.safe_load(to_yaml(odd)) == odd
    plain = [line.removeprefix("- ") for line in to_yaml(odd).splitlines()[1:]]
    assert all(line.startswith('"') for line in plain)


def test_committed_pod_template_is_the_generated_one() -> None:
    committed = (ROOT / "jobcommon" / "crd" / ARTEFACT).read_bytes()
    assert gzip.decompress(committed) == gzip.decompress(generate())


def test_plain_get_prints_name_state_age(framework: Framework) -> None:
    for version in custom_resource_definition(framework)["spec"]["versions"]:
        columns = [(one["name"], one.get("priority", 0)) for one in version["additionalPrinterColumns"]]
        assert [name for name, priority in columns if priority == 0] == ["State", "Age"]
        assert len(columns) > 2


def schema_of(framework: Framework) -> Json:
    """The schema that `kubectl explain` shows: that of the preferred version."""
    served = [one for one in custom_resource_definition(framework)["spec"]["versions"] if one["served"]]
    preferred = min(served, key=lambda one: version_priority(one["name"]))
    schema: Json = preferred["schema"]["openAPIV3Schema"]
    return schema


def at(schema: Json, path: str) -> Json:
    """The schema at a path as `kubectl explain` takes it: list items and map values have no name of their own."""
    for name in path.split("."):
        while "properties" not in schema:
            schema = schema["items"] if "items" in schema else schema["additionalProperties"]
        schema = schema["properties"][name]
    return schema


@pytest.mark.parametrize(
    "path", ["template.spec", "template.spec.containers", "template.spec.containers.image", "template.spec.volumes"]
)
def test_the_pod_template_explains_itself(framework: Framework, path: str) -> None:
    assert at(schema_of(framework), f"spec.{framework.replica_specs}.{path}").get("description")


def fields(node: Json, path: str = "") -> Iterator[tuple[str, Json]]:
    for name, child in node.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from fields(node[key], path)


@pytest.mark.parametrize("part", ["spec", "status"])
def test_every_field_of_ours_explains_itself(framework: Framework, part: str) -> None:
    schema = schema_of(framework)["properties"][part]
    silent = [path for path, child in fields(schema) if ".template." not in path and not child.get("description")]
    assert silent == []


def test_strings_of_our_own_are_bounded(framework: Framework) -> None:
    """Else the API server cannot bound the cost of a CEL rule over them."""
    spec = schema_of(framework)["properties"]["spec"]
    strings = {path: child for path, child in fields(spec) if child.get("type") == "string" and ".template." not in path}
    assert [path for path, child in strings.items() if not ("maxLength" in child or "enum" in child)] == []


JOB: Json = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "mnist"},
    "spec": {
        "pytorchReplicaSpecs": {
            "Master": {
                "template": {
                    "metadata": {"labels": {"a": "b"}, "creationTimestamp": None},
                    "spec": {
                        "containers": [
                            {
                                "name": "pytorch",
                                "image": "x",
                                "ports": [{"containerPort": 1}],
                                "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}],
                                "resources": {"limits": {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": 1}},
                            }
                        ]
                    },
                }
            },
            "Worker": {"replicas": 2, "template": {"spec": {"containers": [{"name": "pytorch", "image": "x"}]}}},
        }
    },
}


@pytest.fixture(scope="module")
def compiled() -> CompiledSchema:
    return compile_schema(custom_resource_definition(PYTORCH)["spec"]["versions"][0])


def changed(**changes: Any) -> Json:
    """JOB with values set at paths written as a__b__c."""
    job = copy.deepcopy(JOB)
    for path, value in changes.items():
        *parents, last = path.split("__")
        node = job
        for name in parents:
            node = node.setdefault(name, {})
        node[last] = value
    return job


def test_a_job_is_stored_as_it_was_written(compiled: CompiledSchema) -> None:
    """Nothing pruned, and nothing defaulted but the number of replicas: so a second apply finds nothing to change."""
    job = copy.deepcopy(JOB)
    assert compiled.prune(job) == []
    compiled.default(job)
    assert job["spec"]["pytorchReplicaSpecs"]["Master"].pop("replicas") == 1
    assert job == JOB
    assert compiled.validate(job) == []


def test_pruning_names_the_unknown_fields(compiled: CompiledSchema) -> None:
    job = changed(spec__runPolicy={"backofLimit": 3})
    assert compiled.prune(job) == ["spec.runPolicy.backofLimit"]


def test_status_and_scale_subresources() -> None:
    (version,) = custom_resource_definition(PYTORCH)["spec"]["versions"]
    assert version["subresources"]["status"] == {}
    assert version["subresources"]["scale"]["specReplicasPath"] == ".spec.pytorchReplicaSpecs.Worker.replicas"


SMALL = Framework(
    kind="TestJob",
    plural="testjobs",
    name="test",
    replica_specs="testReplicaSpecs",
    replica_types=(ReplicaType("Leader", max_replicas=3), ReplicaType("Worker")),
    container="main",
    port_name="p",
    port=1,
    versions=(Version("v1"), Version("v1beta1", storage=True, defaults={"runPolicy": {"suspend": True}})),
)


def test_every_version_is_served_and_only_the_preferred_one_has_long_texts() -> None:
    versions = custom_resource_definition(SMALL)["spec"]["versions"]
    assert [(one["name"], one["served"], one["storage"]) for one in versions] == [("v1", True, False), ("v1beta1", True, True)]
    path = "spec.testReplicaSpecs.template.spec.containers.image"
    assert at(versions[0]["schema"]["openAPIV3Schema"], path).get("description")
    assert not at(versions[1]["schema"]["openAPIV3Schema"], path).get("description")


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ({"Worker": {}}, None),
        ({"Leader": {"replicas": 4}}, "Leader must have at most 3 replicas"),
        ({"leader": {"replicas": 3}, "worker": {}}, None),
    ],
)
def test_rules_follow_from_the_replica_types(replicas: Json, message: str | None) -> None:
    template = {"template": {"spec": {"containers": [{"name": "main"}]}}}
    specs = {kind: {**template, **spec} for kind, spec in replicas.items()}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TestJob", "metadata": {"name": "t"}, "spec": {"testReplicaSpecs": specs}}
    found = compile_schema(custom_resource_definition(SMALL)["spec"]["versions"][0]).validate(job)
    assert [cause.message for cause in found] == ([f'Invalid value: "object": {message}'] if message else [])


def test_defaults_of_a_version_stand_in_its_schema() -> None:
    first, second = (one["schema"]["openAPIV3Schema"] for one in custom_resource_definition(SMALL)["spec"]["versions"])
    assert "default" not in at(first, "spec.runPolicy")
    assert at(second, "spec.runPolicy")["default"] == {"suspend": True}
    wrong = Framework(**{**vars(SMALL), "versions": (Version("v1", storage=True, defaults={"nothing": 1}),)})
    with pytest.raises(ValueError, match=r"spec\.nothing, which the schema does not have"):
        custom_resource_definition(wrong)


@pytest.mark.parametrize(
    ("length", "replicas", "fits"),
    [(63 - len("-worker-9"), 10, True), (63 - len("-worker-9"), 11, False), (63 - len("-worker-0"), 0, True)],
)
def test_the_name_of_the_last_pod_must_fit(length: int, replicas: int, fits: bool) -> None:
    spec = {"replicas": replicas, "template": {"spec": {"containers": [{"name": "main"}]}}}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "TestJob", "metadata": {"name": "n" * length}}
    found = compile_schema(custom_resource_definition(SMALL)["spec"]["versions"][0]).validate(
        {**job, "spec": {"testReplicaSpecs": {"Worker": spec}}}
    )
    assert (found == []) is fits


MPI_POLICY: Json = {
    "apiVersion": "kubeflow.org/v2beta1",
    "kind": "MPIJob",
    "metadata": {"name": "m" * (63 - len("-launcher"))},
    "spec": {
        "runPolicy": {"managedBy": "kubeflow.org/mpi-operator"},
        "mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": [{"name": "any"}]}}}},
    },
}


def test_rules_follow_what_a_framework_understands() -> None:
    """The old operator's name, any container name, and a launcher without an index."""
    versions = custom_resource_definition(MPI)["spec"]["versions"]
    assert compile_schema(versions[0]).validate(MPI_POLICY) == []


def test_a_rule_for_a_field_that_is_not_there_is_an_error() -> None:
    wrong = Framework(**{**vars(SMALL), "rules": (CelRule("true", "m", path=("spec", "nothing")),)})
    with pytest.raises(ValueError, match=r"is for spec\.nothing, which the schema does not have"):
        custom_resource_definition(wrong)


class Colour(StrEnum):
    """A colour."""

    RED = "red"


class Inner(ApiModel):
    """Inside."""

    size: Annotated[int, Field(gt=0)] = 1


class Outer(ApiModel):
    """Outside."""

    a_name: str = Field(pattern="^a", max_length=5)
    maybe: Inner | None = Field(None, description="Perhaps.")
    many: list[Inner] = Field(default_factory=list, min_length=1)
    by_name: dict[str, Inner] = Field(default_factory=dict)
    free: dict[str, Any] = Field(default_factory=dict)
    anything: Any = None
    colour: Annotated[Colour, enum_field(Colour)] | None = None
    ratio: float = 0.5


def test_model_schema() -> None:
    inner = {
        "type": "object",
        "description": "Inside.",
        "properties": {"size": {"type": "integer", "format": "int64", "minimum": 0, "exclusiveMinimum": True}},
    }
    free = {"x-kubernetes-preserve-unknown-fields": True}
    assert model_schema(Outer) == {
        "type": "object",
        "description": "Outside.",
        "required": ["aName"],
        "properties": {
            "aName": {"type": "string", "pattern": "^a", "maxLength": 5},
            "maybe": {**inner, "description": "Perhaps."},
            "many": {"type": "array", "minItems": 1, "items": inner},
            "byName": {"type": "object", "additionalProperties": inner},
            "free": {"type": "object", **free},
            "anything": free,
            "colour": {"type": "string", "enum": ["red"], "description": "A colour."},
            "ratio": {"type": "number"},
        },
    }


class Tree(ApiModel):
    """Recursive."""

    below: "list[Tree]" = Field(default_factory=list)


def test_a_recursive_model_is_refused() -> None:
    with pytest.raises(ValueError, match="a recursive model has no structural schema"):
        model_schema(Tree)


def test_bounded_leaves_limits_and_enums() -> None:
    node = {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "b": {"type": "string", "maxLength": 3},
            "c": {"type": "string", "enum": ["x"]},
        },
    }
    assert [child.get("maxLength") for child in bounded(node)["properties"].values()] == [4096, 3, None]


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("One. Two.", 20, "One. Two."),
        ("One. Two.", 5, "One."),
        ("A long sentence without an end", 16, "A long sentence…"),
        ("Version 1.2 stays. Next one is long.", 20, "Version 1.2 stays."),
        ("Anything", 0, ""),
        ("", 10, ""),
    ],
)
def test_shortened(text: str, limit: int, short: str) -> None:
    assert shortened(text, limit) == short
    assert len(short) <= max(limit, 0)


def test_pod_template_without_texts_is_small() -> None:
    assert len(json.dumps(pod_template(0), separators=(",", ":"))) < 60_000
