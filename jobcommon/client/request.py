"""Requests and responses as values.

Nothing here performs I/O. The transport sends a `Request` to a real API server over HTTP; the embedded API server and the
simulator answer the very same value in process.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlencode

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request to an API server.

    `path` is absolute and already percent-encoded (``/api/v1/namespaces/default/pods``); `query` holds decoded pairs;
    `body` is the encoded payload; `headers` are extra headers with lower-case names.
    """

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def target(self) -> str:
        """The path with its query string."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Response:
    """A whole response; `body` is the raw payload."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """Sends requests to a real API server, to the embedded one in process, or to the simulator."""

    async def send(self, request: Request) -> Response:
        """Send `request` and read the whole response.

        A response of any status is returned, never raised. Raises `jobcommon.client.errors.TransportError` when no
        response arrived: the outcome of a write is then unknown (rule R12).
        """
        ...

    def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """Send a watch or log request and yield its lines (without the newline) until the server ends the stream. Close it, as
        by `contextlib.aclosing`, to give its connection back at once.

        Of a line that is overwritten by carriage returns, what it shows before it is complete may be given, too, with a
        carriage return at its end. Raises `jobcommon.client.errors.StatusError` when the server refuses to open the stream.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class OuterTransport:
    """A transport around another one, to which it passes everything on."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request) -> Response:
        """See `Transport.send`."""
        return await self._transport.send(request)

    def stream(self, request: Request) -> AsyncGenerator[bytes, None]:
        """See `Transport.stream`."""
        return self._transport.stream(request)

    async def close(self) -> None:
        """See `Transport.close`."""
        await self._transport.close()
