"""One input through one parser: it gives a value or a documented error, at once. Counted, for the summary at the end."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

LIMIT_SECONDS = 0.05


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
    """What `parse` gives; None when it refuses the input with one of `errors`. Fails when it takes longer than 50 ms of CPU."""
    TALLY.inputs += 1
    TALLY.names[name] = TALLY.names.get(name, 0) + 1
    result, seconds = _timed(parse, errors)
    if seconds > LIMIT_SECONDS:
        # Once is the machine's or the garbage collector's doing.
        gc.collect()
        seconds = min(seconds, *(_timed(parse, errors)[1] for _ in range(3)))
    if seconds > TALLY.slowest:
        TALLY.slowest, TALLY.slowest_name = seconds, name
    assert seconds <= LIMIT_SECONDS, f"{name} took {seconds * 1000:.0f} ms"
    return result


def _timed(parse: Callable[[], Any], errors: tuple[type[Exception], ...]) -> tuple[Any, float]:
    started = time.thread_time()
    try:
        result = parse()
    except errors:
        TALLY.refused += 1
        result = None
    return result, time.thread_time() - started
