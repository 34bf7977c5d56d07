"""Ctrl-C while the command imports its modules, before a cluster or an operator handles signals.

Imports take most of a second, in which Python would answer with a traceback.
"""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

CODE = 128 + signal.SIGINT
LINE = "interrupted; nothing is left running\n"


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.stderr.write(LINE)
    sys.stderr.flush()
    # Nothing has been started that must be stopped; an exception could surface in the middle of an import.
    os._exit(CODE)


def leave_at_once() -> Any:
    """From now on Ctrl-C ends the process with one line. Returns the former handler, for `restore`."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _leave)
    return before


def restore(before: Any) -> None:
    """Undo `leave_at_once`."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, before)


def ignore() -> None:
    """Ignore Ctrl-C: the process is ending by a first one, and another must not disturb the interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


BEFORE_IMPORTS = leave_at_once()
