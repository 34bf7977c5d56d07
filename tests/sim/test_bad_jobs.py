"""Malformed and hostile jobs, and frameworks that misbehave, among healthy jobs on a server whose definitions have no rules.

Each bad job comes to the end that is its own, in silence, and the healthy ones do as if they were alone.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from jobcommon.api.reasons import INVALID_SPEC
from jobcommon.api.status import ConditionType, JobStatus, read_status
from jobcommon.framework import Framework, Job
from jobcommon.operators.mpi import MPI
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.sim import user
from jobcommon.testutil.sim.scenario import DONE, FOREVER, Scenario, UserStep
from jobcommon.testutil.sim.simulation import Run, Simulation
from localcluster import ApiServer
from tests.sim.bad_jobs import BAD_JOBS, FRAMEWORKS, BadJob, Fate, healthy

#: Plans of a job that fails: a refusal is learnt by one, and what was made for the job goes, thing by thing.
MOST_PLANS = 16
#: A back-off of 5 ms that doubles up to a minute: so many tries fit into the time of a run.
SECONDS, TRIES = 300.0, 30


def take_anything(server: ApiServer, framework: Framework) -> None:
    """Put a definition in the place of the present one that takes anything for a job's spec and status."""
    path = f"{user.DEFINITIONS}/{framework.plural}.{framework.group}"
    stored, anything = user.ask(server, "GET", path), {"x-kubernetes-preserve-unknown-fields": True}
    for version in stored["spec"]["versions"]:
        version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}
        version["subresources"] = {"status": {}}
    user.ask(server, "PUT", path, stored)


class Trial:
    """One run. The bad jobs are p0, p1 and so on, or what these names are made into; the healthy ones h0, h1 and so on."""

    def __init__(self, bad: Sequence[BadJob], frameworks: Sequence[Framework] = FRAMEWORKS) -> None:
        self.bad, self.frameworks = bad, frameworks
        self.healthy = [f"h{n}" for n in range(len(frameworks))]
        self.manifests = [job.manifest(f"p{n}") for n, job in enumerate(bad)]
        steps = [UserStep(f.name, partial(take_anything, framework=f)) for f in frameworks]
        steps += [UserStep(f"p{n}", partial(self._submit, n)) for n in range(len(bad))]
        jobs = tuple(healthy(framework, name) for name, framework in zip(self.healthy, frameworks, strict=True))
        of_mpi = [m["metadata"]["name"] for m in (*jobs, *self.manifests) if m["kind"] == MPI.kind]
        ends = {**{f"{name}-worker-*": FOREVER for name in of_mpi}, "*": DONE}
        scenario = Scenario("bad-jobs", tuple(frameworks), jobs, ends, tuple(steps), horizon=SECONDS)
        simulation = Simulation(scenario, 0, ())
        self.run: Run = simulation.result()
        self.plans: Counter[str] = Counter()
        for process in simulation.processes:
            for ((_, name), _), count in process.queued.items():
                self.plans[name] += count
        self.server = simulation.server

    def _submit(self, number: int, server: ApiServer) -> None:
        bad, manifest = self.bad[number], self.manifests[number]
        job = user.ask(server, "POST", user.path_of(bad.framework), manifest)
        if bad.status is not None:
            path = user.path_of(bad.framework, manifest["metadata"]["name"])
            user.ask(server, "PUT", f"{path}/status", {**job, "status": bad.status})
        if (stranger := bad.stranger(job)) is not None:
            user.ask(server, "POST", user.path_of("pods"), stranger)

    def status(self, framework: Framework, name: str) -> JobStatus:
        """What is on record of a job."""
        job = user.job_of(self.server, framework, name)
        assert job is not None
        return read_status(job.obj.get("status"))

    def events(self, name: str) -> list[str]:
        """The reasons of the events on an object."""
        found = [event.obj for event in self.server.storage.table("events").items()]
        return [str(event["reason"]) for event in found if event["involvedObject"]["name"] == name]

    def unlike_healthy(self) -> Iterator[str]:
        """What is not as it would be without bad jobs."""
        for name, framework in zip(self.healthy, self.frameworks, strict=True):
            if not self.status(framework, name).has(ConditionType.SUCCEEDED):
                yield f"{name} has not succeeded"
        yield from (f"{pod} ran {runs} times" for pod, runs in self.run.runs.items() if runs > 1)
        # A start that was forged is after every end.
        yield from (one for one in self.run.violations if "started 9999" not in one)


