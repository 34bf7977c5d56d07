"""The embedded cluster's controllers, stepped in process."""

from typing import Any

import pytest

from localcluster.controllers import Controllers
from tests.server.api import CRS, Api, cr, crd, pod

Json = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cluster(Api):
    """A server with its controllers."""

    def __init__(self) -> None:
        super().__init__()
        self.controllers = Controllers(self.server, root_ca="PEM")
        self.post(DEFINITIONS, crd())
        self.step()

    def step(self) -> float | None:
        return self.controllers.step()

    def owner(self, name: str, **meta: Any) -> Json:
        """A custom object, and an owner reference to it."""
        uid = self.post(CRS, cr(name, **meta)).body["metadata"]["uid"]
        return {"apiVersion": "ex.com/v1", "kind": "Foo", "name": name, "uid": uid}


@pytest.fixture
def api() -> Cluster:
    return Cluster()


def test_background_deletion_takes_the_dependents(api: Cluster) -> None:
    owner = api.owner("a")
    middle = api.post(MAPS, {"metadata": {"name": "m", "ownerReferences": [owner]}}).body["metadata"]
    api.post(PODS, pod("p", ownerReferences=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "m", "uid": middle["uid"]}]))
    api.post(PODS, pod("q"))
    api.step()
    api.delete(f"{CRS}/a")
    api.step()
    assert api.get(f"{MAPS}/m").code == 404
    assert api.get(PODS).names == ["q"]


def test_ownership_is_by_uid_not_by_name(api: Cluster) -> None:
    owner = api.owner("a")
    api.delete(f"{CRS}/a")
    api.owner("a")
    api.post(PODS, pod("p", ownerReferences=[owner]))
    api.step()
    assert api.get(PODS).names == []


def test_foreground_deletion_waits_for_blocking_dependents(api: Cluster) -> None:
    owner = {**api.owner("a"), "blockOwnerDeletion": True}
    api.post(PODS, pod("p", ownerReferences=[owner], finalizers=["ex.com/hold"]))
    api.step()
    api.delete(f"{CRS}/a", {"propagationPolicy": "Foreground"})
    api.step()
    assert "deletionTimestamp" in api.get(f"{PODS}/p").body["metadata"]
    assert api.get(f"{CRS}/a").body["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.patch(f"{PODS}/p", {"metadata": {"finalizers": None}})
    api.step()
    assert (api.get(f"{PODS}/p").code, api.get(f"{CRS}/a").code) == (404, 404)


def test_orphaning(api: Cluster) -> None:
    owner = api.owner("a")
    api.post(PODS, pod("p", ownerReferences=[owner]))
    api.step()
    api.delete(f"{CRS}/a", {"propagationPolicy": "Orphan"})
    api.step()
    assert api.get(f"{CRS}/a").code == 404
    assert "ownerReferences" not in api.get(f"{PODS}/p").body["metadata"]


def test_namespaces_have_their_contents_and_are_emptied(api: Cluster) -> None:
    api.post("/api/v1/namespaces", {"metadata": {"name": "n"}})
    api.step()
    assert api.get("/api/v1/namespaces/n/serviceaccounts").names == ["default"]
    assert api.get("/api/v1/namespaces/n/configmaps/kube-root-ca.crt").body["data"] == {"ca.crt": "PEM"}
    api.post("/api/v1/namespaces/n/pods", pod("p", finalizers=["ex.com/hold"]))
    api.post("/apis/ex.com/v1/namespaces/n/foos", cr("a"))
    answer = api.delete("/api/v1/namespaces/n")
    assert answer.body["status"]["phase"] == "Terminating"
    api.step()
    assert api.get("/apis/ex.com/v1/namespaces/n/foos").names == []
    assert api.get("/api/v1/namespaces/n").code == 200
    api.patch("/api/v1/namespaces/n/pods/p", {"metadata": {"finalizers": None}})
    api.step()
    assert api.get("/api/v1/namespaces/n").code == 404
    assert api.post("/api/v1/namespaces", {"metadata": {"name": "n"}}).code == 201


def test_deleting_a_definition_deletes_its_objects(api: Cluster) -> None:
    api.post(CRS, cr("a", finalizers=["ex.com/hold"]))
    api.post(CRS, cr("b"))
    api.delete(f"{DEFINITIONS}/foos.ex.com")
    api.step()
    assert api.get(CRS).names == ["a"]
    api.patch(f"{CRS}/a", {"metadata": {"finalizers": None}})
    api.step()
    assert api.get(f"{DEFINITIONS}/foos.ex.com").code == 404
    assert api.get(CRS).code == 404
    api.post(DEFINITIONS, crd())
    assert api.get(CRS).names == []


def test_events_live_for_an_hour(api: Cluster) -> None:
    events = "/api/v1/namespaces/default/events"
    about = {"involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}}
    api.post(events, {"metadata": {"name": "old"}, **about})
    due = api.step()
    assert due is not None
    api.now += 1800
    api.post(events, {"metadata": {"name": "new"}, **about})
    api.now += 1801
    assert api.get(events).names == ["new", "old"]
    api.step()
    assert api.get(events).names == ["new"]
