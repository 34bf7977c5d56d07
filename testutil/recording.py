"""What a client asks of an API server: a transport that keeps the verbs, as RBAC names them.

::

    recording = Recording(transport)
    await run_operators(recording, [PYTORCH], settings)
    assert recording.verbs == {("", "pods", "list"), …}
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import msgspec

from jobcommon.cli.embedded import to_cluster
from jobcommon.client.request import MERGE_PATCH, Request, Response, Transport
from localcluster.rules import RequestInfo, request_info

Before = Callable[[Request], Awaitable[Response | None]]


def access(request: Request) -> RequestInfo:
    """What a request wants to do. Without a `resource` if it is about none, such as discovery."""
    return request_info(to_cluster(request))


async def nothing(_: Request) -> None:
    """What happens before a request as a rule."""


class Passing:
    """Passes everything on to `transport`, which stays open, after `before`, which may take its time or answer instead."""

    def __init__(self, transport: Transport, before: Before = nothing) -> None:
        self.transport, self.before = transport, before

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        return await self.before(request) or await self.transport.send(request)

    async def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`."""
        await self.before(request)
        async with aclosing(self.transport.stream(request)) as lines:
            async for line in lines:
                yield line

    async def close(self) -> None:
        """See `Transport.close`."""


class Recording(Passing):
    """Keeps what was asked, and the bodies of creates, updates and merge patches."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, self._keep)
        self.asked: set[RequestInfo] = set()
        self.written: list[tuple[RequestInfo, dict[str, Any]]] = []

    @property
    def verbs(self) -> set[tuple[str, str, str]]:
        """(group, resource, verb) of all that was asked; a subresource is named as in "pods/status"."""
        return {(a.group, "/".join(filter(None, (a.resource, a.subresource))), a.verb) for a in self.asked}

    async def _keep(self, request: Request) -> None:
        found = access(request)
        if found.is_resource:
            self.asked.add(found)
            if request.body is not None and (found.verb in ("create", "update") or request.content_type == MERGE_PATCH):
                self.written.append((found, msgspec.json.decode(request.body, type=dict[str, Any])))
