"""Times as the API writes them."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def format_time(seconds: float) -> str:
    """Unix seconds as metav1.Time: RFC 3339 in UTC, whole seconds."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(seconds: float) -> str:
    """Unix seconds as metav1.MicroTime: RFC 3339 in UTC with six digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=4096)
def parse_time(text: str) -> float:
    """A metav1.Time or MicroTime (at most nanoseconds) as Unix seconds. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
