"""Requests and responses as values.

Nothing here performs I/O. The embedded API server answers a `Request` in process; `localcluster.http_client` sends the very
same value to a server over HTTP.
"""

from collections.abc import AsyncIterator, Mapping
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
    """Sends requests to an API server."""

    async def send(self, request: Request) -> Response:
        """Send `request` and read the whole response, whatever its status.

        Raises `localcluster.errors.TransportError` when no response arrived: the outcome of a write is then unknown.
        """
        ...

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Send a watch or log request and yield its lines (without the newline) until the server ends the stream.

        Raises `localcluster.errors.StatusError` when the server refuses to open the stream, and TransportError.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...
