"""An optional limit on requests per second, in addition to the API server's own flow control."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from jobcommon.client.request import OuterTransport, Request, Response, Transport


class TokenBucket:
    """A token bucket: `rate` tokens a second, at most `burst` saved. Requests wait for a token in order of arrival."""

    def __init__(
        self,
        rate: float,
        burst: float,
        now: Callable[[], float],
        sleep_until: Callable[[float], Awaitable[None]],
    ) -> None:
        if rate <= 0 or burst < 1:
            raise ValueError(f"the limit must be over 0 a second with a burst of at least 1, not {rate} and {burst}")
        self._rate = rate
        self._burst = burst
        self._now = now
        self._sleep_until = sleep_until
        self._tokens = burst
        self._at = now()
        self._last_booked = self._at

    async def take(self) -> None:
        """Wait for a token and take it."""
        now = self._now()
        self._tokens = min(self._tokens + (now - self._at) * self._rate, self._burst)
        self._at = now
        # A negative number reserves the token: later requests see the debt and wait longer.
        self._tokens -= 1
        if self._tokens >= 0:
            return
        booked = self._last_booked = now - self._tokens / self._rate
        try:
            await self._sleep_until(booked)
        except asyncio.CancelledError:
            # A token returned by a cancelled request in the middle would admit a new request together with the last one.
            if booked == self._last_booked:
                self._tokens += 1
            raise


class LimitedTransport(OuterTransport):
    """A transport that waits before each request: `wait` returns when the next one may be sent, such as with a token."""

    def __init__(self, transport: Transport, wait: Callable[[], Awaitable[None]]) -> None:
        super().__init__(transport)
        self._wait = wait

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        await self._wait()
        return await self._transport.send(request)

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`."""
        await self._wait()
        async with aclosing(self._transport.stream(request)) as lines:
            async for line in lines:
                yield line
