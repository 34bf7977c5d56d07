"""Runs rows and holds what came of them against the table."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from operator import attrgetter

from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import Cluster
from jobcommon.testutil.real.rows import Row
from jobcommon.testutil.real.run import PATIENCE, RowError, Run
from jobcommon.testutil.real.steps import delete_namespace

#: How many rows run at once; each has an operator of its own.
AT_ONCE = 4


@asynccontextmanager
async def started(cluster: Cluster, rows: Sequence[Row]) -> AsyncIterator[Mapping[str, asyncio.Task[None]]]:
    """The runs of the rows by name, some at a time. One that disturbs others begins when all before it have ended."""
    turns = asyncio.Semaphore(AT_ONCE)
    tasks: dict[str, asyncio.Task[None]] = {}

    async def in_turn(row: Row, before: Sequence[asyncio.Task[None]]) -> None:
        if row.alone and before:
            await asyncio.wait(before)
        async with turns:
            await run_row(cluster, row)

    for row in sorted(rows, key=attrgetter("alone")):
        tasks[row.name] = asyncio.create_task(in_turn(row, [*tasks.values()]))
    try:
        yield tasks
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def run_row(cluster: Cluster, row: Row) -> None:
    """One row, in a namespace that is gone afterwards: nothing of ours holds it. What the row itself holds is released."""
    async with Run(cluster, row.kind.framework, row.kind.version) as run:
        if row.operator is not None:
            await run.start_operator(*row.operator)
        if row.job is not None:
            await run.create(run.job_path(""), row.job)
        for step in row.steps:
            await step(run)
        await _compare(row, run)
        await run.release("jobcommon.test/")
        await delete_namespace()(run)


async def _compare(row: Row, run: Run) -> None:
    """Wait until all is as expected; whatever is not after a while is a problem."""
    if row.state:
        await run.until(lambda: run.status.finished or run.state == row.state, f"the job is {row.state}")
    try:
        await polled(lambda: _problems(row, run), lambda found: not found, PATIENCE)
    except TimeoutError as error:
        raise RowError(f"{error}; {run}") from None


async def _problems(row: Row, run: Run) -> list[str]:
    """What is not as the row says."""
    status, pods = run.status, {name: tuple(life.end for life in lives) for name, lives in run.lives.items()}
    first = {name: lives[0].order for name, lives in run.lives.items()}
    found: dict[str, tuple[object, object]] = {
        # A pod that is not named is one too many, where any is.
        "pods": (pods if row.pods else {}, dict(row.pods)),
        "order": ({name: first.get(name) for name in row.order}, dict(row.order)),
        "events": (set(row.events) & await run.events() if row.events else set(), set(row.events)),
    }
    if row.state:
        ends = [c.type for c in status.conditions if c.is_true and c.type in ("Succeeded", "Failed")]
        found |= {
            "state": (run.state, row.state),
            "ends": (ends, [run.state] if run.status.finished else []),
            "restarts": (status.restarts or 0, row.restarts),
            "disruptions": (status.disruptions or 0, row.disruptions),
            "reason": (status.conditions[-1].reason if row.reason else "", row.reason),
        }
    return [f"{what}: {seen}, not {wanted}" for what, (seen, wanted) in found.items() if seen != wanted]
