"""Ages as kubectl prints them: the rules of k8s.io/apimachinery/pkg/util/duration.HumanDuration."""

from datetime import datetime

UNKNOWN = "<unknown>"
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
