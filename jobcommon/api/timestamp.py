"""Times as the API writes them: RFC 3339 in UTC with whole seconds. In the code a time is seconds since the epoch."""

from datetime import UTC, datetime
from functools import lru_cache


def format_time(seconds: float) -> str:
    """The API's text for a time; a time outside the years 1 to 9999 is clamped to them."""
    try:
        return _text(int(seconds))
    except (OverflowError, ValueError, OSError):
        return "9999-12-31T00:00:00Z" if seconds > 0 else "0001-01-01T00:00:00Z"


def format_moment(seconds: float) -> str:
    """The same with milliseconds, for times of which differences are added up."""
    text = format_time(seconds)
    return f"{text[:-1]}.{int(seconds % 1 * 1000):03}Z"


# A status has the same times in each write, and jobs that start together share theirs.
@lru_cache(maxsize=1024)
def _text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat() + "Z"


def parse_time(text: object) -> float | None:
    """Seconds since the epoch, or None for anything that is not a time with a zone."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def trusted(time: float | None, now: float, ahead: float = 0.0) -> float | None:
    """A time that another process or a node has written; None if it is more than `ahead` seconds ahead of `now`, our clock.

    Whatever waits for some seconds from such a time waits at most twice as long if it accepts one so far ahead.
    """
    return time if time is not None and time <= now + ahead else None


def readable_time(time: str | None, now: float) -> str:
    """`time` if it can be parsed, else `now` (seconds since the epoch)."""
    return time if time is not None and parse_time(time) is not None else format_time(now)
