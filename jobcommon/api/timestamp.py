"""Times as the API writes them, RFC 3339 in UTC with whole seconds, and durations as kubectl prints them.

In the code a time is seconds since the epoch.
"""

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


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
# (below this many seconds, the unit, the finer unit that is added where it is not zero)
_STEPS = (
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (48 * _HOUR, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)


def human_duration(seconds: float) -> str:
    """A span in at most two units: ``45s``, ``3m26s``, ``5d``, ``2d3h``. A second of clock difference counts as
    zero.
    """
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 2 * _MINUTE:
        return f"{max(whole, 0)}s"
    for limit, (size, letter), finer in _STEPS:
        if whole < limit:
            rest = whole % size // finer[0] if finer else 0
            return f"{whole // size}{letter}{rest}{finer[1]}" if finer and rest else f"{whole // size}{letter}"
    return f"{whole // _YEAR}y"
