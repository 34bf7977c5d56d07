"""Requests of an API server: one, many at once, and watches; when each job there got which condition."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from time import monotonic

from jobcommon.client.list_watch import WatchedObject, list_and_watch
from jobcommon.client.request import Request, Transport

#: The operator's default.
CONCURRENCY = 64
WAIT_SECONDS = 900.0


async def send(transport: Transport, request: Request, *fine: int) -> bytes:
    """The body of the response. Raises RuntimeError for an error whose status is not `fine`."""
    answer = await transport.send(request)
    if answer.status < 300 or answer.status in fine:
        return answer.body
    raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")


async def send_all(transport: Transport, requests: Iterable[Request], concurrency: int = CONCURRENCY) -> None:
    """Send the requests in order, `concurrency` at a time. Raises RuntimeError."""
    queue = iter(requests)

    async def work() -> None:
        for request in queue:
            await send(transport, request)

    await asyncio.gather(*(work() for _ in range(concurrency)))


async def prepare(transport: Transport, namespace: str) -> None:
    """Make a namespace in which pods can be created: where no controller does it, its account is missing."""
    account = {"metadata": {"name": "default"}, "automountServiceAccountToken": False}
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": namespace}}),
        (f"/api/v1/namespaces/{namespace}/serviceaccounts", account),
    ):
        await send(transport, Request("POST", path, body=json.dumps(body).encode()), 409)


@asynccontextmanager
async def watching(transport: Transport, path: str, take: Callable[[WatchedObject], None]) -> AsyncIterator[None]:
    """`take` receives every state of the objects at `path`. Raises what it raises, at the latest at the end of the context."""

    async def follow() -> None:
        async with aclosing(list_and_watch(transport, path)) as events:
            async for event in events:
                take(event)

    task = asyncio.create_task(follow())
    try:
        yield
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

    async def having(self, condition: str, count: int) -> dict[str, float]:
        """When each job got the condition, once `count` jobs have it. Raises TimeoutError."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self._times[condition]) < count:
                self._changed.clear()
                await self._changed.wait()
        return dict(self._times[condition])


@asynccontextmanager
async def job_watch(transport: Transport, path: str) -> AsyncIterator[JobWatch]:
    """The jobs in that collection, for as long as the context lasts."""
    found = JobWatch()
    async with watching(transport, path, found.take):
        yield found
