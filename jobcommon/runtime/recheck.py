"""Another look at a job whose plan takes long to carry out."""

import asyncio
from collections.abc import Awaitable, Callable

from jobcommon.runtime.clock import Clock

#: A job that was last seen so long ago may have ended meanwhile: it is looked at again before the next create.
RECHECK_SECONDS = 5.0


class Recheck:
    """Whether a job is still the one a plan was made for, by a live read when the last one is too old.

    `look` makes that read. Many may ask at once; one looks for all of them. A job that has changed stays changed.
    """

    def __init__(self, look: Callable[[], Awaitable[bool]], clock: Clock) -> None:
        self._look = look
        self._clock = clock
        self._looking = asyncio.Lock()
        self._seen_at = clock.monotonic()
        self.changed = False
        """Whether a look has shown the job changed or gone, or has failed."""

    async def lately(self) -> bool:
        """Whether the job is as it was, less than `RECHECK_SECONDS` ago."""
        return await self._since(self._clock.monotonic() - RECHECK_SECONDS)

    async def now(self) -> bool:
        """Whether the job is as it was, from now on."""
        return await self._since(self._clock.monotonic())

    async def _since(self, moment: float) -> bool:
        if self._is_due(moment):
            async with self._looking:
                # Another one may have looked meanwhile.
                if self._is_due(moment):
                    now = self._clock.monotonic()
                    self.changed = not await self._look()
                    self._seen_at = now
        return not self.changed

    def _is_due(self, moment: float) -> bool:
        return self._seen_at <= moment and not self.changed
