"""Requests and responses as values, and the errors of talking to an API server.

Nothing here performs I/O. The embedded API server answers a `Request` in process; `localcluster.http_client` sends the very
same value to a server over HTTP.
"""

import json
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

        Raises `localcluster.request.TransportError` when no response arrived: the outcome of a write is then unknown.
        """
        ...

    def stream(self, request: Request) -> AsyncIterator[bytes]:
        """Send a watch or log request and yield its lines (without the newline) until the server ends the stream.

        Raises `localcluster.request.StatusError` when the server refuses to open the stream, and TransportError.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class ClientError(Exception):
    """Anything that can go wrong between a client and an API server."""


class TransportError(ClientError):
    """No response arrived (connection refused, reset, timed out). A write may or may not have been applied."""


@dataclass
class StatusError(ClientError):
    """The server answered with an error status.

    `code` is the HTTP status, `reason` the machine-readable reason of the Kubernetes Status object ("" when the body was
    not one), `message` its text, `retry_after` the seconds the server asked to wait, if it did.
    """

    code: int
    reason: str = ""
    message: str = ""
    retry_after: float | None = None

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}" if self.reason else f"{self.code}: {self.message}"


def refusal(code: int, body: bytes) -> StatusError:
    """The error of a response, whose body is a Status, or plain text where a path is not served."""
    try:
        status = json.loads(body)
        return StatusError(code, status.get("reason") or "", status.get("message") or "")
    except (ValueError, AttributeError):
        return StatusError(code, message=body.decode(errors="replace"))
