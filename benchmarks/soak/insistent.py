"""Requests of a client that outlives the server's restarts."""

import asyncio

from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Response, Transport

_PAUSE = 0.1
_FOR_NOW = (429, 500, 502, 503, 504)


async def insist(transport: Transport, request: Request, *fine: int) -> Response:
    """Send until the server answers with success or one of `fine`. Raises RuntimeError for any other answer of its own.

    The answer to an earlier attempt may have been lost: `fine` is then how the server says that it is done already.
    """
    while True:
        try:
            answer = await transport.send(request)
        except ClientError:
            await asyncio.sleep(_PAUSE)
            continue
        if answer.status < 300 or answer.status in fine:
            return answer
        if answer.status not in _FOR_NOW:
            raise RuntimeError(f"{request.method} {request.path}: {answer.status} {answer.body[:300]!r}")
        await asyncio.sleep(_PAUSE)
