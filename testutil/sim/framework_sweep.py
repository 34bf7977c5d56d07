"""The simulator for the tests of a package that has a framework of its own.

::

    def test_no_fault_changes_how_a_job_ends() -> None:
        assert sweep(FRAMEWORK).problems == []

The operator of that framework runs in virtual time, a fault strikes at one of its writes, and the job must end as it does
without the fault.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from jobcommon.framework import Framework
from jobcommon.testutil.sim.faults import AT_WRITE, KINDS, Fault, faults_of, to_json
from jobcommon.testutil.sim.lifecycles import FAILS, lifecycles_of
from jobcommon.testutil.sim.simulation import Run, simulate

LIVENESS_SECONDS = 150.0
"""Seconds from the end of the last fault to the final state, besides the duration of the lifecycle itself."""
WRITE_FAULTS = (
    *(Fault(kind, write=0) for kind in AT_WRITE),
    Fault("forbidden", write=0, seconds=30.0),
    Fault("lease-lost", write=0),
)
"""What happens at each write."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: a lifecycle of the framework by name, the seed of its network, and the faults. As text: what repeats it."""

    lifecycle: str
    seed: int
    faults: tuple[Fault, ...] = ()

    def __str__(self) -> str:
        faults = f" --faults {shlex.quote(to_json(self.faults))}" if self.faults else ""
        return f"--lifecycle {self.lifecycle} --seed {self.seed}{faults}"


class Sweep(NamedTuple):
    """The number of runs, and what was wrong in them, one line each."""

    runs: int
    problems: list[str]


class Trials:
    """The trials of one framework: the lifecycles of `job`, or of one that has all replica types."""

    def __init__(self, framework: Framework, job: Mapping[str, Any] | None = None) -> None:
        self._jobs = f"{framework.plural}.{framework.group}"
        self._scenarios = lifecycles_of(framework, job)
        self._reference = lru_cache(maxsize=16)(self._run)

    def without_faults(self, seed: int = 0) -> Sequence[Trial]:
        """Every lifecycle."""
        return [Trial(name, seed) for name in self._scenarios]

    def at_writes(self, seed: int = 0, most: int | None = None) -> Sequence[Trial]:
        """Every fault at every write of every lifecycle; about `most` of them, spread evenly, if that is given."""
        writes = [(name, write) for name in self._scenarios for write in range(len(self._reference(name, seed).trace))]
        points = [Trial(name, seed, (replace(fault, write=write),)) for name, write in writes for fault in WRITE_FAULTS]
        return points[:: max(1, len(points) // most)] if most else points

    def of_seed(self, seed: int) -> Trial:
        """The trial of a seed of the swarm."""
        random = Random(f"{seed}/swarm")  # noqa: S311 - reproducibility is the point
        return Trial(random.choice([*self._scenarios]), seed, faults_of(seed, random))

    def conduct(self, chosen: Sequence[Trial]) -> Sweep:
        """Run them."""
        return Sweep(len(chosen), [f"{trial}: {problem}" for trial in chosen for problem in self.judge(trial)])

    def judge(self, trial: Trial) -> list[str]:
        """What is wrong: the wrong end without a fault, another end than that with faults. Empty if nothing is."""
        reference = self._reference(trial.lifecycle, trial.seed)
        wanted = "Failed" if trial.lifecycle == FAILS else "Succeeded"
        if trial.faults:
            return [*_differences(reference, simulate(self._scenarios[trial.lifecycle], trial.seed, trial.faults))]
        ends = [end for name, end in reference.end.items() if name.startswith(self._jobs)]
        wrong = [f"the job has not {wanted.lower()}: {end}" for end in ends if f"'{wanted}'" not in end]
        return [*wrong, *_differences(reference, reference)]

    def _run(self, lifecycle: str, seed: int) -> Run:
        return simulate(self._scenarios[lifecycle], seed)


def _differences(reference: Run, run: Run) -> Iterator[str]:
    """What is wrong with a run by itself, and beside the fault-free one of the same lifecycle and seed."""
    yield from run.violations
    yield from (f"error: {error}" for error in run.errors)
    yield from (f"leaked: {what}" for what in run.leaked)
    if run.writes_at_rest:
        yield f"at-rest: {run.writes_at_rest} writes"
    if run.settled_at > (limit := run.recovered_at + reference.settled_at + LIVENESS_SECONDS):
        yield f"liveness: settled at {run.settled_at:.0f} s, to be at {limit:.0f} s at the latest"
    # Where the change of an image is refused, a pod is made anew instead of kept (docs/restarts.md).
    refused = any(fault.kind == "forbidden" for fault in run.faults)
    for name in sorted({*reference.end, *run.end}):
        wanted, found = reference.end.get(name, "missing"), run.end.get(name, "missing")
        if wanted != found and not (refused and name.startswith("pods/") and wanted.split()[0] == found.split()[0]):
            yield f"end-state: {name} is {found}, and {wanted} in the reference"
    surplus = any(KINDS[fault.kind].surplus for fault in run.faults)
    for pod in sorted({*reference.runs, *run.runs}):
        more = run.runs[pod] - reference.runs[pod]
        if more < 0 or (more > 0 and not surplus):
            yield f"run-count: {pod} ran {run.runs[pod]} times, {reference.runs[pod]} in the reference"


def sweep(framework: Framework, job: Mapping[str, Any] | None = None, *, runs: int = 100, seed: int = 0) -> Sweep:
    """About `runs` faults, spread evenly over the writes of seven lifecycles; the same arguments give the same runs.

    `job` is a manifest; without one the job has all replica types. Raises ValueError for a manifest that is invalid.
    """
    trials = Trials(framework, job)
    return trials.conduct([*trials.without_faults(seed), *trials.at_writes(seed, runs)])
