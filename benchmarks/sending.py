"""Sending requests: one, or many at once, and through the restarts of a server."""

import asyncio
from collections.abc import Sequence

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport

#: The operator's default.
CONCURRENCY = 64
_PAUSE = 0.1
_FOR_NOW = (429, 500, 502, 503, 504)


async def send(transport: Transport, request: Request, *fine: int, insist: bool = False) -> bytes:
    """The body of the response. Raises RuntimeError for an error whose status is not `fine`.

    With `insist` it is sent until the server has answered, which may be restarted meanwhile. The answer to an earlier attempt
    may have been lost: `fine` is then how the server says that it is done already.
    """
    while True:
        try:
            answer = await transport.send(request)
        except ClientError:
            if not insist:
                raise
        else:
            if answer.status < 300 or answer.status in fine:
                return answer.body
            if not insist or answer.status not in _FOR_NOW:
                raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")
        await asyncio.sleep(_PAUSE)


async def send_all(transport: Transport, requests: Sequence[Request], concurrency: int = CONCURRENCY) -> list[bytes]:
    """Send the requests in order, `concurrency` at a time; returns the bodies of the responses. Raises RuntimeError."""
    bodies = [b""] * len(requests)
    queue = iter(enumerate(requests))

    async def work() -> None:
        for number, request in queue:
            bodies[number] = await send(transport, request)

    await asyncio.gather(*(work() for _ in range(min(concurrency, len(requests)))))
    return bodies
