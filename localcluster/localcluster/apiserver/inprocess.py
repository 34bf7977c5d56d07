"""The server behind the `Transport` that clients use for a real one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from localcluster.apiserver.authentication import ADMIN, User
from localcluster.apiserver.errors import ApiError
from localcluster.apiserver.server import ApiServer
from localcluster.apiserver.sessions import Watch, open_logs
from localcluster.pod_backend import PodBackend, PodBackendError
from localcluster.request import Request, Response, StatusError


class InProcessTransport:
    """A `localcluster.request.Transport` to a server in the same process and event loop.

    `user` is the user of every request; `pods` answers ``pods/log``. A watch receives an event as soon as it is written.
    """

    def __init__(self, server: ApiServer, user: User = ADMIN, pods: PodBackend | None = None) -> None:
        self._server = server
        self._user = user
        self._pods = pods

    async def send(self, request: Request) -> Response:
        """Answer the request; gives the event loop one turn, as a network would."""
        await asyncio.sleep(0)
        if request.path.endswith("/log"):
            return await self._whole_log(request)
        return self._server.handle(request, self._user)

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the lines of a watch or a log, of an overwritten line what it shows now with a carriage return at its end.

        Raises StatusError when it is refused.
        """
        return self._events(request) if self._server.is_watch(request) else self._log(request)

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        try:
            watch = Watch(self._server, request, self._user)
        except ApiError as error:
            raise _refused(error) from None
        async with aclosing(watch.lines()) as events:
            async for lines in events:
                for line in lines.splitlines():
                    yield line

    async def _whole_log(self, request: Request) -> Response:
        try:
            return Response(200, b"".join([piece async for piece in open_logs(self._server, self._pods, request, self._user)]))
        except ApiError as error:
            return error.response()
        except PodBackendError as error:
            return ApiError(error.code, "BadRequest", error.message).response()

    async def _log(self, request: Request) -> AsyncIterator[bytes]:
        try:
            chunks = open_logs(self._server, self._pods, request, self._user)
        except ApiError as error:
            raise _refused(error) from None
        rest = b""
        try:
            async for chunk in chunks:
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line.rstrip(b"\r")
                if b"\r" in rest:
                    # A progress bar: what it shows now. What it has shown since its beginning is dropped.
                    head, _, tail = rest.partition(b"\r")
                    shown = tail.rstrip(b"\r")
                    frame = shown.rpartition(b"\r")[2]
                    rest = b"\r".join([head, frame + tail[len(shown) :][:1]])
                    if shown:
                        yield frame + b"\r"
        except PodBackendError as error:
            raise StatusError(error.code, "", error.message) from None
        if rest:
            yield rest.rstrip(b"\r")

    async def close(self) -> None:
        """Nothing to release."""


def _refused(error: ApiError) -> StatusError:
    retry = error.headers.get("Retry-After")
    return StatusError(error.code, error.reason, error.message, None if retry is None else float(retry))
