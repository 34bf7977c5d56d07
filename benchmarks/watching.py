"""Watching one collection of an API server for as long as a context lasts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

from jobcommon.client.list_watch import Query, WatchedObject, list_and_watch
from jobcommon.client.request import Transport


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
