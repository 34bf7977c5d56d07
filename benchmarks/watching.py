"""Watching collections of an API server for as long as a context lasts; when each job there got which condition."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from time import monotonic

from jobcommon.client.list_watch import Query, WatchedObject, list_and_watch
from jobcommon.client.request import Transport

WAIT_SECONDS = 900.0


@asynccontextmanager
async def watching(
    transport: Transport, path: str, take: Callable[[WatchedObject], None], query: Query = ()
) -> AsyncIterator[asyncio.Task[None]]:
    """`take` receives every state of the objects at `path`. Raises what it raises, at the latest at the end of the context."""

    async def follow() -> None:
        async with aclosing(list_and_watch(transport, path, query)) as events:
            async for event in events:
                take(event)

    task = asyncio.create_task(follow())
    try:
        yield task
        if task.done():
            task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class JobWatch:
    """By name: the conditions that hold for each job, and when it was first seen with each. A job that is deleted has none."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[str, ...]] = {}
        self._times: dict[str, dict[str, float]] = defaultdict(dict)
        self._changed = asyncio.Event()

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        name = event.body["metadata"]["name"]
        if event.deleted:
            self._found.pop(name, None)
        else:
            conditions = event.body.get("status", {}).get("conditions", ())
            self._found[name] = tuple(one["type"] for one in conditions if one["status"] == "True")
            for condition in self._found[name]:
                self._times[condition].setdefault(name, monotonic())
        self._changed.set()
        self._changed = asyncio.Event()

    def conditions(self, name: str) -> tuple[str, ...]:
        """The conditions that hold for the job."""
        return self._found.get(name, ())

    async def until(self, name: str, holds: Callable[[tuple[str, ...] | None], bool]) -> float:
        """When the conditions of the job, or None without the job, first made `holds` true."""
        while not holds(self._found.get(name)):
            await self._changed.wait()
        return monotonic()

    async def having(self, condition: str, count: int) -> dict[str, float]:
        """When each job got the condition, once `count` jobs have it. Raises TimeoutError."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self._times[condition]) < count:
                await self._changed.wait()
        return dict(self._times[condition])


@asynccontextmanager
async def job_watch(transport: Transport, paths: Sequence[str], query: Query = ()) -> AsyncIterator[JobWatch]:
    """The jobs in these collections, for as long as the context lasts."""
    found = JobWatch()
    async with AsyncExitStack() as stack:
        for path in paths:
            await stack.enter_async_context(watching(transport, path, found.take, query))
        yield found
