"""The schemas of the built-in kinds: which fields they have, and what strict validation calls unknown."""

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
