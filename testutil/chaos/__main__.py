"""``python -m testutil.chaos``: real processes under kill -9; prints what was killed and what became of the jobs."""

import argparse
import asyncio
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from jobcommon.api.status import read_status
from testutil.chaos.jobs import FRAMEWORKS, Script
from testutil.chaos.trial import Plan, Result, run_trial

#: One operator that is killed every few seconds; then two that elect a leader, whose leader is killed.
PLANS = (
    Plan(),
    Plan(
        jobs=20, seed=2, replicas=2, operator_kills=4, operator_every=(15.0, 30.0), cluster_kills=4, cluster_every=(15.0, 25.0)
    ),
)


def main() -> int:
    """Exit code 0 if everything is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m testutil.chaos", description=__doc__)
    parser.add_argument("--keep", type=Path, help="a directory for ledgers and logs; kept")
    parser.add_argument("--seed", type=int, default=0, help="added to the seeds of the plans")
    options = parser.parse_args()
    good = True
    for number, plan in enumerate(PLANS):
        with tempfile.TemporaryDirectory(prefix="jobcommon-chaos-") as scratch:
            directory = (options.keep or Path(scratch)) / str(number)
            seeded = Plan(**{**vars(plan), "seed": plan.seed + options.seed})
            result = asyncio.run(run_trial(seeded, directory, uuid.uuid4().hex))
        for line in report(result):
            print(line, flush=True)
        good = good and not result.faults
    return 0 if good else 1


def report(result: Result) -> Iterator[str]:
    """The counts of one trial, and its faults."""
    plan, evidence = result.plan, result.evidence
    kinds = ", ".join(f"{sum(j.framework is f for j in result.jobs)} {f.kind}" for f in FRAMEWORKS)
    yield f"seed {plan.seed}, {plan.replicas} operator(s): {len(result.jobs)} jobs ({kinds}) in {result.seconds:.0f} s"
    yield f"  killed: {result.operator_kills} operators, {len(evidence.cluster_kills) // 2} clusters, each with kill -9"
    for script in Script:
        jobs = [job for job in result.jobs if job.script is script]
        statuses = [read_status(evidence.statuses.get(job.name)) for job in jobs]
        ends = Counter(f"{s.conditions[-1].type}" if s.conditions else "no end" for s in statuses)
        restarts = sum(status.restarts or 0 for status in statuses)
        lost = sum(status.disruptions or 0 for status in statuses)
        told = ", ".join(f"{count} {end}" for end, count in sorted(ends.items()))
        yield f"  {script:<46} {len(jobs):>3} jobs: {told}; restarts {restarts}, disruptions {lost}"
    pods = len({run.uid for run in result.runs})
    yield (
        f"  runs {len(result.runs)} of {pods} pods; cut short {sum(run.ended is None for run in result.runs)}; "
        f"surplus runs = {len(result.surplus)}; processes left behind = {result.orphans}; faults = {len(result.faults)}"
    )
    for fault in result.faults:
        yield f"  FAULT {fault}"


if __name__ == "__main__":
    sys.exit(main())
