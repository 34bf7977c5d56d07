"""The simulator for the tests of a package that has a framework of its own.

::

    def test_no_fault_changes_how_a_job_ends() -> None:
        assert sweep(FRAMEWORK).problems == []

The operator of that framework runs in virtual time, a fault strikes at one of its writes, and the job must end as it does
without the fault.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobcommon.framework import Framework
from jobcommon.testutil.sim.canonical import objects_in
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault, to_json
from jobcommon.testutil.sim.framework_lifecycles import ENDS, lifecycles_of
from jobcommon.testutil.sim.simulation import Run, simulate
from jobcommon.testutil.sim.sweep import WRITE_FAULTS


@dataclass
class Sweep:
    """The number of runs with a fault, and what was wrong in them, one line each."""

    runs: int = 0
    problems: list[str] = field(default_factory=list)


def sweep(framework: Framework, job: Mapping[str, Any] | None = None, *, runs: int = 100, seed: int = 0) -> Sweep:
    """About `runs` faults, spread evenly over the writes of five lifecycles; the same arguments give the same runs.

    `job` is a manifest; without one the job has all replica types. Raises ValueError for a manifest that is invalid.
    """
    scenarios = lifecycles_of(framework, job)
    found = Sweep()
    references = [simulate(scenario, seed) for scenario in scenarios]
    for scenario, run in zip(scenarios, references, strict=True):
        name = scenario.name.partition("/")[2]
        problems = [*_wrong_end(framework, ENDS[name], run), *compare(run, run, scenario)]
        found.problems += [f"{name}: {problem}" for problem in problems]
    points = [(n, fault) for n, run in enumerate(references) for fault in _faults(run)]
    for number, fault in points[:: max(1, len(points) // runs)]:
        scenario = scenarios[number]
        problems = compare(references[number], simulate(scenario, seed, (fault,)), scenario)
        found.problems += [f"{scenario.name.partition('/')[2]} with {to_json((fault,))}: {problem}" for problem in problems]
        found.runs += 1
    return found


def _faults(run: Run) -> Iterator[Fault]:
    for point in range(len(run.trace)):
        for fault in WRITE_FAULTS:
            yield replace(fault, write=point)


def _wrong_end(framework: Framework, wanted: str, run: Run) -> Iterator[str]:
    """Without any fault the job comes to the end that the lifecycle is for."""
    (job,) = objects_in(run.end, frozenset({f"{framework.plural}.{framework.group}"}))
    conditions = (job.get("status") or {}).get("conditions") or ()
    held = [one["type"] for one in conditions if one["status"] == "True"]
    if wanted not in held:
        yield f"the job has not {wanted.lower()}; its status is {json.dumps(job.get('status'))}"
