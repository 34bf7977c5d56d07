"""The simulator for the tests of a package that has a framework of its own.

::

    def test_no_fault_changes_how_a_job_ends() -> None:
        assert sweep(FRAMEWORK).problems == []

The operator of that framework runs in virtual time, a fault strikes at one of its writes, and the job must end as it does
without the fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobcommon.framework import Framework
from jobcommon.testutil.sim.faults import to_json
from jobcommon.testutil.sim.framework_lifecycles import lifecycles_of
from jobcommon.testutil.sim.framework_trials import Trials


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