@pytest.fixture(scope="module")
def trial() -> Trial:
    return Trial(BAD_JOBS)


@pytest.mark.parametrize("bad", BAD_JOBS, ids=lambda bad: f"{bad.framework.name}-{bad.title}")
def test_a_bad_job_comes_to_the_end_that_is_its_own(trial: Trial, bad: BadJob) -> None:
    name = trial.manifests[BAD_JOBS.index(bad)]["metadata"]["name"]
    status, plans = trial.status(bad.framework, name), trial.plans[name]
    written = [w for w in trial.run.trace if w.path.endswith(f"/{name}/status") and w.status == 200]
    last = status.conditions[-1] if status.conditions else None
    match bad.fate:
        case Fate.IGNORED:
            assert (last, written) == (None, [])
        case Fate.RUNS:
            assert last is not None
            assert last.type == ConditionType.SUCCEEDED
            assert ("UnknownPod" in trial.events(name)) == (bad.beside is not None)
        case _:
            assert last is not None
            assert (last.type, last.reason) == (ConditionType.FAILED, INVALID_SPEC)
            assert bad.says in (last.message or "")
            assert len(written) <= (1 if bad.fate is Fate.INVALID else 3)
            assert plans <= MOST_PLANS


def test_the_healthy_jobs_do_as_if_they_were_alone_and_then_there_is_rest(trial: Trial) -> None:
    assert list(trial.unlike_healthy()) == []
    assert trial.run.errors == []
    assert trial.run.writes_at_rest == 0
    assert trial.run.leaked == []


# -- a framework's function that raises or returns garbage affects its own job and no other -----------------------------------

#: Those that a job comes to whose pods all succeed.
HOOKS = ("env", "outcome", "is_master", "upgrade", "validate", "shape_pod", "companions", "may_create", "index_offsets")
GARBAGE = {"nothing": None, "text": "x", "an object": {"a": object()}}


class BrokenError(Exception):
    """What a hook raises."""


def trial_with(framework: Framework, hook: str, bad: Callable[[], Any]) -> Trial:
    """The framework's function `hook` is `bad` for the job p0, and its own for all others."""
    usual: Any = getattr(framework, hook)

    def function(subject: Any, *rest: Any) -> Any:
        of_it = subject.name == "p0" if isinstance(subject, Job) else bool(subject.get("bad"))
        return bad() if of_it else usual(subject, *rest)

    broken: Framework = replace(framework, **{hook: function})
    return Trial([BadJob(hook, broken, Fate.RUNS, ((("spec", "bad"), True),))], (broken,))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_raises_is_told_in_log_and_events_and_tried_again_with_growing_pauses(hook: str) -> None:
    def broken() -> Any:
        calls.append(hook)
        raise BrokenError("the hook is broken")

    calls: list[str] = []
    found = trial_with(MPI, hook, broken)
    assert list(found.unlike_healthy()) == []
    assert 2 <= len(calls) <= TRIES
    assert any("the hook is broken" in error for error in found.run.errors)
    assert "InternalError" in found.events("p0")


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_garbage_harms_no_other_job_and_nothing_runs_hot(hook: str, garbage: Any) -> None:
    found = trial_with(PYTORCH, hook, lambda: garbage)
    assert list(found.unlike_healthy()) == []
    assert found.plans["p0"] <= TRIES
    assert not any("the operator" in error for error in found.run.errors)
