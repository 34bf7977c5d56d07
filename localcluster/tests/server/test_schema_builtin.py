"""The schemas of the built-in kinds: which fields they have, and what strict validation calls unknown."""

from typing import Any

import pytest

from localcluster.apiserver import builtin_schemas

KINDS = [
    ("", "v1", "Pod"),
    ("", "v1", "Service"),
    ("", "v1", "Namespace"),
    ("", "v1", "Node"),
    ("", "v1", "Secret"),
    ("apps", "v1", "Deployment"),
    ("batch", "v1", "Job"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("scheduling.k8s.io", "v1", "PriorityClass"),
    ("networking.k8s.io", "v1", "Ingress"),
    ("storage.k8s.io", "v1", "StorageClass"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition"),
    ("events.k8s.io", "v1", "Event"),
    ("authorization.k8s.io", "v1", "SubjectAccessReview"),
    ("authentication.k8s.io", "v1", "TokenReview"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_the_kinds_the_server_serves_are_there(kind: tuple[str, str, str]) -> None:
    node = builtin_schemas.root(*kind)
    assert node is not None
    resolved = builtin_schemas.resolve(node)
    assert {"apiVersion", "kind", "metadata"} <= resolved["properties"].keys()
    assert "enum" not in resolved["properties"]["kind"]


def test_an_unknown_kind_has_no_schema() -> None:
    assert builtin_schemas.root("kubeflow.org", "v1", "PyTorchJob") is None


CASES: dict[str, tuple[Any, list[str]]] = {
    "nothing unknown": (
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"any": "x"}}, "spec": {"nodeSelector": {"any": "x"}}},
        [],
    ),
    "top": ({"spek": {}}, ["spek"]),
    "in a list": ({"spec": {"containers": [{"name": "a"}, {"imge": "i"}]}}, ["spec.containers[1].imge"]),
    "quantities are leaves": ({"spec": {"containers": [{"resources": {"limits": {"cpu": 1}}}]}}, []),
    "below a map": ({"metadata": {"ownerReferences": [{"uid": "u", "nonsense": 1}]}}, ["metadata.ownerReferences[0].nonsense"]),
    "managed fields are free": ({"metadata": {"managedFields": [{"fieldsV1": {"f:a": {}}}]}}, []),
    "in document order": ({"b": 1, "a": 1, "spec": {"z": 1}}, ["b", "a", "spec.z"]),
    "wrong shapes are not its business": ({"spec": [1], "metadata": "x"}, []),
}


@pytest.mark.parametrize("name", CASES)
def test_unknown_fields(name: str) -> None:
    value, expected = CASES[name]
    node = builtin_schemas.root("", "v1", "Pod")
    assert node is not None
    assert builtin_schemas.unknown_fields(node, value) == expected


def test_unknown_fields_of_a_crd_version() -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string"}}}, "status": {"type": "object"}},
    }
    node = builtin_schemas.crd_root({"schema": {"openAPIV3Schema": schema}})
    value = {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "x", "odd": 1}, "spec": {"a": "1", "b": 2}}
    assert builtin_schemas.unknown_fields(node, value) == ["metadata.odd", "spec.b"]
