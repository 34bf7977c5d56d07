"""The schemas of the built-in kinds."""

import pytest

from localcluster.apiserver import builtin_schemas
from localcluster.apiserver.builtin import BUILTIN
from localcluster.apiserver.resource import Resource


@pytest.mark.parametrize("resource", BUILTIN.values(), ids=lambda resource: resource.plural)
def test_the_kinds_the_server_serves_are_there(resource: Resource) -> None:
    node = builtin_schemas.root(*resource.gvk)
    assert node is not None
    resolved = builtin_schemas.resolve(node)
    assert {"apiVersion", "kind", "metadata"} <= resolved["properties"].keys()
    assert "enum" not in resolved["properties"]["kind"]


def test_an_unknown_kind_has_no_schema() -> None:
    assert builtin_schemas.root("kubeflow.org", "v1", "PyTorchJob") is None
