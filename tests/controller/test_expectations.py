"""Expectations: tables, and a random walk against a reference model."""

from collections.abc import Callable
from copy import deepcopy
from math import inf

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

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


def test_a_job_without_expectations_is_satisfied() -> None:
    known = Expectations()
    assert known.satisfied("job", 0.0)
    assert known.next_expiry("job") is None
    assert known.lapsed("job", inf) == ()


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


def test_all_must_be_met_over_replica_types_and_resources() -> None:
    known = Expectations()
    for resource, name in [("pods", "job-master-0"), ("pods", "job-worker-0"), ("services", "job")]:
        known.expect_creation("job", resource, name, 0.0)
    known.observe_created("job", "pods", "job-master-0")
    known.observe_created("job", "services", "job")
    assert not known.satisfied("job", 0.0)
    known.observe_created("job", "pods", "job-worker-0")
    assert known.satisfied("job", 0.0)


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


def test_an_observation_before_the_expectation_does_not_count() -> None:
    known = Expectations()
    known.observe_created("job", "pods", "p-0")
    known.expect_creation("job", "pods", "p-0", 0.0)
    assert not known.satisfied("job", 0.0)


def test_an_observation_seen_twice_counts_once() -> None:
    known = expecting(creation=True)
    known.expect_creation("job", "pods", "p-1", 0.0)
    known.observe_created("job", "pods", "p-0")
    known.observe_created("job", "pods", "p-0")
    assert known.lapsed("job", inf) == (Creation("pods", "p-1"),)


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


def test_raising_one_again_renews_it() -> None:
    known = expecting(creation=True, at=0.0)
    known.expect_creation("job", "pods", "p-0", 100.0)
    assert known.next_expiry("job") == 100.0 + TIMEOUT


def test_a_job_of_the_same_name_with_another_uid_starts_free() -> None:
    known = expecting(creation=True)
    assert known.satisfied("another uid", 0.0)
    known.forget("job")
    assert known.satisfied("job", 0.0)
    assert len(known) == 0


class ExpectationsWalk(RuleBasedStateMachine):
    """The model: one flat set of (job, what, when)."""

    jobs = st.sampled_from(["x", "y"])
    things = st.one_of(
        st.builds(Creation, st.sampled_from(["pods", "services"]), st.sampled_from(["a", "b"])),
        st.builds(Deletion, st.sampled_from(["a", "b"])),
    )

    def __init__(self) -> None:
        super().__init__()
        self.known = Expectations(timeout=10.0)
        self.model: dict[tuple[str, Creation | Deletion], float] = {}
        self.now = 0.0

    @rule(job=jobs, thing=things)
    def expect(self, job: str, thing: Creation | Deletion) -> None:
        if isinstance(thing, Creation):
            self.known.expect_creation(job, thing.resource, thing.name, self.now)
        else:
            self.known.expect_deletion(job, thing.uid, self.now)
        self.model[(job, thing)] = self.now + 10.0

    @rule(job=jobs, thing=things, observed=st.booleans())
    def meet(self, job: str, thing: Creation | Deletion, observed: bool) -> None:
        if isinstance(thing, Creation):
            lower = self.known.observe_created if observed else self.known.creation_failed
            lower(job, thing.resource, thing.name)
        else:
            (self.known.observe_deleted if observed else self.known.deletion_failed)(job, thing.uid)
        self.model.pop((job, thing), None)

    @rule(delay=st.sampled_from([1.0, 5.0, 10.0]))
    def pass_time(self, delay: float) -> None:
        self.now += delay

    @rule(job=jobs)
    def lapse(self, job: str) -> None:
        lapsed = {thing for (owner, thing), when in self.model.items() if owner == job and when <= self.now}
        assert set(self.known.lapsed(job, self.now)) == lapsed
        self.model = {key: when for key, when in self.model.items() if key[0] != job or key[1] not in lapsed}

    @rule(job=jobs)
    def forget(self, job: str) -> None:
        self.known.forget(job)
        self.model = {key: when for key, when in self.model.items() if key[0] != job}

    @invariant()
    def same(self) -> None:
        for job in ("x", "y"):
            times = {thing: when for (owner, thing), when in self.model.items() if owner == job}
            assert set(deepcopy(self.known).lapsed(job, inf)) == set(times)
            assert self.known.satisfied(job, self.now) == all(when <= self.now for when in times.values())
            assert self.known.next_expiry(job) == max(times.values(), default=None)
        assert len(self.known) == len({owner for owner, _ in self.model})


TestExpectationsWalk = ExpectationsWalk.TestCase
TestExpectationsWalk.settings = settings(
    max_examples=60, stateful_step_count=40, derandomize=True, deadline=None, database=None
)
