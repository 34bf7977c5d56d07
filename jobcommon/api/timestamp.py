"""Times as the API writes them: RFC 3339 in UTC with whole seconds. In the code a time is seconds since the epoch."""

from datetime import UTC, datetime


def format_time(seconds: float) -> str:
    """The API's text for a time; a time outside the years 1 to 9999 is clamped to them."""
    try:
        moment = datetime.fromtimestamp(int(seconds), UTC)
    except (OverflowError, ValueError, OSError):
        moment = datetime(9999, 12, 31, tzinfo=UTC) if seconds > 0 else datetime(1, 1, 1, tzinfo=UTC)
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_time(text: object) -> float | None:
    """Seconds since the epoch, or None for anything that is not a time with a zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None
