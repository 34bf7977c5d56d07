"""Error statuses as the API server writes them, and its Retry-After."""

from typing import Any

import msgspec

from jobcommon.api.view import decoder
from jobcommon.client.errors import StatusError
from jobcommon.client.request import Response

# A server asks for 1 to 32 s; a mistaken value must not silence a client for hours.
MAX_RETRY_AFTER = 300.0


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_status = decoder(_Status)
_document = decoder(dict[str, Any])


def status_error(body: bytes | msgspec.Raw, *, code: int, retry_after: float | None = None) -> StatusError:
    """The error in a Status object; `code` is used if it has none. An unreadable body gives an error without a reason."""
    try:
        status = _status(body)
    except msgspec.DecodeError:
        status = _Status()
    if retry_after is None and status.details and status.details.retry_after:
        retry_after = min(max(status.details.retry_after, 0.0), MAX_RETRY_AFTER)
    return StatusError(status.code or code, status.reason or "", status.message or "", retry_after)


def response_error(response: Response) -> StatusError:
    """The error of a response with a status of 400 or more."""
    asked = retry_after(response.headers.get("retry-after"))
    error = status_error(response.body, code=response.status, retry_after=asked)
    error.code = response.status
    return error


def answered(response: Response) -> dict[str, Any]:
    """The object in a response. Raises StatusError for one with a status of 400 or more, and for one that has no object."""
    if response.status >= 400:
        raise response_error(response)
    try:
        return _document(response.body)
    except msgspec.DecodeError:
        raise StatusError(response.status, message="the answer does not come from an API server") from None


def retry_after(header: str | None) -> float | None:
    """The seconds a Retry-After header asks for, at most `MAX_RETRY_AFTER`; None for a missing or unreadable one.

    API servers write whole seconds. A date, as a proxy may write it, is ignored, as by client-go.
    """
    text = (header or "").strip()
    # int() of thousands of digits is refused by Python, and more than a handful means "long" anyway.
    return min(float(text[:10]), MAX_RETRY_AFTER) if text.isascii() and text.isdigit() else None
