"""Random histories of a program that reports: it is never taken for stalled while it works, and always when it hangs.

A history has a load time, steps, evaluations, restarts from a checkpoint, an API server that is gone and a clock that is wrong
for a while.
The client reports at the end of a step, at most every 5 s (as transformers does); the operator records at most every 10 s; the
decision is asked at each change and whenever it asked to be.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.time_spent import TimeSpent
from jobcommon.framework import Job, Options, ProgressServer
from jobcommon.reconcile import plan, progress, read_job
from jobcommon.reconcile.progress import CONFIRM_SECONDS, RECORD_SECONDS, Stall, after_reports, signs_of_life
from jobcommon.testutil.builders import START, Manifest, condition, job_manifest, observe
from jobcommon.testutil.frameworks import TEST_JOB
from jobcommon.testutil.plans import next_pass

FRAMEWORK = replace(TEST_JOB, options=Options(progress=ProgressServer("https://operator", "certificate")))
SEEDS = int(os.environ.get("HISTORIES", "50"))
REPORT_SECONDS = 5.0
RUNNING, LOST = {"Worker-0": "running"}, {"Worker-0": "running,evicted"}


@dataclass
class History:
    """What happens, by the second from the start: arrivals of reports, ends of runs, and when it hangs."""

    seed: int
    events: list[tuple[float, str, int]] = field(default_factory=list)
    outage: tuple[float, float] = (0.0, 0.0)
    wrong: tuple[float, float, float] = (0.0, 0.0, 0.0)
    hangs_after: float | None = None
    policy: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        chance = Random(self.seed)
        deadline = chance.randint(20, 120)
        start = chance.choice([None, chance.randint(60, 600)])
        evaluation = chance.choice([0, chance.randint(30, 600)])
        self.policy = {
            "reportProgress": True,
            "progressDeadlineSeconds": deadline,
            "restartScope": "Job",
            "stallAction": "Restart",
        }
        self.policy |= {"progressStartDeadlineSeconds": start} if start else {}
        self.policy |= {"evaluationSeconds": evaluation} if evaluation else {}
        now, checkpoint = 0.0, 0
        for last in [False] * chance.randint(0, 2) + [True]:
            now, checkpoint = self._run(chance, now, checkpoint, deadline, start, evaluation)
            if not last:
                now += chance.uniform(0, 5)
                self.events.append((now, "lost", 0))
                now += chance.uniform(1, 60)
                self.events.append((now, "runs", 0))
        if chance.random() < 0.5:
            self.hangs_after = now
        if chance.random() < 0.3:
            begin = chance.uniform(0, now)
            # The pod of a lost run stays until the operator has recorded its end: its successor comes after the outage.
            lost = [at for at, what, _ in self.events if what == "lost" and at > begin - 70]
            self.outage = begin, min([begin + chance.uniform(1, 300), *(at for at in lost if at > begin)])
            if any(at <= begin for at in lost):
                self.outage = 0.0, 0.0
        if chance.random() < 0.3:
            self.wrong = chance.uniform(0, now), chance.uniform(1, 300), chance.choice([-86400, -300, -5, 5, 300, 86400])

    def wall(self, at: float) -> float:
        """The operator's clock."""
        begin, length, ahead = self.wrong
        return START + at + (ahead if begin <= at < begin + length else 0.0)

    @property
    def goodput(self) -> tuple[float, int]:
        """The seconds in which the highest step rose, and the steps that were made again, if steps between reports are even."""
        rose, again, highest, last = 0.0, 0, 0, (0.0, 0)
        for at, what, step in self.events:
            if what == "report":
                for number in range(last[1] + 1, step + 1) if last[1] else ():
                    rose += (at - last[0]) / (step - last[1]) if number > highest else 0.0
                    again += number <= highest
                highest, last = max(highest, step), (at, step)
        return rose, again

    def _run(
        self, chance: Random, now: float, step: int, deadline: int, start: int | None, evaluation: int
    ) -> tuple[float, int]:
        begun = now
        now += chance.uniform(0, 20)
        self.events.append((now, "report", 0))
        # The first step compiles. Its report may wait for the next write.
        now = begun + chance.uniform(now - begun, (start or 1200) - RECORD_SECONDS - 2)
        longest = chance.uniform(0.05, deadline - 16)
        reported = -REPORT_SECONDS
        for number in range(chance.randint(2, 40)):
            if number and evaluation and chance.random() < 0.1:
                now += chance.uniform(0, evaluation)
            # As many quick steps as there are between two reports.
            while now - reported < REPORT_SECONDS:
                now, step = now + chance.uniform(longest / 2, longest), step + 1
            step += 1
            self.events.append((now, "report", step))
            reported = now
        return now, max(0, step - chance.randint(0, 50))

    def writes(self) -> Iterator[tuple[float, str, list[tuple[int, float]]]]:
        """What the operator comes to see: the time, what, and the steps with the times of their reports."""
        pending: list[tuple[int, float]] = []
        due = 0.0
        for at, what, step in [*self.events, (self.events[-1][0] + RECORD_SECONDS + 400, "end", 0)]:
            if pending and (when := self._up(max(due, pending[0][1]))) <= at:
                yield when, "report", pending
                due, pending = when + RECORD_SECONDS, []
            if what == "report":
                pending = [*pending, (step, at)]
            elif what != "end":
                yield at, what, []

    def _up(self, at: float) -> float:
        """When the API server answers; the writer tries again every ten seconds."""
        begin, end = self.outage
        return end + (at - begin) % RECORD_SECONDS if begin <= at < end else at


