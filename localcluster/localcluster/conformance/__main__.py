"""Run the suite: ``python -m localcluster.conformance --sequences 200 --seed 0``."""

import argparse
import asyncio
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack

from localcluster.conformance import corpus, real, runner
from localcluster.conformance.case import Case
from localcluster.conformance.cases import TABLE
from localcluster.conformance.comparison import Outcome
from localcluster.conformance.driver import Driver
from localcluster.conformance.sequences import sequence


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m localcluster.conformance", description=__doc__)
    parser.add_argument("--sequences", type=int, default=100, help="how many random sequences (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument(
        "--case", action="append", help="only table cases whose name contains this; with --sequences 0 nothing else"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help=f"only write the real server's answers to the built-in objects to {corpus.ANSWERS.name}",
    )
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end after this long, however many are left")
    parser.add_argument(
        "--workers", type=int, default=runner.WORKERS, help=f"how many sequences at a time (default {runner.WORKERS})"
    )
    parser.add_argument("--show", type=int, default=20, help="how many differing cases to print (default 20)")
    return parser.parse_args()


async def _run(table: Sequence[Case], sequences: Iterable[Case], show: int, minutes: float, workers: int) -> int:
    outcomes: list[Outcome] = []

    def report(outcome: Outcome) -> None:
        outcomes.append(outcome)
        if not outcome.agrees and sum(not one.agrees for one in outcomes) <= show:
            print(outcome.report(), flush=True)

    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(real.real())
        theirs = None if target is None else Driver(target, f"run{int(time.time())}")
        if theirs is None:
            print(real.WHY_NOT, file=sys.stderr)
        else:
            await theirs.prepare()
        started = time.monotonic()
        # Some cases of the table read the whole cluster.
        await runner.run(table, theirs, report, workers=1, seconds=minutes * 60)
        left = minutes * 60 - (time.monotonic() - started)
        await runner.run(sequences, theirs, report, workers=workers, seconds=left)
        took = time.monotonic() - started
        if theirs is not None and theirs.target.lasting:
            await theirs.clean_up()
    against = "the embedded server alone" if target is None else f"{target.name} {target.version}"
    steps = sum(len(outcome.case.steps) for outcome in outcomes)
    made = sum(outcome.case not in table for outcome in outcomes)
    wrong = sum(not outcome.agrees for outcome in outcomes)
    print(
        f"{len(outcomes) - made} cases and {made} sequences, {steps} requests, against {against}: {wrong} differ; {took:.1f} s"
    )
    return 1 if wrong else 0


async def _record() -> int:
    async with real.real() as target:
        if target is None:
            print(real.WHY_NOT, file=sys.stderr)
            return 1
        driver = Driver(target, f"run{int(time.time())}")
        corpus.write(await corpus.answers(driver))
    return 0


def main() -> int:
    """Run as asked; 1 when something differs."""
    asked = _parse()
    if asked.record:
        return asyncio.run(_record())
    wanted = [case for case in (*TABLE, *corpus.cases()) if not asked.case or any(part in case.name for part in asked.case)]
    sequences = (sequence(asked.seed + number) for number in range(asked.sequences))
    return asyncio.run(_run(wanted, sequences, asked.show, asked.minutes, asked.workers))


if __name__ == "__main__":
    sys.exit(main())
