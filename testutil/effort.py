"""How much work something is: its CPU time as a multiple of a loop of known work, which takes turns with it.

The same on a slow machine as on a fast one, and beside other processes: both are measured a few times, and of each the
fastest counts.
"""

import gc
import time
from collections.abc import Callable

import msgspec

TRIES = 5


def effort(do: Callable[[], object], allowed: float = float("inf"), *, tries: int = TRIES) -> float:
    """The CPU time of this thread for `do`, in loops (about a millisecond each). Tried once if that is within `allowed`."""
    unit = spent = float("inf")
    for turn in range(tries):
        unit = min(unit, _seconds(_loop))
        spent = min(spent, _seconds(do))
        if spent <= allowed * unit:
            break
        if turn == 0:
            # What was left to be collected is not its doing.
            gc.collect()
    return spent / unit


def loop_seconds(tries: int = 10 * TRIES) -> float:
    """The CPU seconds of one loop on this machine."""
    return min(_seconds(_loop) for _ in range(tries))


def _loop() -> None:
    for _ in range(3):
        rows = [{"name": f"worker-{number}", "labels": {"index": str(number)}} for number in range(300)]
        msgspec.json.decode(msgspec.json.encode(sorted(rows, key=lambda row: str(row["name"]))))


def _seconds(do: Callable[[], object]) -> float:
    started = time.thread_time()
    do()
    return time.thread_time() - started
