"""Runs rows and holds what came of them against the table."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from jobcommon.client.errors import ClientError
from jobcommon.testutil.polling import polled
from jobcommon.testutil.real.cluster import Cluster
from jobcommon.testutil.real.run import PATIENCE, RowError, Run
from jobcommon.testutil.real.steps import Step, gone_namespace
from jobcommon.testutil.real.table import Row
from localcluster import client

# What ends a row and not the program.
_PROBLEMS = (RowError, AssertionError, ClientError, client.ClientError, TimeoutError)
#: How many rows run at once; each has an operator of its own.
AT_ONCE = 4


@dataclass(frozen=True)
class Outcome:
    """What came of a row. `problem` is empty when it passed; `skipped` says what its cluster lacks; `seen` what was seen."""

    row: Row
    problem: str = ""
    skipped: str = ""
    seconds: float = 0.0
    seen: str = ""

    @property
    def verdict(self) -> str:
        return "skipped" if self.skipped else "FAILED" if self.problem else "passed"

    def __str__(self) -> str:
        why = self.skipped or self.problem
        return f"{self.verdict:<8}{self.seconds:6.1f} s  {self.row.name}" + (f"\n          {why}" if why else "")


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
    """One row, in a namespace that is gone afterwards."""
    missing = [f"{need}: {cluster.lacks[need]}" for need in sorted(row.needs) if need in cluster.lacks]
    if missing:
        return Outcome(row, skipped="; ".join(missing))
    began = time.monotonic()
    try:
        async with Run(cluster, row.kind.framework, row.kind.version) as run:
            await _play(row, run)
            await _compare(row, run)
            seen = run.told()
            await _clear(run)
    except _PROBLEMS as error:
        return Outcome(row, problem=f"{type(error).__name__}: {error}", seconds=time.monotonic() - began)
    return Outcome(row, seconds=time.monotonic() - began, seen=seen)


async def _play(row: Row, run: Run) -> None:
    if row.operator is not None:
        await run.start_operator(*row.operator)
    if row.job is not None:
        await run.create(run.job_path(""), row.job)
    await _take(run, row.steps)


async def _take(run: Run, steps: Sequence[Step]) -> None:
    for number, step in enumerate(steps, 1):
        try:
            await step.do(run)
        except _PROBLEMS as error:
            raise RowError(f"step {number}, {step.name}: {error}") from error


async def _compare(row: Row, run: Run) -> None:
    """Wait until all is as expected; whatever is not after a while is a problem."""
    state = row.expected.state
    if state:
        await run.until(lambda: run.status.finished or _state(run) == state, f"the job is {state}")

    async def problems() -> list[str]:
        return [text async for text in _problems(row, run)]

    try:
        await polled(problems, lambda found: not found, PATIENCE)
    except TimeoutError as error:
        raise RowError(f"{error}; {run.told()}") from None


async def _problems(row: Row, run: Run) -> AsyncIterator[str]:
    expected, status = row.expected, run.status
    if expected.state:
        if _state(run) != expected.state:
            yield f"the job is {_state(run)}, not {expected.state}"
        for name, count in (("restarts", expected.restarts), ("disruptions", expected.disruptions)):
            if count is not None and (getattr(status, name) or 0) != count:
                yield f"{name} is {getattr(status, name) or 0}, not {count}"
        if expected.reason and status.conditions[-1].reason != expected.reason:
            yield f"the reason is {status.conditions[-1].reason}, not {expected.reason}"
        if len(true := [c.type for c in status.conditions if c.is_true and c.type in ("Succeeded", "Failed")]) > 1:
            yield f"several ends: {true}"
    for text in _pod_problems(row, run):
        yield text
    if expected.events:
        told = {event["reason"] for event in await run.events()}
        if missing := set(expected.events) - told:
            yield f"no event {', '.join(sorted(missing))} among {sorted(told)}"


def _pod_problems(row: Row, run: Run) -> Iterator[str]:
    for name, ends in row.expected.pods.items():
        seen = tuple(life.end for life in run.lives.get(name, ()))
        if seen != ends:
            yield f"{name} ended {seen}, not {ends}"
    for name, order in row.expected.order.items():
        lives = run.lives.get(name)
        if not lives or lives[0].order != order:
            yield f"{name} was seen {lives[0].order if lives else ()}, not {order}"
    if row.expected.pods and (more := run.lives.keys() - row.expected.pods.keys()):
        yield f"more pods than expected: {sorted(more)}"


def _state(run: Run) -> str:
    conditions = run.status.conditions
    return conditions[-1].type if conditions and conditions[-1].is_true else ""


async def _clear(run: Run) -> None:
    """The namespace goes: nothing of ours holds it. What the row itself holds is released."""
    for pod in (await run.api.call("GET", run.path("pods")))["items"]:
        if any(name.startswith("jobcommon.test/") for name in pod["metadata"].get("finalizers") or ()):
            path = run.path("pods", pod["metadata"]["name"])
            await run.api.call("PATCH", path, {"metadata": {"finalizers": None}}, "application/merge-patch+json")
    await gone_namespace(run)
