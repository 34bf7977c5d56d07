"""Discovery, health and the OpenAPI documents."""

from typing import Any

import pytest

from tests.server.api import Api, crd

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post(DEFINITIONS, crd())
    return api


def by_name(rows: list[Json]) -> dict[str, Json]:
    return {row["name"]: row for row in rows}


def test_core_resources(api: Api) -> None:
    body = api.get("/api/v1").body
    rows = by_name(body["resources"])
    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", "v1")
    assert rows["pods"]["shortNames"] == ["po"]
    assert rows["pods"]["categories"] == ["all"]
    assert not rows["namespaces"]["namespaced"]
    assert {"pods/status", "pods/log", "pods/exec", "pods/eviction", "services/status"} <= set(rows)
    assert rows["pods/eviction"]["kind"] == "Eviction"
    assert api.get("/api").body["versions"] == ["v1"]


def test_groups_prefer_their_best_version(api: Api) -> None:
    groups = by_name(api.get("/apis").body["groups"])
    assert groups["ex.com"]["preferredVersion"] == {"groupVersion": "ex.com/v1", "version": "v1"}
    assert [version["version"] for version in groups["ex.com"]["versions"]] == ["v1", "v1beta1"]
    assert api.get("/apis/ex.com").body["name"] == "ex.com"
    rows = by_name(api.get("/apis/ex.com/v1").body["resources"])
    assert set(rows) == {"foos", "foos/scale", "foos/status"}
    assert (rows["foos/scale"]["kind"], rows["foos/scale"]["group"]) == ("Scale", "autoscaling")


def test_every_served_kind_has_a_path_in_the_documents(api: Api) -> None:
    index = api.get("/openapi/v3").body["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/ex.com/v1", "apis/ex.com/v1beta1"} <= set(index)
    path, _, query = index["apis/ex.com/v1"]["serverRelativeURL"].partition("?")
    document = api.get(path, **dict([query.split("=")])).body
    assert "/apis/ex.com/v1/namespaces/{namespace}/foos/{name}" in document["paths"]
    assert api.get("/openapi/v3/apis/none/v1").code == 404


def test_documents_follow_the_definitions(api: Api) -> None:
    assert "apis/ex.com/v1" in api.get("/openapi/v3").body["paths"]
    api.patch(f"{DEFINITIONS}/foos.ex.com", {"metadata": {"finalizers": None}})
    api.delete(f"{DEFINITIONS}/foos.ex.com")
    assert "apis/ex.com/v1" not in api.get("/openapi/v3").body["paths"]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/readyz/ping", "/livez?verbose"])
def test_health(api: Api, path: str) -> None:
    assert (api.get(path).code, api.get(path).response.body) == (200, b"ok")
