"""A framework's function that raises, returns garbage or takes long affects its own job and no other."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.poison.kinds import Poison, Verdict
from jobcommon.testutil.poison.trial import Trial, run_trial

# Those that a job comes to whose pods all succeed.
HOOKS = ["env", "outcome", "is_master", "upgrade", "validate", "shape_pod", "companions", "may_create", "index_offsets"]
MARK = (("spec", "poisoned"), True)
SPIN = 0.3
#: A back-off of 5 ms that doubles up to a minute: so many tries fit into the three minutes or so of a trial.
TRIES = 20


class BrokenError(Exception):
    """What a hook raises."""


def is_poisoned(subject: Any) -> bool:
    """Whether a hook's first argument, a job or a raw spec, is of the poisoned job."""
    return subject.name.startswith("p") if isinstance(subject, Job) else bool(subject.get("poisoned"))


def with_hook(framework: Framework, hook: str, bad: Callable[..., Any]) -> Framework:
    """The framework whose function `hook` is `bad` for the poisoned job, and its own for all others."""
    usual: Any = getattr(framework, hook)

    def function(subject: Any, *rest: Any) -> Any:
        return (bad if is_poisoned(subject) else usual)(subject, *rest)

    return replace(framework, **{hook: function})


def trial_with(framework: Framework, hook: str, bad: Callable[..., Any], verdict: Verdict, **more: Any) -> Trial:
    broken = with_hook(framework, hook, bad)
    return run_trial([Poison(111, hook, broken, verdict, (MARK,), **more)], 4, frameworks=(broken,))


def broken(*_: Any) -> Any:
    raise BrokenError("the hook is broken")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises(hook: str) -> None:
    trial = trial_with(MPI, hook, broken, Verdict.UNDECIDED, event="InternalError")
    assert trial.faults() == []
    poisoned = next(course for course in trial.courses.values() if course.poison)
    assert 2 <= poisoned.syncs <= TRIES
    assert any("the hook is broken" in line for line in trial.log.splitlines())


GARBAGE = {"nothing": None, "a number": 7, "text": "x", "a list of nothing": [None], "an object": {"a": object()}}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_garbage(hook: str, garbage: Any) -> None:
    """Whatever becomes of the job itself, the process lives, the others do not notice, and nothing runs hot."""
    trial = trial_with(PYTORCH, hook, lambda *_: garbage, Verdict.UNDECIDED)
    assert [fault for course in trial.healthy() for fault in course.faults()] == []
    assert trial.errors == []
    assert trial.surplus_runs == 0
    poisoned = next(course for course in trial.courses.values() if course.poison)
    assert poisoned.syncs <= TRIES


def test_a_hook_that_takes_long_is_told_and_the_others_go_on() -> None:
    def slow(*arguments: Any) -> Any:
        # Of this thread: the process may have others, whose time is not the plan's.
        end = time.thread_time() + SPIN
        while time.thread_time() < end:
            pass
        return PYTORCH.env(*arguments)

    trial = trial_with(PYTORCH, "env", slow, Verdict.RUNS)
    assert trial.faults() == []
    told = [line for line in map(json.loads, trial.log.splitlines()) if line["event"] == "slow plan blocked the event loop"]
    assert told
    assert min(line["seconds"] for line in told) >= SPIN
