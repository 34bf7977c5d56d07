"""One input through one parser: it gives a value or a documented error, at once. Counted, for the summary at the end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

from jobcommon.testutil.effort import effort

LIMIT = 50.0
"""In loops of `testutil.effort`, of about a millisecond each."""
LIKELY_SECONDS = 0.02
"""What takes less is not measured against the loop."""


@dataclass
class Tally:
    """What has been tried so far."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    slowest_name: str = ""
    names: dict[str, int] = field(default_factory=dict)


TALLY = Tally()


def trial(name: str, parse: Callable[[], Any], *errors: type[Exception]) -> Any:
    """What `parse` gives; None when it refuses the input with one of `errors`. Fails when it is more work than `LIMIT`."""
    TALLY.inputs += 1
    TALLY.names[name] = TALLY.names.get(name, 0) + 1
    result, seconds = _timed(parse, errors)
    loops = effort(lambda: _timed(parse, errors), LIMIT) if seconds > LIKELY_SECONDS else 0.0
    if seconds > TALLY.slowest:
        TALLY.slowest, TALLY.slowest_name = seconds, name
    assert loops <= LIMIT, f"{name} is {loops:.0f} loops of work"
    return result


def _timed(parse: Callable[[], Any], errors: tuple[type[Exception], ...]) -> tuple[Any, float]:
    started = thread_time()
    try:
        result = parse()
    except errors:
        TALLY.refused += 1
        result = None
    return result, thread_time() - started
