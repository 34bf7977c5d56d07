"""Ages as kubectl prints them."""

from datetime import datetime

from jobcommon.api.duration import human_duration

UNKNOWN = "<unknown>"


def unix_seconds(timestamp: str) -> float:
    """Seconds since 1970 of an RFC 3339 time stamp; raises ValueError for anything else."""
    return datetime.fromisoformat(timestamp).timestamp()


def age(timestamp: object, now: float) -> str:
    """The age of an RFC 3339 time stamp at `now` (unix seconds), or ``<unknown>`` where there is none."""
    if not isinstance(timestamp, str) or not timestamp:
        return UNKNOWN
    try:
        return human_duration(now - unix_seconds(timestamp))
    except ValueError:
        return "<invalid>"
