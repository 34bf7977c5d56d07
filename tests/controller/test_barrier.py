"""The barrier, and versions that it can compare or cannot; and expectations."""

import pytest

from jobcommon.api.version import is_older, is_valid
from jobcommon.controller.barrier import Barrier
from jobcommon.controller.expectations import TIMEOUT, Creation, Deletion, Expectations

BIG = "9" * 400


@pytest.mark.parametrize("text", ["", "0", "01", "-1", "+1", "1.5", "1e3", " 1", "1 ", "1_0", "x", "٣", "²", "..."])
def test_text_that_is_no_positive_whole_number_is_no_version_and_older_than_none(text: str) -> None:
    assert (is_valid(text), is_older(text, "5"), is_older("5", text)) == (False, False, False)


@pytest.mark.parametrize(
    ("version", "than", "older"),
    [("1", "2", True), ("9", "10", True), ("10", "9", False), ("7", "7", False), ("99", "100", True), ("5", BIG, True)],
)
def test_versions_are_compared_as_numbers(version: str, than: str, older: bool) -> None:
    assert (is_valid(version), is_older(version, than)) == (True, older)


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
    barrier = Barrier()
    for version in written:
        barrier.wrote("job", "pods", version, 100.0)
    assert barrier.behind("job", {"pods": store}) == (("pods",) if blocked else ())


def test_all_expectations_of_a_job_must_be_met_or_lapse() -> None:
    found = Expectations()
    found.expect("a", Creation("pods", "p"), 0.0)
    found.expect("a", Creation("services", "p"), 1.0)
    found.expect("b", Deletion("uid-p"), 2.0)
    assert found.lower("a", Creation("pods", "p"))
    assert not found.lower("a", Creation("pods", "p")), "known already"
    assert not found.lower("a", Deletion("uid-p")), "of another job"
    assert [found.next_expiry(uid) for uid in "abc"] == [1.0 + TIMEOUT, 2.0 + TIMEOUT, None]
    assert found.lapsed("a", TIMEOUT) == ()
    assert found.lapsed("a", 1.0 + TIMEOUT) == (Creation("services", "p"),)
    assert found.lapsed("b", 2.0 + TIMEOUT) == (Deletion("uid-p"),)
    found.expect("b", Deletion("uid-p"), 2.0)
    found.forget("b")
    assert len(found) == 0
