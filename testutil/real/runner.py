"""Runs rows and holds what came of them against the table."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from jobcommon.client.errors import ClientError
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import Cluster
from jobcommon.testutil.real.rows import Row
from jobcommon.testutil.real.run import PATIENCE, RowError, Run
from jobcommon.testutil.real.steps import delete_namespace
from localcluster import client

#: How many rows run at once; each has an operator of its own.
AT_ONCE = 4


@dataclass(frozen=True)
class Outcome:
    """What came of a row. `problem` is empty when it passed."""

    row: Row
    verdict: str
    problem: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.verdict:<8}{self.seconds:6.1f} s  {self.row.name}" + (
            f"\n          {self.problem}" if self.problem else ""
        )


async def run_rows(cluster: Cluster, rows: Sequence[Row], at_once: int = AT_ONCE) -> AsyncIterator[Outcome]:
    """Every row once: first those that can run side by side, several at a time, then the others one after another."""
    turns = asyncio.Semaphore(at_once)

    async def in_turn(row: Row) -> Outcome:
        async with turns:
            return await run_row(cluster, row)

    together = [asyncio.create_task(in_turn(row)) for row in rows if not row.alone]
    try:
        for task in asyncio.as_completed(together):
            yield await task
    finally:
        for task in together:
            task.cancel()
        await asyncio.gather(*together, return_exceptions=True)
    for row in rows:
        if row.alone:
            yield await run_row(cluster, row)


async def run_row(cluster: Cluster, row: Row) -> Outcome:
    """One row, in a namespace that is gone afterwards: nothing of ours holds it. What the row itself holds is released."""
    if row.killed and cluster.node is None:
        return Outcome(row, "skipped", "it needs containers, and parts that can be killed: here all is one process")
    began = time.monotonic()
    try:
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
    except (AssertionError, ClientError, client.ClientError, TimeoutError) as error:
        return Outcome(row, "FAILED", f"{type(error).__name__}: {error}", time.monotonic() - began)
    return Outcome(row, "passed", seconds=time.monotonic() - began)


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
