"""Conditions: the cases of the reference's tests, and the order rule."""

import pytest

from jobcommon.api.status import MAX_MESSAGE, ConditionType, JobCondition, read_status
from jobcommon.reconcile.rendering import MAX_FOREIGN, Conditions, Note, Sentence, Statement, normalized, set_condition
from jobcommon.spec import read_job
from jobcommon.testutil.builders import START, condition, job_manifest
from jobcommon.testutil.frameworks import TEST_JOB

RUNNING = Sentence("Running", end="")


def shown(conditions: tuple[JobCondition, ...]) -> str:
    return " ".join(f"{c.type}={c.status[0]}" for c in conditions)


def after(*steps: str) -> tuple[JobCondition, ...]:
    conditions: tuple[JobCondition, ...] = ()
    for number, step in enumerate(steps):
        kind, _, status = step.partition("=")
        stated = Statement(ConditionType(kind), status != "F", f"{kind}Reason", Sentence(kind, end=""))
        conditions = set_condition(conditions, stated, START + number)
    return conditions


@pytest.mark.parametrize(("steps", "expected"), [
    pytest.param(["Created"], "Created=T", id="A1.1"),
    pytest.param(["Created", "Running"], "Created=T Running=T", id="A1.2"),
    pytest.param(["Created", "Running", "Restarting"], "Created=T Restarting=T", id="A1.3"),
    pytest.param(["Created", "Running", "Restarting", "Running"], "Created=T Running=T", id="A1.4"),
    pytest.param(["Created", "Running", "Restarting", "Running", "Failed"], "Created=T Running=F Failed=T", id="A1.5"),
    pytest.param(["Created", "Suspended"], "Created=T Suspended=T", id="created suspended"),
    pytest.param(["Created", "Running", "Suspended"], "Created=T Running=F Suspended=T", id="suspended"),
    pytest.param(["Created", "Suspended", "Suspended=F"], "Suspended=F Created=T", id="resumed, nothing runs"),
    pytest.param(["Created", "Suspended", "Suspended=F", "Running"], "Created=T Suspended=F Running=T", id="resumed"),
    pytest.param(
        ["Created", "Running", "Suspended", "Suspended=F", "Running", "Succeeded"],
        "Created=T Suspended=F Running=F Succeeded=T", id="resumed and done",
    ),
    pytest.param(["Created", "Restarting", "Suspended"], "Created=T Suspended=T", id="restarting ends with suspension"),
    pytest.param(["Created", "Restarting", "Succeeded"], "Created=T Running=F Succeeded=T", id="restarting ends with success"),
    pytest.param(["Created", "Restarting", "Failed"], "Created=T Running=F Failed=T", id="restarting ends with failure"),
    pytest.param(["Created", "Succeeded", "Failed"], "Created=T Running=F Succeeded=T", id="success is final"),
    pytest.param(["Created", "Failed", "Succeeded"], "Created=T Running=F Failed=T", id="failure is final"),
    pytest.param(["Created", "Failed", "Running"], "Created=T Running=F Failed=T", id="nothing runs after the end"),
    pytest.param(["Created", "Succeeded", "Suspended"], "Created=T Running=F Succeeded=T", id="the finished is not suspended"),
    pytest.param(["Created", "Suspended", "Failed"], "Created=T Suspended=F Running=F Failed=T", id="nor stays it suspended"),
])  # fmt: skip
def test_sequences(steps: list[str], expected: str) -> None:
    assert shown(after(*steps)) == expected


def test_times_move_with_the_state_only() -> None:
    first = after("Created", "Running")
    same, other = (Statement(ConditionType.RUNNING, True, *said) for said in [("RunningReason", RUNNING), ("Other", RUNNING)])
    assert set_condition(first, same, START + 99) == first
    told = set_condition(first, other, START + 99)[-1]
    assert told.last_transition_time == first[-1].last_transition_time
    assert told.last_update_time != first[-1].last_update_time


