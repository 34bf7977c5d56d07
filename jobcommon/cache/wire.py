"""List pages, watch events and error statuses as the API server writes them."""

import msgspec

from jobcommon.client.errors import StatusError
from jobcommon.client.request import Response

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

# A server asks for 1 to 32 s; a mistaken value must not silence a cache for hours.
MAX_RETRY_AFTER = 300.0


class ListMetadata(msgspec.Struct):
    """The metadata of a list page; `continue_token` is "" on the last one."""

    resource_version: str | None = msgspec.field(default=None, name="resourceVersion")
    continue_token: str | None = msgspec.field(default=None, name="continue")


class Page(msgspec.Struct):
    """A page of a list. Items stay encoded, so that one bad item cannot lose the page."""

    metadata: ListMetadata
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct):
    """One line of a watch, its object still encoded."""

    type: str
    object: msgspec.Raw = msgspec.Raw(b"null")


class BookmarkMetadata(msgspec.Struct):
    """The metadata of a bookmark."""

    resource_version: str = msgspec.field(default="", name="resourceVersion")
    annotations: dict[str, str] | None = None


class Bookmark(msgspec.Struct):
    """A bookmark: an object with nothing but metadata."""

    metadata: BookmarkMetadata


class _Details(msgspec.Struct):
    retry_after: float | None = msgspec.field(default=None, name="retryAfterSeconds")


class _Status(msgspec.Struct):
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


page = msgspec.json.Decoder(Page).decode
watch_event = msgspec.json.Decoder(WatchEvent).decode
bookmark = msgspec.json.Decoder(Bookmark).decode
_status = msgspec.json.Decoder(_Status).decode


def status_error(body: bytes | msgspec.Raw, *, code: int, retry_after: str | None = None) -> StatusError:
    """The error in a Status object; `code` stands in for a missing one. Garbage gives an error without a reason."""
    try:
        status = _status(body)
    except msgspec.DecodeError:
        status = _Status()
    asked = _seconds(retry_after)
    if asked is None and status.details and status.details.retry_after:
        asked = min(max(status.details.retry_after, 0.0), MAX_RETRY_AFTER)
    return StatusError(status.code or code, status.reason or "", status.message or "", asked)


def response_error(response: Response) -> StatusError:
    """The error of a response with a status of 400 or more."""
    error = status_error(response.body, code=response.status, retry_after=response.headers.get("retry-after"))
    error.code = response.status
    return error


def is_expired(error: StatusError) -> bool:
    """Whether the version or continue token we asked for is too old for the server."""
    return error.code == 410


def is_too_large(error: StatusError) -> bool:
    """Whether the server has not reached the version we asked for. Other 504s carry the same code and reason."""
    return error.code == 504 and "Too large resource version" in error.message


def _seconds(retry_after: str | None) -> float | None:
    # An HTTP date is allowed by the RFC but sent by no API server; it would need the wall clock.
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return None
    return min(float(retry_after), MAX_RETRY_AFTER)
