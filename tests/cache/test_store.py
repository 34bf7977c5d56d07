"""The store, step by step."""

from typing import Any

import pytest

from jobcommon.api.pod import PodView
from jobcommon.api.view import Identity, Owner
from jobcommon.cache.delta import Advanced, Removed, Replaced, Unreadable, Upserted
from jobcommon.cache.store import Change, ChangeKind, Store
from jobcommon.controller.orphans import owner_keys

ADDED, UPDATED, DELETED = ChangeKind.ADDED, ChangeKind.UPDATED, ChangeKind.DELETED


def a_pod(name: str = "p", version: int | str = 1, uid: str = "u", *, owner: str | None = None, ns: str = "n") -> PodView:
    owned = Owner("PyTorchJob", "job", owner) if owner else None
    return PodView(namespace=ns, name=name, uid=uid, resource_version=str(version), owner=owned)


def identity(pod: PodView) -> Identity:
    return Identity(pod.namespace, pod.name, pod.uid, pod.resource_version)


def removed(pod: PodView) -> Removed[PodView]:
    return Removed(identity(pod), pod)


def replaced(version: int, *pods: PodView, unreadable: tuple[Identity, ...] = ()) -> Replaced[PodView]:
    return Replaced(pods, str(version), 0.0, unreadable=unreadable)


def a_store(*deltas: Any) -> Store[PodView]:
    store: Store[PodView] = Store({"owner": owner_keys})
    for delta in deltas:
        store.apply(delta)
    return store


OLD = a_pod(version=5, uid="old")
NEW = a_pod(version=9, uid="new")
LATER = a_pod(version=7, uid="old")


@pytest.mark.parametrize(
    ("before", "delta", "changes", "left"),
    [
        pytest.param([], Upserted(OLD), [Change(ADDED, None, OLD)], [OLD], id="first"),
        pytest.param([OLD], Upserted(LATER), [Change(UPDATED, OLD, LATER)], [LATER], id="update"),
        pytest.param([OLD], Upserted(OLD), [], [OLD], id="repeated"),
        pytest.param([LATER], Upserted(OLD), [], [LATER], id="an older state does not win"),
        pytest.param(
            [OLD], Upserted(NEW), [Change(DELETED, OLD, None), Change(ADDED, None, NEW)], [NEW], id="recreated: two changes"
        ),
        pytest.param([NEW], Upserted(OLD), [], [NEW], id="late news of the predecessor"),
        pytest.param([OLD], removed(LATER), [Change(DELETED, LATER, None)], [], id="deleted, with the final state"),
        pytest.param(
            [OLD], Removed(identity(LATER), None), [Change(DELETED, OLD, None)], [], id="deleted, final state unknown"
        ),
        pytest.param(
            [LATER], removed(OLD), [Change(DELETED, OLD, None)], [], id="a deletion is final for its UID at any version"
        ),
        pytest.param([], removed(OLD), [], [], id="deleted, never seen"),
        pytest.param([NEW], removed(OLD), [], [NEW], id="late deletion of the predecessor"),
        pytest.param([OLD], removed(NEW), [Change(DELETED, OLD, None)], [], id="deletion of an unseen successor"),
        pytest.param([OLD], Advanced("50"), [], [OLD], id="bookmark"),
        pytest.param([OLD], Unreadable(None, "50", ""), [], [OLD], id="unreadable"),
        pytest.param([OLD], replaced(50), [Change(DELETED, OLD, None)], [], id="missing in a list: tombstone"),
        pytest.param([OLD], replaced(50, OLD), [], [OLD], id="unchanged in a list"),
        pytest.param([OLD], replaced(50, LATER), [Change(UPDATED, OLD, LATER)], [LATER], id="changed in a list"),
        pytest.param(
            [OLD], replaced(50, NEW), [Change(DELETED, OLD, None), Change(ADDED, None, NEW)], [NEW], id="recreated in a list"
        ),
        pytest.param([LATER], replaced(6, OLD), [Change(UPDATED, LATER, OLD)], [OLD], id="a list may go back (restore)"),
        pytest.param([OLD], replaced(50, unreadable=(identity(LATER),)), [], [OLD], id="unreadable in a list: kept"),
        pytest.param(
            [OLD],
            replaced(50, unreadable=(identity(NEW),)),
            [Change(DELETED, OLD, None)],
            [],
            id="successor unreadable in a list",
        ),
    ],
)
def test_step(before: list[PodView], delta: Any, changes: list[Change[PodView]], left: list[PodView]) -> None:
    store = a_store(*(Upserted(pod) for pod in before))
    assert store.apply(delta) == changes
    assert store.all() == left


@pytest.mark.parametrize(
    ("delta", "version"),
    [
        (Upserted(a_pod(version=21)), "21"),
        (Upserted(a_pod(version=19)), "20"),
        (removed(a_pod(version=22)), "22"),
        (Advanced("100"), "100"),
        (Advanced("9"), "20"),
        (Advanced(""), "20"),
        (Unreadable(None, "30", ""), "30"),
        (replaced(3), "3"),
    ],
)
def test_the_version_falls_by_a_list_only(delta: Any, version: str) -> None:
    store = a_store(replaced(20))
    store.apply(delta)
    assert store.resource_version == version


def test_deletions_of_a_list_come_first() -> None:
    gone, stays, comes = a_pod("gone", 1, "a"), a_pod("stays", 2, "b"), a_pod("comes", 3, "c")
    store = a_store(Upserted(gone), Upserted(stays))
    assert store.apply(replaced(9, comes, stays)) == [Change(DELETED, gone, None), Change(ADDED, None, comes)]


def test_an_object_that_changes_hands_is_found_under_its_new_owner_only() -> None:
    store = a_store(Upserted(a_pod(version=1, owner="x")), Upserted(a_pod(version=2, owner="y")))
    assert store.indexed("owner", ("n", "x")) == []
    assert store.indexed("owner", ("n", "y")) == [a_pod(version=2, owner="y")]


def test_an_index_forgets_what_nothing_is_under_any_more() -> None:
    store = a_store()
    for version in range(1, 100):
        store.apply(Upserted(a_pod(version=version, owner=f"owner-{version}")))
    assert list(store._indexed["owner"]) == [("n", "owner-99")]


def test_objects_are_found_by_namespace_and_owner_in_the_order_of_their_names() -> None:
    pods = [a_pod("b", 2, "b", owner="x"), a_pod("a", 3, "a", owner="x"), a_pod("c", 4, "c", owner="y")]
    store = a_store(replaced(7, *pods, a_pod("d", 5, "d", ns="m")))
    assert [pod.name for pod in store.all()] == ["d", "a", "b", "c"]
    assert [pod.name for pod in store.all("n")] == ["a", "b", "c"]
    assert [pod.name for pod in store.indexed("owner", ("n", "x"))] == ["a", "b"]
    assert store.indexed("owner", ("n", "nobody")) == []
    assert store.get("n", "d") is None
