"""A transport that counts requests by verb and code."""

from collections.abc import AsyncIterator

from jobcommon.client.errors import StatusError
from jobcommon.client.lines import closing
from jobcommon.client.request import OuterTransport, Request, Response, Transport
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.metrics import Metrics

NO_ANSWER = "<error>"


class MeteredTransport(OuterTransport):
    """Passes every request to `transport`."""

    def __init__(self, transport: Transport, metrics: Metrics, clock: Clock) -> None:
        super().__init__(transport)
        self._metrics = metrics
        self._clock = clock

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        started = self._clock.monotonic()
        code = NO_ANSWER
        try:
            response = await self._transport.send(request)
            code = str(response.status)
            return response
        finally:
            self._metrics.requested(request.method, code, self._clock.monotonic() - started)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """See `Transport.stream`."""
        code = NO_ANSWER
        try:
            async with closing(self._transport.stream(request)) as lines:
                async for line in lines:
                    code = "200"
                    yield line
            code = "200"
        except StatusError as error:
            code = str(error.code)
            raise
        finally:
            self._metrics.requested("WATCH", code, None)
