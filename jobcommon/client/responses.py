"""Error statuses as the API server writes them, and its Retry-After."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
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


def status_error(body: bytes | msgspec.Raw, *, code: int, retry_after: float | None = None) -> StatusError:
    """The error in a Status object; `code` is used if it has none. An unreadable body gives an error without a reason."""
    try:
        status = _status(body)
    except msgspec.DecodeError:
        status = _Status()
    if retry_after is None and status.details and status.details.retry_after:
        retry_after = min(max(status.details.retry_after, 0.0), MAX_RETRY_AFTER)
    return StatusError(status.code or code, status.reason or "", status.message or "", retry_after)


def response_error(response: Response, now: float | None = None) -> StatusError:
    """The error of a response with a status of 400 or more.

    `now` is the wall clock in seconds since the epoch, for a Retry-After that is a date; without it a date is ignored.
    """
    asked = retry_after(response.headers.get("retry-after"), now)
    error = status_error(response.body, code=response.status, retry_after=asked)
    error.code = response.status
    return error


def answered(response: Response) -> dict[str, Any]:
    """The object in a response. Raises StatusError for one with a status of 400 or more, and for one that has no object."""
    if response.status >= 400:
        raise response_error(response)
    try:
        return msgspec.json.decode(response.body, type=dict[str, Any])
    except msgspec.DecodeError:
        raise StatusError(response.status, message="the answer does not come from an API server") from None


def retry_after(header: str | None, now: float | None = None) -> float | None:
    """The seconds a Retry-After header asks for, from 0 to `MAX_RETRY_AFTER`; None for a missing or unreadable one.

    It holds whole seconds or an HTTP date (RFC 9110, 10.2.3); a date counts from `now` and is ignored without it.
    """
    if header is None:
        return None
    text = header.strip()
    if text.isascii() and text.isdigit():
        # int() of thousands of digits is refused by Python, and more than a handful means "long" anyway.
        return min(float(text[:10]), MAX_RETRY_AFTER)
    if now is None:
        return None
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    seconds = (date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.fromtimestamp(now, UTC)
    return min(max(seconds.total_seconds(), 0.0), MAX_RETRY_AFTER)
