"""The one way to follow a job, for the Python client, `kubectl train wait` and the command `run`."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from jobcommon.client.errors import ClientError, StatusError, TransportError
from jobcommon.client.list_watch import INTERRUPTED, watch
from jobcommon.client.objects import object_path
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import answered
from jobcommon.framework import Framework

# Between two reads of a job when there is no watch.
RETRY_SECONDS = 2.0
WATCH_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Timing:
    """The clocks of a client, and how it waits."""

    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time


class Target(NamedTuple):
    """Which job."""

    framework: Framework
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Its path at the API server."""
        return object_path(self.framework.api_version, self.framework.plural, self.namespace, self.name)

    @property
    def title(self) -> str:
        """``pytorchjob/digits``."""
        return f"{self.framework.singular}/{self.name}"


SYSTEM = Timing()


async def states(
    transport: Transport, target: Target, *, every: float = WATCH_SECONDS, until: float = math.inf, timing: Timing = SYSTEM
) -> AsyncGenerator[dict[str, Any] | ClientError, None]:
    """The job as it is, and as it becomes. It is read again at the latest after `every` seconds; if it may not be watched,
    every two. The last read is at `until` (monotonic seconds).

    While the API server does not answer, the error is given instead. Raises StatusError for a refusal: 404 when the job does
    not exist, or not any more.
    """
    path, query = target.path.rpartition("/")[0], (("fieldSelector", f"metadata.name={target.name}"),)
    while True:
        begin = timing.monotonic()
        seconds, last = max(min(every, until - begin), 0.0), begin >= until
        try:
            yield (found := answered(await transport.send(Request("GET", target.path))))
            version, deleted = found["metadata"]["resourceVersion"], False
            # Whatever ends a watch, the next read says how it is with the server and the job.
            with suppress(*INTERRUPTED):
                async with aclosing(watch(transport, path, query, version, int(seconds))) as changes:
                    # A second is the shortest watch.
                    while seconds >= 1 and not deleted and (change := await anext(changes, None)) is not None:
                        if not (deleted := change.deleted):
                            yield change.body
            if deleted:
                yield answered(await transport.send(Request("GET", target.path)))
        except (TransportError, StatusError) as error:
            if isinstance(error, StatusError) and not error.passing:
                raise
            yield error
        if last:
            return
        await timing.pause(max(0.0, min(begin + seconds - timing.monotonic(), RETRY_SECONDS)))
