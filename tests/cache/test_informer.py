"""The informer and its store, driven through the wire format."""

import json
from typing import Any

from jobcommon.api.labels import JOB_NAME
from jobcommon.api.pod import PodView, pod_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Stream
from jobcommon.cache.store import Batch, ChangeKind, Relisted, Store
from jobcommon.client.errors import StatusError
from jobcommon.client.request import Response
from jobcommon.controller.orphans import owner_uids


def a_pod(name: str, version: int, *, owner: str = "", job: str = "") -> dict[str, Any]:
    return {
        "metadata": {
            "namespace": "n",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(version),
            "labels": {JOB_NAME: job} if job else None,
            "ownerReferences": [{"kind": "PyTorchJob", "name": "j", "uid": owner, "controller": True}] if owner else None,
        }
    }


def a_list(version: int, *pods: Any) -> Response:
    return Response(200, json.dumps({"metadata": {"resourceVersion": str(version)}, "items": pods}).encode())


def an_informer() -> tuple[Informer[PodView], Store[PodView]]:
    store: Store[PodView] = Store({"owner": owner_uids})
    return Informer("/api/v1/pods", pod_view, store, lambda: 0.0, streamed_lists=False), store


def test_the_first_complete_list_syncs_the_informer() -> None:
    informer, store = an_informer()
    assert isinstance(informer.next(5.0), Fetch)
    assert informer.received(Response(500, b""), 5.0) == Batch()
    assert not informer.synced
    informer.next(100.0)
    batch = informer.received(a_list(7, a_pod("a", 3), {"metadata": {}}), 101.0)
    assert informer.synced
    assert [(change.kind, change.new and change.new.name) for change in batch.changes] == [(ChangeKind.ADDED, "a")]
    assert [skipped.identity for skipped in batch.unreadable] == [None]
    assert batch.relisted == Relisted("7", 100.0, quorum=True)
    assert store.resource_version == "7"


def test_the_store_is_up_to_date_when_a_change_is_told() -> None:
    informer, store = an_informer()
    informer.next(0.0)
    informer.received(a_list(7), 0.0)
    assert isinstance(informer.next(0.0), Stream)
    assert informer.streaming
    batch = informer.line(json.dumps({"type": "ADDED", "object": a_pod("a", 8)}).encode(), 1.0)
    (change,) = batch.changes
    assert store.get("n", "a") is change.new
    assert batch.relisted is None
    assert store.resource_version == "8"


def test_an_informer_stays_synced_while_it_recovers() -> None:
    informer, store = an_informer()
    informer.next(0.0)
    informer.received(a_list(7, a_pod("a", 3)), 0.0)
    informer.next(0.0)
    assert informer.deadline is not None
    informer.timed_out(informer.deadline)
    assert not informer.streaming
    informer.next(200.0)
    informer.failed(StatusError(500), 200.0)
    informer.next(300.0)
    batch = informer.received(a_list(9), 300.0)
    assert informer.synced
    assert [change.kind for change in batch.changes] == [ChangeKind.DELETED]
    assert batch.relisted == Relisted("9", 300.0, quorum=False)
    assert store.all() == []
    informer.next(300.0)
    informer.relist()
    assert isinstance(informer.next(300.0), Fetch)


def test_an_ended_stream_is_opened_again() -> None:
    informer, _ = an_informer()
    informer.next(0.0)
    informer.received(a_list(7), 0.0)
    informer.next(0.0)
    informer.ended(60.0)
    assert isinstance(informer.next(60.0), Stream)


def test_the_store_finds_by_key_namespace_and_owner() -> None:
    informer, store = an_informer()
    informer.next(0.0)
    pods = [a_pod("b", 2, owner="x", job="j"), a_pod("a", 3, owner="x"), a_pod("c", 4, owner="y", job="j")]
    other = a_pod("d", 5, job="j")
    other["metadata"]["namespace"] = "m"
    informer.received(a_list(7, *pods, other), 0.0)

    def names(found: list[PodView]) -> list[str]:
        return [pod.name for pod in found]

    assert names(store.all()) == ["d", "a", "b", "c"]
    assert names(store.all("n")) == ["a", "b", "c"]
    assert names(store.indexed("owner", "x")) == ["a", "b"]
    assert names(store.indexed("owner", "nobody")) == []
    assert store.get("n", "d") is None
