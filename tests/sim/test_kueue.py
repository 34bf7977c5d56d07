"""The oracle of the quota sees what it is there for, and crashes at each write of a preempted job do not make it complain."""

from typing import Any

import pytest

from jobcommon.reconcile.kueue import Queue
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
    monkeypatch.setattr(Queue, "held", "")
    assert [text for text in simulate(PREEMPTED, 0).violations if "is created" in text]


@pytest.mark.slow
@pytest.mark.parametrize("write", range(40))
def test_a_crash_at_any_write_keeps_within_the_quota(write: int) -> None:
    run = simulate(PREEMPTED, write, (Fault("crash-after", write=write),))
    assert run.violations == []
    assert run.runs["demo-master-0"] == 2
