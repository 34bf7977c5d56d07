"""Sending requests: one, or many at once."""

import asyncio
from collections.abc import Sequence

from jobcommon.client.request import Request, Transport

#: The operator's default.
CONCURRENCY = 64


async def send(transport: Transport, request: Request, *fine: int) -> bytes:
    """The body of the response. Raises RuntimeError for an error whose status is not `fine`."""
    answer = await transport.send(request)
    if answer.status < 300 or answer.status in fine:
        return answer.body
    raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")


async def send_all(transport: Transport, requests: Sequence[Request], concurrency: int = CONCURRENCY) -> list[bytes]:
    """Send the requests in order, `concurrency` at a time; returns the bodies of the responses. Raises RuntimeError."""
    bodies = [b""] * len(requests)
    queue = iter(enumerate(requests))

    async def work() -> None:
        for number, request in queue:
            bodies[number] = await send(transport, request)

    await asyncio.gather(*(work() for _ in range(min(concurrency, len(requests)))))
    return bodies
