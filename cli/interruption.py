"""Ctrl-C while the command imports its modules, before a cluster or an operator handles signals.

Imports take most of a second, in which Python would answer with a traceback. So this module, and the package above it, import
next to nothing themselves.
"""

import os
import signal
import sys

CODE = 128 + signal.SIGINT
LINE = "interrupted; nothing is left running\n"


def _leave(_number: int, _frame: object) -> None:
    sys.stderr.write(LINE)
    sys.stderr.flush()
    # Nothing has been started that must be stopped; an exception could surface in the middle of an import.
    os._exit(CODE)


def leave_at_once() -> bool:
    """From now on Ctrl-C ends the process with one line. False, and no change, where Python does not handle it by default."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return False
    try:
        signal.signal(signal.SIGINT, _leave)
    except ValueError:
        return False  # not in the main thread, which alone handles signals
    return True


def restore(changed: bool) -> None:
    """Undo `leave_at_once`, given its result."""
    if changed and signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def ignore() -> None:
    """Ignore Ctrl-C: the process is ending by a first one, and another must not disturb the interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


BEFORE_IMPORTS = leave_at_once()
