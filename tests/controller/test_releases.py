"""Releases beside everything else, and the count of pods that may still run."""

import pytest

from jobcommon.api.pod import PodView
from jobcommon.api.view import Owner
from jobcommon.cache.store import Change, ChangeKind
from jobcommon.client.errors import StatusError
from jobcommon.controller.open_pods import OpenPods
from jobcommon.controller.releases import LAPSE, Releases
from jobcommon.controller.result import Effect, Outcome
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.plan import Create, Delete, Plan, Release

LET_GO = Release("a", "uid-a", (FINALIZER,))
OTHER = Release("b", "uid-b", (FINALIZER,))
REPLACED = Delete("v1", "pods", "b", "uid-b", "to be replaced")
CREATE = Create("v1", "pods", "c", {})


def pod(name: str = "a", phase: str = "Succeeded", finalizers: tuple[str, ...] = (), job: str = "job") -> PodView:
    owner = Owner("TestJob", "demo", job)
    return PodView(namespace="default", name=name, uid=f"uid-{name}", phase=phase, finalizers=finalizers, owner=owner)


def change(old: PodView | None, new: PodView | None) -> Change[PodView]:
    kind = ChangeKind.ADDED if old is None else ChangeKind.DELETED if new is None else ChangeKind.UPDATED
    return Change(kind, old, new)


def test_a_release_is_taken_out_of_the_plan_and_planned_again_only_after_it_lapsed() -> None:
    releases, plan = Releases(), Plan((LET_GO, CREATE))
    assert releases.part(plan, 0.0) == (Plan((CREATE,)), (LET_GO,))
    assert releases.part(plan, LAPSE - 1) == (Plan((CREATE,)), ())
    assert releases.part(plan, LAPSE) == (Plan((CREATE,)), (LET_GO,))


def test_a_pod_that_is_deleted_as_well_is_let_go_in_the_plans_order() -> None:
    plan = Plan((OTHER, REPLACED))
    assert Releases().part(plan, 0.0) == (plan, ())


SEEN: dict[str, tuple[PodView | None, int]] = {
    "let go": (pod(), 0),
    "gone": (None, 0),
    "still held": (pod(finalizers=(FINALIZER, "another")), 1),
}


@pytest.mark.parametrize("case", SEEN)
def test_it_is_under_way_until_the_cache_shows_it(case: str) -> None:
    new, left = SEEN[case]
    releases = Releases()
    releases.part(Plan((LET_GO,)), 0.0)
    releases.observe(change(pod(finalizers=(FINALIZER,)), new))
    assert len(releases) == left


ENDS: dict[str, tuple[Outcome, bool, int]] = {
    "applied": (Outcome(LET_GO, Effect.APPLIED), False, 1),
    "gone": (Outcome(LET_GO, Effect.ABSENT, error=StatusError(404)), False, 0),
    "contested": (Outcome(LET_GO, Effect.ABSENT, error=StatusError(422)), True, 1),
    "refused": (Outcome(LET_GO, Effect.REFUSED, error=StatusError(500)), True, 1),
    "skipped": (Outcome(LET_GO, Effect.SKIPPED), True, 1),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_failed_is_looked_at_anew(case: str) -> None:
    outcome, again, under_way = ENDS[case]
    releases = Releases()
    releases.part(Plan((LET_GO,)), 0.0)
    due = releases.take(outcome, 0.0, 0.5)
    assert (due is not None) == again
    assert releases.due(Plan((LET_GO,))) == due
    assert len(releases) == under_way


def test_what_is_refused_again_and_again_is_tried_ever_more_rarely() -> None:
    """A webhook that was down for a minute was asked 15,000 times (found by the simulator)."""
    releases, refused, now, tries = Releases(), Outcome(LET_GO, Effect.REFUSED, error=StatusError(500)), 0.0, 0
    while now < 60.0:
        assert releases.part(Plan((LET_GO,)), now) == (Plan(()), (LET_GO,))
        due = releases.take(refused, now, 0.5)
        assert due is not None
        assert releases.part(Plan((LET_GO,)), (now + due) / 2) == (Plan(()), ()), "not before its time"
        now, tries = due, tries + 1
    assert tries < 20
    releases.take(Outcome(LET_GO, Effect.APPLIED), now, 0.5)
    assert releases.due(Plan((LET_GO,))) is None


RUNS, OVER = pod(phase="Running"), pod()
LAST: dict[str, tuple[list[PodView], Change[PodView], bool]] = {
    "the last one ends": ([RUNS], change(RUNS, OVER), True),
    "the last one is deleted": ([RUNS], change(RUNS, None), True),
    "another still runs": ([RUNS, pod("b", "Running")], change(RUNS, OVER), False),
    "it had ended before": ([OVER], change(OVER, pod(finalizers=("x",))), False),
    "one is created": ([], change(None, RUNS), False),
    "of another job": ([RUNS], change(pod(phase="Running", job="other"), pod(job="other")), False),
}


@pytest.mark.parametrize("case", LAST)
def test_the_end_of_a_jobs_last_open_pod_is_noticed(case: str) -> None:
    pods, event, last = LAST[case]
    counted = OpenPods()
    counted.count("job", pods)
    assert counted.take(event) == last


def test_a_pod_that_came_after_the_count_is_waited_for() -> None:
    counted = OpenPods()
    counted.count("job", [RUNS])
    assert not counted.take(change(None, pod("b", "Running")))
    assert not counted.take(change(RUNS, OVER))
    assert counted.take(change(pod("b", "Running"), pod("b")))


def test_a_forgotten_job_is_not_counted() -> None:
    counted = OpenPods()
    counted.count("job", [RUNS])
    counted.forget("job")
    assert not counted.take(change(RUNS, OVER))
    assert len(counted) == 0
