"""Reports where the event loop is stuck: a framework's function that never returns blocks
the whole process, its log included.
"""

import asyncio
import faulthandler
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

WATCHDOG_SECONDS = 10.0
# By its number: `sys.stderr` may have been replaced by an object without a file descriptor.
STANDARD_ERROR = 2


@asynccontextmanager
async def event_loop_watchdog(seconds: float = WATCHDOG_SECONDS) -> AsyncIterator[None]:
    """Inside the context, dump the stacks of all threads to standard error once the loop has been blocked for `seconds`."""
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
            # A thread of the interpreter itself, which needs neither the event loop nor the GIL.
            faulthandler.dump_traceback_later(seconds, file=STANDARD_ERROR)
            await asyncio.sleep(seconds / 10)
    finally:
        faulthandler.cancel_dump_traceback_later()
