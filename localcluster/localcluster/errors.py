"""The errors of talking to an API server."""

import json
from dataclasses import dataclass


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
