"""The store, step by step."""

from collections.abc import Callable

import pytest

from jobcommon.api.pod import PodView
from jobcommon.api.view import Owner
from jobcommon.cache.store import Change, ChangeKind, Store
from jobcommon.controller.orphans import owner_keys

ADDED, UPDATED, DELETED = ChangeKind.ADDED, ChangeKind.UPDATED, ChangeKind.DELETED


def a_pod(name: str = "p", version: int | str = 1, uid: str = "u", *, owner: str | None = None, ns: str = "n") -> PodView:
    owned = Owner("PyTorchJob", "job", owner) if owner else None
    return PodView(namespace=ns, name=name, uid=uid, resource_version=str(version), owner=owned)


Step = Callable[[Store[PodView]], list[Change[PodView]]]


def upserted(pod: PodView) -> Step:
    return lambda store: store.upsert(pod)


def removed(pod: PodView, final: PodView | None = None) -> Step:
    return lambda store: store.remove(pod, final)


def replaced(version: int, *pods: PodView, unreadable: PodView | None = None) -> Step:
    known = {("n", unreadable.name): unreadable.uid} if unreadable is not None else {}
    return lambda store: store.replace({(pod.namespace, pod.name): pod for pod in pods}, str(version), known)


def advanced(version: str) -> Step:
    return lambda store: store.advance(version) or []


def a_store(*steps: Step) -> Store[PodView]:
    store: Store[PodView] = Store({"owner": owner_keys})
    for step in steps:
        step(store)
    return store


OLD = a_pod(version=5, uid="old")
NEW = a_pod(version=9, uid="new")
LATER = a_pod(version=7, uid="old")


@pytest.mark.parametrize(
    ("before", "step", "changes", "left"),
    [
        pytest.param([], upserted(OLD), [Change(ADDED, None, OLD)], [OLD], id="first"),
        pytest.param([OLD], upserted(LATER), [Change(UPDATED, OLD, LATER)], [LATER], id="update"),
        pytest.param([OLD], upserted(OLD), [], [OLD], id="repeated"),
        pytest.param([LATER], upserted(OLD), [], [LATER], id="an older state does not win"),
        pytest.param(
            [OLD], upserted(NEW), [Change(DELETED, OLD, None), Change(ADDED, None, NEW)], [NEW], id="recreated: two changes"
        ),
        pytest.param([NEW], upserted(OLD), [], [NEW], id="late news of the predecessor"),
        pytest.param([OLD], removed(LATER, LATER), [Change(DELETED, LATER, None)], [], id="deleted, with the final state"),
        pytest.param([OLD], removed(LATER), [Change(DELETED, OLD, None)], [], id="deleted, final state unknown"),
        pytest.param(
            [LATER], removed(OLD, OLD), [Change(DELETED, OLD, None)], [], id="a deletion is final for its UID at any version"
        ),
        pytest.param([], removed(OLD), [], [], id="deleted, never seen"),
        pytest.param([NEW], removed(OLD), [], [NEW], id="late deletion of the predecessor"),
        pytest.param([OLD], removed(NEW), [Change(DELETED, OLD, None)], [], id="deletion of an unseen successor"),
        pytest.param([OLD], advanced("50"), [], [OLD], id="bookmark"),
        pytest.param([OLD], replaced(50), [Change(DELETED, OLD, None)], [], id="missing in a list: tombstone"),
        pytest.param([OLD], replaced(50, OLD), [], [OLD], id="unchanged in a list"),
        pytest.param([OLD], replaced(50, LATER), [Change(UPDATED, OLD, LATER)], [LATER], id="changed in a list"),
        pytest.param(
            [OLD], replaced(50, NEW), [Change(DELETED, OLD, None), Change(ADDED, None, NEW)], [NEW], id="recreated in a list"
        ),
        pytest.param([LATER], replaced(6, OLD), [Change(UPDATED, LATER, OLD)], [OLD], id="a list may go back (restore)"),
        pytest.param([OLD], replaced(50, unreadable=LATER), [], [OLD], id="unreadable in a list: kept"),
        pytest.param(
            [OLD], replaced(50, unreadable=NEW), [Change(DELETED, OLD, None)], [], id="successor unreadable in a list"
        ),
    ],
)
def test_step(before: list[PodView], step: Step, changes: list[Change[PodView]], left: list[PodView]) -> None:
    store = a_store(*(upserted(pod) for pod in before))
    assert step(store) == changes
    assert store.all() == left


@pytest.mark.parametrize(
    ("step", "version"),
    [
        (upserted(a_pod(version=21)), "21"),
        (upserted(a_pod(version=19)), "20"),
        (removed(a_pod(version=22)), "22"),
        (advanced("100"), "100"),
        (advanced("9"), "20"),
        (advanced(""), "20"),
        (replaced(3), "3"),
    ],
)
def test_the_version_falls_by_a_list_only(step: Step, version: str) -> None:
    store = a_store(replaced(20))
    step(store)
    assert store.resource_version == version


def test_deletions_of_a_list_come_first() -> None:
    gone, stays, comes = a_pod("gone", 1, "a"), a_pod("stays", 2, "b"), a_pod("comes", 3, "c")
    store = a_store(upserted(gone), upserted(stays))
    assert replaced(9, comes, stays)(store) == [Change(DELETED, gone, None), Change(ADDED, None, comes)]


def test_an_object_that_changes_hands_is_found_under_its_new_owner_only() -> None:
    store = a_store(upserted(a_pod(version=1, owner="x")), upserted(a_pod(version=2, owner="y")))
    assert store.indexed("owner", ("n", "x")) == []
    assert store.indexed("owner", ("n", "y")) == [a_pod(version=2, owner="y")]


def test_an_index_forgets_what_nothing_is_under_any_more() -> None:
    store = a_store()
    for version in range(1, 100):
        store.upsert(a_pod(version=version, owner=f"owner-{version}"))
    assert list(store._indexed["owner"]) == [("n", "owner-99")]


def test_objects_are_found_by_namespace_and_owner_in_the_order_of_their_names() -> None:
    pods = [a_pod("b", 2, "b", owner="x"), a_pod("a", 3, "a", owner="x"), a_pod("c", 4, "c", owner="y")]
    store = a_store(replaced(7, *pods, a_pod("d", 5, "d", ns="m")))
    assert [pod.name for pod in store.all()] == ["d", "a", "b", "c"]
    assert [pod.name for pod in store.all("n")] == ["a", "b", "c"]
    assert [pod.name for pod in store.indexed("owner", ("n", "x"))] == ["a", "b"]
    assert store.indexed("owner", ("n", "nobody")) == []
    assert store.get("n", "d") is None
