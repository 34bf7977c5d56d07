"""The read-your-writes barrier, and the comparison of versions it rests on."""

import pytest

from jobcommon.api.resource_version import is_older, is_valid
from jobcommon.controller.barrier import STALL, Barrier

BIG = "9" * 400


@pytest.mark.parametrize("version", ["1", "9", "10", "18446744073709551616", BIG])
def test_positive_whole_numbers_are_versions(version: str) -> None:
    assert is_valid(version)


@pytest.mark.parametrize("version", ["", "0", "01", "-1", "+1", "1.5", "1e3", " 1", "1 ", "1_0", "x", "٣", "²", "..."])
def test_other_text_is_no_version_and_older_than_none(version: str) -> None:
    assert not is_valid(version)
    assert not is_older(version, "5")
    assert not is_older("5", version)


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [("1", "2", True), ("9", "10", True), ("10", "9", False), ("7", "7", False), ("99", "100", True), ("5", BIG, True)],
)
def test_versions_are_compared_as_numbers(version: str, than: str, older: bool) -> None:
    assert is_older(version, than) is older


def wrote(*versions: str, resource: str = "pods") -> Barrier:
    barrier = Barrier()
    for version in versions:
        barrier.wrote("job", resource, version, 100.0)
    return barrier


@pytest.mark.parametrize(
    ("written", "store", "blocked"),
    [
        (["10"], "9", True),
        (["10"], "10", False),
        (["10"], "11", False),
        (["9", "10"], "9", True),
        (["10", "9"], "9", True),
        (["99", "100"], "99", True),
        ([], "1", False),
        (["0"], "1", False),
        ([""], "1", False),
        (["garbage"], "1", False),
        (["10"], "", False),
        (["10"], "0", False),
        (["10"], "garbage", False),
    ],
)
def test_a_job_is_held_up_while_a_store_is_older_than_its_last_write(written: list[str], store: str, blocked: bool) -> None:
    assert wrote(*written).behind("job", {"pods": store}) == (("pods",) if blocked else ())


def test_each_resource_and_job_stands_for_itself() -> None:
    barrier = Barrier()
    barrier.wrote("job", "services", "20", 0.0)
    barrier.wrote("job", "pods", "10", 0.0)
    barrier.wrote("other", "jobs", "99", 0.0)
    assert barrier.behind("job", {"pods": "5", "services": "5", "jobs": "5"}) == ("pods", "services")
    assert barrier.behind("job", {"pods": "15", "services": "15"}) == ("services",)
    assert barrier.behind("other", {"pods": "5"}) == (), "a resource without a store"
    assert barrier.behind("stranger", {"pods": "1"}) == ()


def test_a_write_that_its_store_has_seen_is_not_kept() -> None:
    barrier = wrote("10")
    barrier.wrote("job", "services", "20", 100.0)
    assert barrier.behind("job", {"pods": "10", "services": "19"}) == ("services",)
    assert barrier.behind("job", {"pods": "9", "services": "19"}) == ("services",), "the store of pods cannot have been older"
    assert len(barrier) == 1, "of services"
    assert barrier.behind("job", {"services": ""}) == ()
    assert len(barrier) == 1, "the store of services has not seen it"
    assert barrier.behind("job", {"services": "20"}) == ()
    assert len(barrier) == 0


def test_a_forgotten_job_is_held_up_by_nothing() -> None:
    barrier = wrote("10")
    barrier.forget("job")
    barrier.forget("stranger")
    assert barrier.behind("job", {"pods": "1"}) == ()
    assert len(barrier) == 0


@pytest.mark.parametrize(
    ("listed", "requested_at", "lost"),
    [
        pytest.param("9", 101.0, True, id="history rewritten: the write is in no list"),
        pytest.param("9", 99.0, False, id="a list from before the write proves nothing"),
        pytest.param("9", 100.0, False, id="a list from the same instant proves nothing"),
        pytest.param("10", 101.0, False, id="the write is in the list"),
        pytest.param("garbage", 101.0, False, id="nothing to compare"),
    ],
)
def test_a_quorum_list_below_our_own_write_resets_the_barrier(listed: str, requested_at: float, lost: bool) -> None:
    barrier = wrote("10")
    assert barrier.reset("services", "1", 1000.0) == ()
    assert barrier.reset("pods", listed, requested_at) == (("job",) if lost else ())
    assert barrier.behind("job", {"pods": "9"}) == (() if lost else ("pods",))
    assert len(barrier) == (0 if lost else 1)


def test_reset_names_all_jobs_and_spares_their_other_resources() -> None:
    barrier = Barrier()
    for uid in ("z", "a"):
        barrier.wrote(uid, "pods", "10", 0.0)
        barrier.wrote(uid, "jobs", "10", 0.0)
    assert barrier.reset("pods", "5", 1.0) == ("a", "z")
    assert barrier.behind("a", {"pods": "5", "jobs": "5"}) == ("jobs",)


def test_a_store_that_stays_behind_has_stalled() -> None:
    barrier = wrote("10")
    assert barrier.stalled("job", {"pods": "9"}, 99.9 + STALL) == ()
    assert barrier.stalled("job", {"pods": "9"}, 100.0 + STALL) == ("pods",)
    assert barrier.stalled("job", {"pods": "10"}, 100.0 + STALL) == ()
