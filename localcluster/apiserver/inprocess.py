"""The server behind the `Transport` that clients use for a real one."""

import asyncio
from collections.abc import AsyncIterator

from jobcommon.client.errors import StatusError
from jobcommon.client.request import Request, Response
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.users import ADMIN, User


class InProcessTransport:
    """A `jobcommon.client.request.Transport` to a server in the same process and event loop.

    `user` is whom every request is from. `pods/log` needs the HTTP server, where the kubelet is connected.
    """

    def __init__(self, server: ApiServer, user: User = ADMIN) -> None:
        self._server = server
        self._user = user

    async def send(self, request: Request) -> Response:
        """Answer the request; gives the event loop one turn, as a network would."""
        await asyncio.sleep(0)
        return self._server.handle(request, self._user)

    async def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the lines of a watch. Raises StatusError when it is refused."""
        awake = asyncio.Event()
        try:
            watch = self._server.watch(request, awake.set, self._user)
        except ApiError as error:
            raise StatusError(error.code, error.reason, error.message, _retry_after(error)) from None
        try:
            while True:
                awake.clear()
                watch.tick()
                for line in watch.drain().splitlines():
                    yield line
                if watch.closed:
                    return
                if not awake.is_set():
                    await _wait(awake, watch.next_at - self._server.env.now())
        finally:
            watch.close()

    async def close(self) -> None:
        """Nothing to release."""


async def _wait(awake: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(max(seconds, 0.0)):
            await awake.wait()
    except TimeoutError:
        return


def _retry_after(error: ApiError) -> float | None:
    value = error.headers.get("Retry-After")
    return None if value is None else float(value)
