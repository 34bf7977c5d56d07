"""Running a coroutine as a process does: signals end it in order, and its exit code says how it ended."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from jobcommon.cli.errors import UserError, first_of

#: A terminal that closes ends what runs in it, as Ctrl-C and `kill` do.
T = TypeVar("T")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818  a signal is not an error
    """A signal has ended the coroutine, which has cleaned up after itself."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.number = number

    @property
    def code(self) -> int:
        """The exit code a shell expects."""
        return 128 + self.number


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`. The first signal cancels it; more of them do not disturb its cleaning up.

    Raises `Interrupted`, and what `main` raises; a UserError or OSError of one of its tasks without the group around it.
    """
    return asyncio.run(_run(main))


async def _run(main: Coroutine[Any, Any, T]) -> T:
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    received: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if not received:
            task.cancel()
        received.append(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await task
    except asyncio.CancelledError:
        if received:
            raise Interrupted(received[0]) from None
        raise
    except ExceptionGroup as group:
        first = first_of(group)
        if isinstance(first, UserError | OSError):
            raise first from None
        raise
    finally:
        # After a first signal the loop keeps the handlers until it is closed: a second one must not interrupt that.
        for number in () if received else SIGNALS:
            loop.remove_signal_handler(number)
