"""The OpenAPI documents: what kubectl looks for in them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from localcluster.apiserver.openapi import content_hash, v3_document, v3_index
from localcluster.apiserver.resource import Resource

Json = dict[str, Any]
FIELDS: Json = {
    "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}},
    "maybe": {"type": "string", "nullable": True},
}
SPEC: Json = {"type": "object", "description": "What to do.", "properties": FIELDS}
CRD_VERSION: Json = {"name": "v1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}}
POD = Resource("", "v1", "pods", "Pod", status=True)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment", status=True)
REVIEW = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False, verbs=("create",)
)
CUSTOM = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", crd_version=CRD_VERSION)
ALL = (POD, NODE, DEPLOYMENT, REVIEW, CUSTOM)


def v3(path: str) -> Json:
    found = v3_document(ALL, path)
    assert found is not None
    document: Json = json.loads(found)
    return document


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_index_lists_each_group_version_with_a_hash_of_its_content() -> None:
    index = v3_index(ALL)["paths"]
    assert list(index) == ["api/v1", "apis/apps/v1", "apis/authorization.k8s.io/v1", "apis/kubeflow.org/v1"]
    url = index["apis/kubeflow.org/v1"]["serverRelativeURL"]
    assert url == f"/openapi/v3/apis/kubeflow.org/v1?hash={content_hash([CUSTOM])}"


def test_hash_follows_the_crd_and_not_the_order() -> None:
    other = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", crd_version={**CRD_VERSION, "deprecated": True})
    assert content_hash([CUSTOM]) != content_hash([other])
    assert content_hash([POD, NODE]) == content_hash([NODE, POD])


@pytest.mark.parametrize("path", list(v3_index(ALL)["paths"]))
def test_every_reference_of_a_v3_document_leads_somewhere(path: str) -> None:
    document = v3(path)
    schemas = document["components"]["schemas"]
    found = {one.removeprefix("#/components/schemas/") for one in references(document)}
    assert found <= schemas.keys()
    assert found


@pytest.mark.parametrize(
    ("path", "url", "kind", "strategic"),
    [
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}", "Pod", True),
        ("api/v1", "/api/v1/namespaces/{namespace}/pods/{name}/status", "Pod", True),
        ("api/v1", "/api/v1/nodes/{name}", "Node", True),
        ("apis/apps/v1", "/apis/apps/v1/namespaces/{namespace}/deployments/{name}", "Deployment", True),
        ("apis/kubeflow.org/v1", "/apis/kubeflow.org/v1/namespaces/{namespace}/pytorchjobs/{name}", "PyTorchJob", False),
    ],
)
def test_patch_says_what_kubectl_asks(path: str, url: str, kind: str, strategic: bool) -> None:
    patch = v3(path)["paths"][url]["patch"]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == kind
    assert {one["name"] for one in patch["parameters"]} >= {"dryRun", "fieldValidation", "fieldManager", "force"}
    assert ("application/strategic-merge-patch+json" in patch["requestBody"]["content"]) is strategic


def test_verbs_that_are_not_served_are_not_documented() -> None:
    (operations,) = v3("apis/authorization.k8s.io/v1")["paths"].values()
    assert set(operations) == {"post", "parameters"}


def test_merge_keys_survive() -> None:
    spec = v3("api/v1")["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["affinity"]["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Affinity"}]
    assert spec["affinity"]["description"]


def test_crd_definition() -> None:
    schema = v3("apis/kubeflow.org/v1")["components"]["schemas"]["org.kubeflow.v1.PyTorchJob"]
    assert schema["properties"]["spec"]["description"] == "What to do."
    assert schema["properties"]["metadata"]["allOf"][0]["$ref"].endswith(".ObjectMeta")
    assert schema["x-kubernetes-group-version-kind"] == [{"group": "kubeflow.org", "kind": "PyTorchJob", "version": "v1"}]
    assert "x-kubernetes-embedded-resource" not in schema


def test_building_leaves_the_schemas_alone() -> None:
    before = json.dumps(CRD_VERSION)
    v3_document(ALL, "apis/kubeflow.org/v1")
    assert json.dumps(CRD_VERSION) == before
