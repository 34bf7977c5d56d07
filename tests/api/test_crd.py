"""The generated CRDs: what the API server accepts, what fits, what explains itself, and what they refuse."""

import functools
import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from jobcommon.api.model import ApiModel, model_schema
from jobcommon.cli.frameworks import installed
from jobcommon.crd import crd_files, to_json
from jobcommon.crd import custom_resource_definition as generated
from jobcommon.crd.pod_template import ARTEFACT
from jobcommon.framework import CelRule, Framework, Version
from jobcommon.operators.mpi.framework import MPI
from jobcommon.operators.mxnet.framework import MXNET
from jobcommon.operators.pytorch.framework import PYTORCH
from jobcommon.operators.tf.framework import TF
from jobcommon.testutil.pod_template_schema import generate
from localcluster.rules import validate_crd, version_priority

Json = dict[str, Any]
ROOT = Path(__file__).parents[2]
FRAMEWORKS = {framework.kind: framework for framework in (PYTORCH, TF, MXNET, MPI, *installed().values())}
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


@pytest.fixture(params=[kind for kind, one in FRAMEWORKS.items() if one.definition is None])
def of_replicas(request: pytest.FixtureRequest) -> Framework:
    """One whose spec has replica specs."""
    return FRAMEWORKS[request.param]


def test_a_real_server_would_accept_it(framework: Framework) -> None:
    assert validate_crd(custom_resource_definition(framework)) == []


def test_each_definition_fits_a_plain_apply(framework: Framework) -> None:
    """With room for fields to come."""
    assert len(to_json(custom_resource_definition(framework))) < ANNOTATION_LIMIT - 12_000


def test_committed_files_are_the_generated_ones() -> None:
    expected = crd_files(installed().values())
    folder = ROOT / "charts" / "crds"
    assert {path.name for path in folder.iterdir()} == expected.keys(), "run `make crds`"
    for name, text in expected.items():
        assert (folder / name).read_text() == text, f"{name} is not what the code generates: run `make crds`"


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
def test_the_pod_template_explains_itself(of_replicas: Framework, path: str) -> None:
    assert at(schema_of(of_replicas), f"spec.{of_replicas.replica_specs}.{path}").get("description")


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


def test_strings_of_our_own_are_bounded(of_replicas: Framework) -> None:
    """Else the API server cannot bound the cost of a CEL rule over them."""
    spec = schema_of(of_replicas)["properties"]["spec"]
    strings = {path: child for path, child in fields(spec) if child.get("type") == "string" and ".template." not in path}
    assert [path for path, child in strings.items() if not ("maxLength" in child or "enum" in child)] == []


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"versions": (Version("v1", storage=True, defaults={"nothing": 1}),)},
            r"spec\.nothing, which the schema does not have",
        ),
        ({"rules": (CelRule("true", "m", path=("spec", "nothing")),)}, "is for spec.nothing, which the schema"),
    ],
)
def test_what_is_for_a_field_that_is_not_there_is_an_error(changes: Json, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        custom_resource_definition(replace(TF, **changes))


class Tree(ApiModel):
    """Recursive."""

    below: "list[Tree]" = Field(default_factory=list)


def test_a_recursive_model_is_refused() -> None:
    with pytest.raises(ValueError, match="a recursive model has no structural schema"):
        model_schema(Tree)
