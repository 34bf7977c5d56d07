"""Lists, pages, selectors and watches."""

import json

import pytest

from localcluster.apiserver.authentication import ADMIN
from localcluster.request import Request
from tests.server.api import CRS, Api, cr, crd, pod

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def api() -> Api:
    return Api()


def fill(api: Api, *names: str) -> None:
    for name in names:
        assert api.post(PODS, pod(name, labels={"app": name, "tier": "web" if name < "c" else "db"})).code == 201


def test_bookmarks_and_timeout(api: Api) -> None:
    watch = api.watch(PODS, allowWatchBookmarks="true", timeoutSeconds="150")
    assert watch.stream.next_at == api.now + 60
    fill(api, "a")
    api.now += 60
    watch.stream.tick()
    added, mark = watch.events()
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["resourceVersion"] == added["object"]["metadata"]["resourceVersion"]
    assert mark["object"]["kind"] == "Pod"
    api.now += 90
    watch.stream.tick()
    assert watch.events() == []
    assert watch.stream.closed


def test_a_watcher_that_falls_behind_the_history_is_told_so() -> None:
    api = Api(history=4)
    watch = api.watch(PODS)
    fill(api, *"abcdefghijkl")
    (event,) = watch.events()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert watch.stream.closed


def test_a_watch_ends_with_its_definition(api: Api) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.post(definitions, crd())
    api.post(CRS, cr("a"))
    watch = api.watch(CRS)
    api.delete(f"{definitions}/foos.ex.com")
    api.delete(f"{CRS}/a")
    api.patch(f"{definitions}/foos.ex.com", {"metadata": {"finalizers": None}})
    assert watch.seen() == [("DELETED", "a")]
    assert watch.stream.closed


def test_only_the_first_event_of_a_watch_has_the_columns_of_a_table(api: Api) -> None:
    fill(api, "a")
    accept = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    request = Request("GET", PODS, (("watch", "true"), ("resourceVersion", "0")), headers=accept)
    stream = api.server.watch(request, lambda: None, ADMIN)
    fill(api, "b")
    first, second = (json.loads(line)["object"] for line in stream.drain().splitlines())
    assert (first["columnDefinitions"][0]["name"], second["columnDefinitions"]) == ("Name", None)
    assert second["rows"][0]["cells"][0] == "b"
