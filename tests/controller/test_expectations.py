"""Expectations: what meets one, and when it lapses. tests/properties compares every order of calls with a model."""

from collections.abc import Callable
from math import inf

import pytest

from jobcommon.controller.expectations import TIMEOUT, Creation, Deletion, Expectations

LOWER: dict[str, Callable[[Expectations], None]] = {
    "observed created": lambda known: known.observe_created("job", "pods", "p-0"),
    "creation failed": lambda known: known.creation_failed("job", "pods", "p-0"),
    "observed deleted": lambda known: known.observe_deleted("job", "pod-uid"),
    "deletion failed": lambda known: known.deletion_failed("job", "pod-uid"),
}
IRRELEVANT: dict[str, Callable[[Expectations], None]] = {
    "another name": lambda known: known.observe_created("job", "pods", "p-1"),
    "another resource": lambda known: known.observe_created("job", "services", "p-0"),
    "another job": lambda known: known.observe_created("other", "pods", "p-0"),
    "another pod": lambda known: known.observe_deleted("job", "other-uid"),
    "another job's pod": lambda known: known.observe_deleted("other", "pod-uid"),
    "another job is forgotten": lambda known: known.forget("other"),
}


def expecting(*, creation: bool = False, deletion: bool = False, at: float = 0.0) -> Expectations:
    known = Expectations()
    if creation:
        known.expect_creation("job", "pods", "p-0", at)
    if deletion:
        known.expect_deletion("job", "pod-uid", at)
    return known


@pytest.mark.parametrize("lower", LOWER.values(), ids=LOWER.keys())
def test_each_way_to_meet_one(lower: Callable[[Expectations], None], request: pytest.FixtureRequest) -> None:
    deletion = "delet" in request.node.callspec.id
    known = expecting(creation=not deletion, deletion=deletion)
    assert not known.satisfied("job", 0.0)
    lower(known)
    assert known.satisfied("job", 0.0)
    assert len(known) == 0


@pytest.mark.parametrize("irrelevant", IRRELEVANT.values(), ids=IRRELEVANT.keys())
def test_events_of_other_objects_meet_no_expectation(irrelevant: Callable[[Expectations], None]) -> None:
    known = expecting(creation=True, deletion=True)
    irrelevant(known)
    assert known.lapsed("job", inf) == (Creation("pods", "p-0"), Deletion("pod-uid"))


def test_ten_creations_and_thirty_deletions() -> None:
    """Section L: not satisfied after 11 creations, satisfied after 31 deletions; what is observed in excess is harmless."""
    known = Expectations()
    for number in range(10):
        known.expect_creation("job", "pods", f"p-{number}", 0.0)
    for number in range(30):
        known.expect_deletion("job", f"uid-{number}", 0.0)
    for number in range(11):
        known.observe_created("job", "pods", f"p-{number}")
    assert not known.satisfied("job", 0.0)
    for number in range(31):
        known.observe_deleted("job", f"uid-{number}")
    assert known.satisfied("job", 0.0)
    assert len(known) == 0


def test_expectations_lapse_at_their_expiry() -> None:
    known = expecting(creation=True, at=10.0)
    known.expect_deletion("job", "pod-uid", 20.0)
    assert known.next_expiry("job") == 20.0 + TIMEOUT
    assert not known.satisfied("job", 10.0 + TIMEOUT)
    assert known.lapsed("job", 10.0 + TIMEOUT) == (Creation("pods", "p-0"),)
    assert not known.satisfied("job", 19.9 + TIMEOUT)
    assert known.satisfied("job", 20.0 + TIMEOUT)
    assert known.lapsed("job", 20.0 + TIMEOUT) == (Deletion("pod-uid"),)
    assert known.lapsed("job", 1e9) == ()
    assert len(known) == 0


def test_a_job_of_the_same_name_with_another_uid_starts_free() -> None:
    known = expecting(creation=True)
    assert known.satisfied("another uid", 0.0)
    known.forget("job")
    assert known.satisfied("job", 0.0)
    assert len(known) == 0
