"""Running one of the library's informers."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Stream, Wait
from jobcommon.cache.store import Batch
from jobcommon.client.errors import ClientError
from jobcommon.client.lines import closing
from jobcommon.client.request import Request, Transport

LINES_PER_TURN = 50


async def run_informer(informer: Informer[Any], transport: Transport, take: Callable[[Batch[Any]], None]) -> None:
    """Keep `informer` up to date until cancelled; `take` receives the changes of each response and of each line of a watch."""
    while True:
        match informer.next(monotonic()):
            case Wait(until):
                await asyncio.sleep(until - monotonic())
            case Fetch(request):
                try:
                    take(informer.received(await transport.send(request), monotonic()))
                except ClientError as error:
                    informer.failed(error, monotonic())
            case Stream(request):
                await _stream(informer, transport, request, take)


async def _stream(informer: Informer[Any], transport: Transport, request: Request, take: Callable[[Batch[Any]], None]) -> None:
    try:
        async with closing(transport.stream(request)) as lines:
            count = 0
            async for line in lines:
                take(informer.line(line, monotonic()))
                if not informer.streaming:
                    return
                count += 1
                if count % LINES_PER_TURN == 0:
                    await asyncio.sleep(0)
    except ClientError as error:
        informer.failed(error, monotonic())
    else:
        informer.ended(monotonic())
