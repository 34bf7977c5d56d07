"""Many cases, several at a time: a real server spends most of a request waiting."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator

from localcluster.conformance.case import Case
from localcluster.conformance.comparison import Outcome, compare
from localcluster.conformance.driver import Driver
from localcluster.conformance.target import embedded

WORKERS = 6
"""Enough to keep two cores busy."""


async def run(
    cases: Iterable[Case], theirs: Driver | None, report: Callable[[Outcome], None], *,
    workers: int = WORKERS, seconds: float = float("inf"),
) -> None:  # fmt: skip
    """Compare every case and `report` what came of it, as it comes; begin none after `seconds`.

    The real server is shared: only cases that keep to their own namespaces may run at the same time. Every worker has an
    embedded server of its own.
    """
    pending, end = iter(cases), time.monotonic() + seconds
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(pending, theirs, report, end))


async def _work(pending: Iterator[Case], theirs: Driver | None, report: Callable[[Outcome], None], end: float) -> None:
    async with embedded() as target:
        ours = Driver(target)
        await ours.prepare()
        for case in pending:
            if time.monotonic() > end:
                return
            report(await compare(case, ours, theirs))
