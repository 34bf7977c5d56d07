"""Every kind of poison once, among healthy jobs of all four frameworks."""

import json
from dataclasses import replace

import pytest

from jobcommon.testutil.poison.kinds import FRAMEWORKS, KINDS, Poison, Verdict
from jobcommon.testutil.poison.trial import Course, Trial, run_trial

HEALTHY_JOBS = 8


@pytest.fixture(scope="module")
def trial() -> Trial:
    return run_trial(KINDS, HEALTHY_JOBS)


def course_of(trial: Trial, poison: Poison) -> Course:
    return next(course for course in trial.courses.values() if course.poison is poison)


@pytest.mark.parametrize("poison", KINDS, ids=lambda poison: f"{poison.row}-{poison.framework.name}-{poison.title}")
def test_a_poisoned_job_gets_what_it_deserves(trial: Trial, poison: Poison) -> None:
    assert course_of(trial, poison).faults() == []


def test_the_healthy_ones_do_not_notice(trial: Trial) -> None:
    assert [fault for course in trial.healthy() for fault in course.faults()] == []
    assert len(trial.healthy()) == HEALTHY_JOBS
    assert trial.surplus_runs == 0


def test_there_are_no_faults_and_no_errors_in_the_log(trial: Trial) -> None:
    """Events, and errors in the log: poison is nothing unexpected."""
    assert trial.faults() == []
    assert [line for line in map(json.loads, trial.log.splitlines()) if line["level"] == "error"] == []


def test_failed_poison_keeps_quiet(trial: Trial) -> None:
    failed = [c for c in trial.courses.values() if c.poison and c.poison.verdict in (Verdict.INVALID, Verdict.REFUSED)]
    # The status write comes back, and what had been made for it goes, a change or two for each of these things. On a slow
    # machine each is a look of its own. One more may be on its way when the end is written.
    assert [c.poison.title for c in failed if c.poison and c.syncs_after_end > c.changes_since_end + 1] == []
    assert max(course.changes_since_end for course in failed) <= 8
    assert trial.hot_share() == 0


def test_there_are_enough_kinds_for_every_framework() -> None:
    assert len(KINDS) >= 40
    assert len({(poison.title, poison.row) for poison in KINDS}) == len(KINDS)
    for framework in FRAMEWORKS:
        assert sum(poison.framework is framework for poison in KINDS) >= 10


def test_the_verdicts_can_fail() -> None:
    """A course that ended otherwise than its poison says is a fault, whatever the poison says."""
    wrong = [
        replace(KINDS[0], says="something else"),
        replace(KINDS[0], verdict=Verdict.RUNS),
        replace(KINDS[0], verdict=Verdict.IGNORED),
        replace(KINDS[-2], verdict=Verdict.INVALID),
        replace(KINDS[-2], event="Unheard"),
    ]
    trial = run_trial(wrong, 0)
    faults = trial.faults()
    assert [sum(poison.title in fault for fault in faults) for poison in (KINDS[0], KINDS[-2])] == [3, 2]