class Operator:
    """The decision, and the job as it is stored."""

    def __init__(self, history: History) -> None:
        self.history = history
        began: Manifest = {"conditions": [condition("Created"), condition("Running")], "startTime": "2023-11-14T22:13:20Z"}
        began["timeSpent"] = {"phase": "Running", "since": "2023-11-14T22:13:20.000Z"}
        self.job = job_manifest(FRAMEWORK, {"Worker": 1}, policy="OnFailure", run_policy=history.policy, status=began)
        self.wake: float | None = None
        self.pods = RUNNING
        self.stalls: list[float] = []
        self.restarts: list[float] = []
        self.alive: tuple[object, float] = (None, 0.0)

    @property
    def status(self) -> JobStatus:
        return read_job(FRAMEWORK, self.job).status

    def decide(self, at: float) -> None:
        """All passes that are due by now, the status of each being stored."""
        begin, end = self.history.outage
        if begin <= at < end:
            self.wake = end
            return
        for _ in range(3):
            before = self.status
            observed = observe(FRAMEWORK, self.job, self.pods)
            if (alive := signs_of_life(before)) != self.alive[0]:
                self.alive = alive, at
            now = self.history.wall(at)
            made = plan(FRAMEWORK, read_job(FRAMEWORK, self.job), replace(observed, same_for=at - self.alive[1]), now)
            self.wake = None if made.wake_at is None else at + made.wake_at - now
            if made.status is None:
                return
            self.job = next_pass(self.job, made)
            self.stalls += [at] if made.status.has(ConditionType.STALLED) and not before.has(ConditionType.STALLED) else []
            self.restarts += [at] if (made.status.restarts or 0) > (before.restarts or 0) else []

    def run(self) -> "Operator":
        for at, what, steps in self.history.writes():
            self.until(at)
            # Something else happens to the job just before.
            self.decide(at)
            if what == "report":
                status, told = self.status, [(step, self.history.wall(arrived)) for step, arrived in steps]
                kept = after_reports(status, told, told[-1][1], self.history.wall(at))
                self.job = {**self.job, "status": kept.to_json()}
            elif what == "lost":
                self.pods = LOST
                self.decide(at)
                self.pods = {}
            else:
                self.pods = RUNNING
            self.decide(at)
        return self

    def until(self, at: float) -> None:
        """The passes that the decision asked for before `at`."""
        for _ in range(1000):
            if self.wake is None or self.wake > at:
                return
            self.decide(max(self.wake, 0.0))


def judge(seeds: Iterable[int]) -> None:
    """The verdicts on histories."""
    for seed in seeds:
        history = History(seed)
        operator = Operator(history).run()
        assert operator.restarts == [], f"seed {seed}: restarted while it worked"
        if history.outage == (0.0, 0.0):
            assert operator.stalls == [], f"seed {seed}: stalled while it worked"
        if history.outage == history.wrong[:2] == (0.0, 0.0):
            spent, (rose, again) = operator.status.time_spent or TimeSpent(), history.goodput
            assert (spent.progressing or 0.0) == pytest.approx(rose, abs=1.0), f"seed {seed}: time in which the step rose"
            assert (spent.lost_steps or 0) == again, f"seed {seed}: steps made again"
        if history.hangs_after is None or history.wrong[1]:
            continue
        limit = history.policy["progressDeadlineSeconds"] + history.policy.get("evaluationSeconds", 0)
        last = max(history.hangs_after, history.outage[1])
        operator.until(last + limit + CONFIRM_SECONDS + 5)
        assert operator.stalls, f"seed {seed}: not noticed"
        assert operator.stalls[0] <= last + limit + 5, f"seed {seed}: noticed late"
        assert operator.restarts, f"seed {seed}: not restarted"


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_a_program_that_works_is_never_stalled_and_one_that_hangs_always_is(first: int) -> None:
    judge(range(first, min(first + 50, SEEDS)))


_stall = progress.stall


def _without_evaluation(job: Job, *more: Any) -> Stall | None:
    policy = job.run_policy.model_copy(update={"evaluation_seconds": None})
    return _stall(replace(job, spec=job.spec.model_copy(update={"run_policy": policy})), *more)


def _armed_at_once(job: Job, *more: Any) -> Stall | None:
    armed = job.status.progress.model_copy(update={"armed": True}) if job.status.progress is not None else None
    return _stall(replace(job, status=job.status.model_copy(update={"progress": armed})), *more)


def _by_times(job: Job, now: float, _: Any, *more: Any) -> Stall | None:
    return _stall(job, now, None, *more)


def _at_once(job: Job, *more: Any) -> Stall | None:
    found = _stall(job, *more)
    return found if found is None or found.deadline is None else replace(found, deadline=replace(found.deadline, at=found.at))


#: wrong decisions, and what the histories say of them
MUTANTS: dict[str, tuple[Callable[..., Stall | None], str]] = {
    "evaluation is not allowed for": (_without_evaluation, "while it worked"),
    "the first report arms": (_armed_at_once, "while it worked"),
    "acts before the reports of an outage are there": (_at_once, "restarted while it worked"),
    "times of wrong clocks count": (_by_times, "while it worked"),
    "never stalled": (lambda *_: None, "not noticed"),
}


@pytest.mark.parametrize(("mutant", "verdict"), MUTANTS.values(), ids=MUTANTS)
def test_the_histories_catch(mutant: Callable[..., Stall | None], verdict: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "stall", mutant)
    with pytest.raises(AssertionError, match=verdict):
        judge(range(100))
