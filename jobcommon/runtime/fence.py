"""The fence: whether this process may write now (rule R8)."""

from typing import Protocol

from jobcommon.client.errors import ClientError
from jobcommon.client.request import OuterTransport, Request, Response, Transport


class Fence(Protocol):
    """Whether the lease is valid by the local monotonic clock."""

    def held(self) -> bool:
        """Whether a write that starts now ends before another process may start to write."""
        ...


class FencedError(ClientError):
    """The write was not tried: this process does not hold the lease."""


class FencedTransport(OuterTransport):
    """Refuses writes without the lease. It is the innermost transport, after everything that may wait, such as a rate limit."""

    def __init__(self, transport: Transport, fence: Fence) -> None:
        super().__init__(transport)
        self._fence = fence

    async def send(self, request: Request) -> Response:
        """See `Transport.send`. Raises FencedError."""
        if request.method != "GET" and not self._fence.held():
            raise FencedError("this process does not hold the lease")
        return await self._transport.send(request)
