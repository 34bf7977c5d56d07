"""What can wait lets pass the jobs that people wait for, while this process itself is what is slow."""

import asyncio
from collections.abc import Callable, Hashable, Iterable

from jobcommon.runtime.clock import Clock

#: A backlog that lasts for longer holds nothing back: under a load that never ends everything has its turn.
PATIENCE = 10.0


class Backlog:
    """The jobs of all frameworks that are to be looked at. A process that keeps up with them has none most of the time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lengths: tuple[Callable[[], int], ...] = ()
        self._held: dict[Hashable, asyncio.Future[None]] = {}
        self._began: float | None = None

    def follow(self, lengths: Iterable[Callable[[], int]]) -> None:
        """What tells how many jobs wait, instead of what was followed before."""
        self._lengths = tuple(lengths)
        self.check()

    @property
    def is_there(self) -> bool:
        """Whether a job waits to be looked at."""
        return any(length() for length in self._lengths)

    async def over(self, key: Hashable = None) -> None:
        """Wait until no job waits, the backlog is as old as `PATIENCE`, or `hasten` is called with `key`.

        One at a time has a key.
        """
        now = self._clock.monotonic()
        if not self.is_there:
            self._began = None
            return
        if self._began is None:
            self._began = now
        if now >= self._began + PATIENCE:
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = place if key is None else key
        self._held[key] = place
        timer = self._clock.call_at(self._began + PATIENCE, lambda: _let_go(place))
        try:
            await place
        finally:
            timer.cancel()
            del self._held[key]

    def hasten(self, key: Hashable) -> None:
        """Hold back no longer who waits with `key`."""
        if (place := self._held.get(key)) is not None:
            _let_go(place)

    def check(self) -> None:
        """To be called when it may be over."""
        if self._began is not None and not self.is_there:
            self._began = None
            for place in self._held.values():
                _let_go(place)


def _let_go(place: asyncio.Future[None]) -> None:
    if not place.done():
        place.set_result(None)
