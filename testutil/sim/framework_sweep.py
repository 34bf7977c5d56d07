"""The simulator for the tests of a package that has a framework of its own.

::

    def test_no_fault_changes_how_a_job_ends() -> None:
        assert sweep(FRAMEWORK).problems == []

The operator of that framework runs in virtual time, a fault strikes at one of its writes, and the job must end as it does
without the fault.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random
from typing import Any

from jobcommon.framework import Framework
from jobcommon.testutil.sim.canonical import objects_in
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault, faults_of, to_json
from jobcommon.testutil.sim.framework_lifecycles import ENDS, lifecycles_of
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Run, simulate

_REFERENCES_KEPT = 16
WRITE_FAULTS = (
    Fault("crash-before", write=0),
    Fault("crash-after", write=0),
    Fault("reply-lost", write=0),
    Fault("conflict", write=0),
    Fault("throttled", write=0, value="1"),
    Fault("server-error", write=0, value="500"),
    Fault("timeout-after", write=0),
    Fault("forbidden", write=0, seconds=30.0),
    Fault("lease-lost", write=0),
)
"""What happens at each write."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One run: a lifecycle of the framework by name, the seed of its network, and the faults."""

    lifecycle: str
    seed: int
    faults: tuple[Fault, ...] = ()


class Trials:
    """The trials of one framework, for the lifecycles that `framework_lifecycles.lifecycles_of` makes of it."""

    def __init__(self, framework: Framework, scenarios: Sequence[Scenario]) -> None:
        self._framework = framework
        self._scenarios = {scenario.name.partition("/")[2]: scenario for scenario in scenarios}
        self._reference = lru_cache(maxsize=_REFERENCES_KEPT)(self._run)

    @property
    def lifecycles(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self._scenarios)

    def without_faults(self, seed: int = 0) -> Iterator[Trial]:
        """Every lifecycle."""
        yield from (Trial(name, seed) for name in self._scenarios)

    def at_writes(self, seed: int = 0) -> Iterator[Trial]:
        """Every fault at every write of every lifecycle."""
        for name in self._scenarios:
            for point in range(len(self._reference(name, seed).trace)):
                for fault in WRITE_FAULTS:
                    yield Trial(name, seed, (replace(fault, write=point),))

    def of_seed(self, seed: int) -> Trial:
        """The trial of a seed of the swarm."""
        random = Random(f"{seed}/swarm")  # noqa: S311 - reproducibility is the point
        return Trial(random.choice(self.lifecycles), seed, faults_of(seed, random))

    def judge(self, trial: Trial) -> list[str]:
        """What is wrong: the wrong end without a fault, another end than that with faults. Empty if nothing is."""
        scenario, reference = self._scenarios[trial.lifecycle], self._reference(trial.lifecycle, trial.seed)
        found = compare(reference, simulate(scenario, trial.seed, trial.faults), scenario)
        return found if trial.faults else [*self._wrong_end(ENDS[trial.lifecycle], reference), *found]

    def _run(self, lifecycle: str, seed: int) -> Run:
        return simulate(self._scenarios[lifecycle], seed)

    def _wrong_end(self, wanted: str, run: Run) -> Iterator[str]:
        """Without any fault the job comes to the end that the lifecycle is for."""
        (job,) = objects_in(run.end, frozenset({f"{self._framework.plural}.{self._framework.group}"}))
        conditions = (job.get("status") or {}).get("conditions") or ()
        held = [one["type"] for one in conditions if one["status"] == "True"]
        if wanted not in held:
            yield f"the job has not {wanted.lower()}; its status is {json.dumps(job.get('status'))}"


@dataclass
class Sweep:
    """The number of runs with a fault, and what was wrong in them, one line each."""

    runs: int = 0
    problems: list[str] = field(default_factory=list)


def sweep(framework: Framework, job: Mapping[str, Any] | None = None, *, runs: int = 100, seed: int = 0) -> Sweep:
    """About `runs` faults, spread evenly over the writes of seven lifecycles; the same arguments give the same runs.

    `job` is a manifest; without one the job has all replica types. Raises ValueError for a manifest that is invalid.
    """
    trials = Trials(framework, lifecycles_of(framework, job))
    found = Sweep()
    for trial in trials.without_faults(seed):
        found.problems += [f"{trial.lifecycle}: {problem}" for problem in trials.judge(trial)]
    points = list(trials.at_writes(seed))
    for trial in points[:: max(1, len(points) // runs)]:
        found.problems += [f"{trial.lifecycle} with {to_json(trial.faults)}: {problem}" for problem in trials.judge(trial)]
        found.runs += 1
    return found
