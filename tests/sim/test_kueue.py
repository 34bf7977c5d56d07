"""The oracle of the quota sees what it is there for, and crashes at each write of a preempted job do not make it complain."""

from dataclasses import replace
from typing import Any

import pytest

from jobcommon.reconcile.kueue import Queue
from jobcommon.reconcile.plan import Update
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.simulation import simulate

PREEMPTED = LIFECYCLES["pytorch/L18-preempted"]


def test_quota_that_is_given_back_too_early_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = Queue.actions

    def at_once(self: Queue, now: float, *, active: bool) -> Any:
        return actions(self, now, active=False)

    monkeypatch.setattr(Queue, "actions", at_once)
    assert [
        text for text in simulate(PREEMPTED, 0).violations if text.startswith("outside-quota") and "gives its quota" in text
    ]


def test_pods_without_quota_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Queue, "unadmitted", "")
    assert [text for text in simulate(PREEMPTED, 0).violations if "is created" in text]


def test_more_pods_than_have_quota_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    actions = Queue.actions

    def reclaiming(self: Queue, now: float, *, active: bool) -> Any:
        back = {"reclaimablePods": [{"name": "worker", "count": 2}]}
        for action in actions(self, now, active=active):
            told = isinstance(action, Update) and "admission" in action.manifest.get("status", {})
            yield replace(action, manifest=action.manifest | {"status": action.manifest["status"] | back}) if told else action

    monkeypatch.setattr(Queue, "actions", reclaiming)
    assert [text for text in simulate(PREEMPTED, 0).violations if "2 pods of podSet worker may run" in text]


def test_a_job_that_runs_in_another_cluster_has_no_pods_here() -> None:
    run = simulate(LIFECYCLES["pytorch/L18-multikueue"], 0)
    assert (run.violations, run.runs) == ([], {})
    assert b'"reason":"Succeeded"' in run.end, "its Workload is told of the end"


@pytest.mark.slow
@pytest.mark.parametrize("write", range(40))
def test_a_crash_at_any_write_keeps_within_the_quota(write: int) -> None:
    run = simulate(PREEMPTED, write, (Fault("crash-after", write=write),))
    assert run.violations == []
    assert run.runs["demo-master-0"] == 2
