"""The store: tables for single steps, and a random walk against a reference model."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from jobcommon.api.pod import PodView
from jobcommon.api.view import Identity, Owner
from jobcommon.cache.delta import Advanced, Removed, Replaced, Unreadable, Upserted
from jobcommon.cache.store import Change, ChangeKind, Store
from jobcommon.controller.orphans import owner_uids

ADDED, UPDATED, DELETED = ChangeKind.ADDED, ChangeKind.UPDATED, ChangeKind.DELETED


def a_pod(name: str = "p", version: int | str = 1, uid: str = "u", *, owner: str | None = None, ns: str = "n") -> PodView:
    owned = Owner("PyTorchJob", "job", owner) if owner else None
    return PodView(namespace=ns, name=name, uid=uid, resource_version=str(version), owner=owned)


def identity(pod: PodView) -> Identity:
    return Identity(pod.namespace, pod.name, pod.uid, pod.resource_version)


def removed(pod: PodView) -> Removed[PodView]:
    return Removed(identity(pod), pod)


def replaced(version: int, *pods: PodView, unreadable: tuple[Identity, ...] = ()) -> Replaced[PodView]:
    return Replaced(pods, str(version), 0.0, quorum=True, unreadable=unreadable)


def a_store(*deltas: Any) -> Store[PodView]:
    store: Store[PodView] = Store({"owner": owner_uids})
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
    assert store.indexed("owner", "x") == []
    assert store.indexed("owner", "y") == [a_pod(version=2, owner="y")]


def test_an_index_forgets_what_nothing_is_under_any_more() -> None:
    store = a_store()
    for version in range(1, 100):
        store.apply(Upserted(a_pod(version=version, owner=f"owner-{version}")))
    assert list(store._indexed["owner"]) == ["owner-99"]


def test_an_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError):
        a_store().indexed("nonesuch", "x")


class StoreWalk(RuleBasedStateMachine):
    """A cluster that changes, seen through a watch in order; the model is the cluster itself."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster: dict[str, PodView] = {}
        self.version = 0
        self.store = a_store()
        self.seen: dict[str, PodView] = {}
        self.told: dict[str, PodView] = {}

    def feed(self, delta: Any) -> None:
        """The changes alone must suffice to follow the store: each is consistent with those before."""
        for change in self.store.apply(delta):
            match change:
                case Change(kind=ChangeKind.ADDED, old=None, new=PodView() as new):
                    assert new.name not in self.told
                    self.told[new.name] = new
                case Change(kind=ChangeKind.UPDATED, old=PodView() as old, new=PodView() as new):
                    assert self.told[new.name] == old
                    assert old.uid == new.uid
                    self.told[new.name] = new
                case Change(kind=ChangeKind.DELETED, old=PodView() as old, new=None):
                    assert self.told.pop(old.name).uid == old.uid
                case _:
                    pytest.fail(f"malformed {change}")

    names = st.sampled_from(["a", "b", "c"])
    owners = st.sampled_from([None, "x", "y"])

    @rule(name=names, owner=owners, watched=st.booleans())
    def write(self, name: str, owner: str | None, watched: bool) -> None:
        self.version += 1
        uid = self.cluster[name].uid if name in self.cluster else f"{name}{self.version}"
        self.cluster[name] = a_pod(name, self.version, uid, owner=owner)
        if watched:
            self.catch_up()

    @rule(name=names, watched=st.booleans())
    def delete(self, name: str, watched: bool) -> None:
        if name in self.cluster:
            self.version += 1
            del self.cluster[name]
            if watched:
                self.catch_up()

    @rule()
    def catch_up(self) -> None:
        """The watch with deletion and recreation coalesced, as after a reconnect."""
        for name in sorted(set(self.seen) | set(self.cluster)):
            now, before = self.cluster.get(name), self.seen.get(name)
            if now is not None:
                self.feed(Upserted(now))
            elif before is not None:
                self.feed(Removed(Identity("n", name, before.uid, str(self.version)), None))
        self.feed(Advanced(str(self.version)))
        self.seen = dict(self.cluster)

    @rule()
    def list_anew(self) -> None:
        self.feed(replaced(self.version, *self.cluster.values()))
        self.seen = dict(self.cluster)

    @rule(name=names)
    def repeat(self, name: str) -> None:
        if name in self.seen:
            self.feed(Upserted(self.seen[name]))

    @invariant()
    def store_is_what_was_seen(self) -> None:
        assert {pod.name: pod for pod in self.store.all()} == self.seen == self.told
        assert [pod.name for pod in self.store.all()] == sorted(self.seen)
        for owner in ("x", "y"):
            expected = [
                self.seen[name] for name in sorted(self.seen) if self.seen[name].owner == Owner("PyTorchJob", "job", owner)
            ]
            assert self.store.indexed("owner", owner) == expected


TestStoreWalk = StoreWalk.TestCase
TestStoreWalk.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True, deadline=None, database=None)
