"""``python -m jobcommon.testutil.chaos``: real processes under kill -9; prints what was killed and what became of the jobs."""

import argparse
import asyncio
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

from jobcommon.api.status import read_status
from jobcommon.testutil.chaos.election import CRASH_LIMIT, GRACEFUL_LIMIT, Takeovers, measure
from jobcommon.testutil.chaos.jobs import FRAMEWORKS, Script
from jobcommon.testutil.chaos.trial import Plan, Result, run_trial

#: One operator that is killed every few seconds; then two that elect a leader, whose leader is killed.
PLANS = (
    Plan(),
    Plan(
        jobs=20, seed=2, replicas=2, operator_kills=4, operator_every=(15.0, 30.0), cluster_kills=4, cluster_every=(15.0, 25.0)
    ),
)


ARENAS, ROUNDS, PAUSE = 3, 3, 20.0


def main() -> int:
    """Exit code 0 if everything is as it must be."""
    parser = argparse.ArgumentParser(prog="python -m jobcommon.testutil.chaos", description=__doc__)
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
    elections = asyncio.run(elect())
    for line in report_elections(elections):
        print(line, flush=True)
    return 0 if good and not any(found.faults() for found in elections) else 1


async def elect() -> list[Takeovers]:
    """Leaders are crashed, ended and stopped in several places at once, because most of it is waiting."""
    with tempfile.TemporaryDirectory(prefix="jobcommon-chaos-") as scratch:
        places = [Path(scratch) / str(number) for number in range(ARENAS)]
        for place in places:
            place.mkdir()
        return await asyncio.gather(*(measure(place, uuid.uuid4().hex, ROUNDS, PAUSE) for place in places))


def report_elections(elections: Sequence[Takeovers]) -> Iterator[str]:
    """How fast another replica took over, and what stopped leaders did."""
    yield f"leader election, three replicas, {len(elections)} clusters"
    for name, limit, times in (
        ("kill -9", CRASH_LIMIT, [t for found in elections for t in found.crash]),
        ("SIGTERM", GRACEFUL_LIMIT, [t for found in elections for t in found.graceful]),
    ):
        yield (
            f"  {name}: {len(times)} leaders; another had the lease after {median(times or [0]):.1f} s in the median, "
            f"{max(times, default=0):.1f} s at worst (allowed {limit:.0f} s)"
        )
    worked = [t for found in elections for t in found.worked]
    slowest = max(worked, default=0)
    yield f"  from the lease to the first write: {median(worked or [0]):.1f} s in the median, {slowest:.1f} s at worst"
    sleeps, late = sum(found.sleeps for found in elections), sum(len(found.late) for found in elections)
    yield f"  SIGSTOP for {PAUSE:.0f} s, then SIGCONT: {sleeps} leaders; writes under the old lease = {late}"
    for found in elections:
        yield from (f"  FAULT {fault}" for fault in found.faults())


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