@pytest.mark.parametrize(
    ("end", "moved"), [("Succeeded", False), ("Failed", False), ("Suspended", True)], ids=["success", "failure", "suspension"]
)
def test_when_a_condition_stops_holding(end: str, moved: bool) -> None:
    """HyperPod's CLI shows the first condition with the latest transition: after the end that must not be Running."""
    (created, running), conditions = after("Created", "Running"), after("Created", "Running", end)
    before, stopped = running, next(c for c in conditions if c.type == "Running")
    assert (stopped.status, conditions[0]) == ("False", created)
    assert (stopped.last_transition_time != before.last_transition_time) == moved
    assert (stopped.last_update_time != before.last_update_time) == moved
    if not moved:
        assert max(conditions, key=lambda c: c.last_transition_time or "").type == end


@pytest.mark.parametrize(("managed_by", "elsewhere"), [
    pytest.param(None, False, id="unset"), pytest.param("", True, id="empty"),
    pytest.param("kubeflow.org/training-operator", False, id="ours"),
    pytest.param("kueue.x-k8s.io/multikueue", True, id="multikueue"), pytest.param("other-job-controller", True, id="other"),
])  # fmt: skip
def test_a_job_of_another_manager_is_managed_elsewhere(managed_by: str | None, elsewhere: bool) -> None:
    job = read_job(TEST_JOB, job_manifest(TEST_JOB, {"Worker": 1}, run_policy={"managedBy": managed_by}))
    assert job.managed_elsewhere is elsewhere


def test_the_last_of_several_conditions_of_a_type_counts() -> None:
    status = read_status({"conditions": [condition("Failed", False), condition("Created"), condition("Failed", True)]})
    assert status.finished
    assert shown(normalized(status.conditions)) == "Created=T Failed=T"


def test_unknown_types_and_false_conditions_never_stand_last() -> None:
    forged = [condition("Dancing"), condition("Created"), condition("Running", False)]
    assert shown(normalized(read_status({"conditions": forged}).conditions)) == "Dancing=T Running=F Created=T"


def test_conditions_of_others_are_kept_and_never_the_current_one() -> None:
    theirs = [_of("Evaluated"), _of("QuotaReserved", False)]
    conditions: Conditions = (*theirs, _of("Created"))
    for kind in (ConditionType.RUNNING, ConditionType.SUSPENDED, ConditionType.SUCCEEDED):
        conditions = set_condition(conditions, Statement(kind, True, "r", Sentence("m")), 1.0)
        assert list(conditions[:2]) == theirs
        assert conditions[-1].type == kind


def test_a_forged_list_of_conditions_does_not_grow_a_status() -> None:
    assert len(normalized([_of(f"T{number % 50}") for number in range(10_000)])) == MAX_FOREIGN


def _of(kind: str, holds: bool = True) -> JobCondition:
    return JobCondition(type=kind, status="True" if holds else "False")


FULL = "exceeded quota, used: pods=9, limited: 10"
LONG = ", ".join(f"{number}0 of team {number}" for number in range(99))


def it_waits(quoted: str, *others: tuple[str, str]) -> Sentence:
    for old, new in others:
        quoted = quoted.replace(old, new)
    return Sentence("It", waiting=[Note(quoted=quoted)])


#: A sentence, the next one, and whether it takes the place of the first.
NEXT = {
    "the same": (Sentence("It runs"), Sentence("It runs"), False),
    "other words": (Sentence("It runs"), Sentence("It waits"), True),
    "our number": (Sentence("It runs", remarks=[Note("2 pods")]), Sentence("It runs", remarks=[Note("3 pods")]), True),
    "a number of others": (it_waits(FULL), it_waits(FULL, ("9", "11")), False),
    "other words of others": (it_waits(FULL), it_waits(f"{FULL}, too"), True),
    "no quote any more": (it_waits(FULL), Sentence("It"), True),
    "a quote": (Sentence("It"), it_waits(FULL), True),
    "cut": (it_waits(LONG), it_waits(LONG, ("10", "1000")), False),
    "cut, with other words": (it_waits(LONG), it_waits(LONG, ("of", "in")), True),
}


@pytest.mark.parametrize(("first", "then", "written"), NEXT.values(), ids=NEXT)
def test_new_numbers_of_others_change_no_message(first: Sentence, then: Sentence, written: bool) -> None:
    before = set_condition((), Statement(ConditionType.RUNNING, True, "Running", first), START)
    assert len(before[0].message) <= MAX_MESSAGE
    after_it = set_condition(before, Statement(ConditionType.RUNNING, True, "Running", then), START + 9)
    assert (after_it != before) == written
