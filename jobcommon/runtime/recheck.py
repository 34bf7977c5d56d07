"""Repeated live reads of a job whose plan takes long to carry out (rule R7)."""

import asyncio
from collections.abc import Awaitable, Callable

from jobcommon.client.errors import ClientError
from jobcommon.runtime.clock import Clock

#: If the last live read of the job is older, the job may have finished meanwhile: it is read again before the next create.
RECHECK_SECONDS = 5.0


class Recheck:
    """Whether a job is still the one a plan was made for, by a live read if the last one is too old.

    `read` makes the live read and returns whether the job is unchanged, or raises ClientError. Concurrent callers share one
    read. Once the job has changed, the answer stays False.
    """

    def __init__(self, read: Callable[[], Awaitable[bool]], clock: Clock) -> None:
        self._read = read
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at = clock.monotonic()
        self.changed = False
        """Whether a live read has shown the job changed or deleted, or has failed."""

    async def recent(self) -> bool:
        """Whether the job is unchanged, by a live read at most `RECHECK_SECONDS` old."""
        return await self._since(self._clock.monotonic() - RECHECK_SECONDS)

    async def now(self) -> bool:
        """Whether the job is unchanged, by a live read that begins now or later."""
        return await self._since(self._clock.monotonic())

    async def _since(self, moment: float) -> bool:
        if self._is_due(moment):
            async with self._reading:
                # Another caller may have read the job meanwhile.
                if self._is_due(moment):
                    now = self._clock.monotonic()
                    try:
                        self.changed = not await self._read()
                    except ClientError:
                        self.changed = True
                    self._read_at = now
        return not self.changed

    def _is_due(self, moment: float) -> bool:
        return self._read_at <= moment and not self.changed
