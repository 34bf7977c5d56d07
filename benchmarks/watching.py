"""Watching collections of an API server for as long as a context lasts; when each job there got which condition."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from time import monotonic

from jobcommon.client.list_watch import WatchedObject, list_and_watch
from jobcommon.client.request import Transport

WAIT_SECONDS = 900.0


@asynccontextmanager
async def watching(transport: Transport, path: str, take: Callable[[WatchedObject], None]) -> AsyncIterator[asyncio.Task[None]]:
    """`take` receives every state of the objects at `path`. Raises what it raises, at the latest at the end of the context."""

    async def follow() -> None:
        async with aclosing(list_and_watch(transport, path)) as events:
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
    """When each job was first seen with each condition that holds for it."""

    def __init__(self) -> None:
        self._times: dict[str, dict[str, float]] = defaultdict(dict)
        self._changed = asyncio.Event()

    def take(self, event: WatchedObject) -> None:
        """Handle a change."""
        name = event.body["metadata"]["name"]
        for condition in event.body.get("status", {}).get("conditions", ()):
            if condition["status"] == "True":
                self._times[condition["type"]].setdefault(name, monotonic())
        self._changed.set()
        self._changed = asyncio.Event()

    async def having(self, condition: str, count: int) -> dict[str, float]:
        """When each job got the condition, once `count` jobs have it. Raises TimeoutError."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self._times[condition]) < count:
                await self._changed.wait()
        return dict(self._times[condition])


@asynccontextmanager
async def job_watch(transport: Transport, path: str) -> AsyncIterator[JobWatch]:
    """The jobs in that collection, for as long as the context lasts."""
    found = JobWatch()
    async with watching(transport, path, found.take):
        yield found
