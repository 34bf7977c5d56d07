"""Says where the event loop is stuck (reliability reference, row 112): a framework's function that never returns holds up
everything, and no log line of ours can be written meanwhile.
"""

import asyncio
import faulthandler
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

STALLED_AFTER = 10.0
# By its number: `sys.stderr` may have been replaced by what is no file.
STANDARD_ERROR = 2


@asynccontextmanager
async def event_loop_watchdog(seconds: float = STALLED_AFTER) -> AsyncIterator[None]:
    """While the context lasts, the stacks of all threads go to standard error once the loop has stood still for `seconds`."""
    beating = asyncio.create_task(_beat(seconds), name="stalls")
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating


async def _beat(seconds: float) -> None:
    try:
        while True:
            # A thread of the interpreter's own, which needs no turn of the loop and no lock.
            faulthandler.dump_traceback_later(seconds, file=STANDARD_ERROR)
            await asyncio.sleep(seconds / 10)
    finally:
        faulthandler.cancel_dump_traceback_later()
