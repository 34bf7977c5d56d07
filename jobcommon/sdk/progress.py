"""Progress of a job: one line, updated in place in a terminal and in a notebook; elsewhere a line for each change."""

import shutil
import sys
from typing import Any

from jobcommon.api.status import ConditionType, ReplicaStatus
from jobcommon.api.text import clean
from jobcommon.causes.cause import in_short
from jobcommon.framework import Job


def described(job: Job) -> str:
    """``Running: Master 1/1, Worker 2/3; 1 restart``, and what a job that does not run waits for.

    ``Worker 2/2 of 3``: the present attempt has two of the three that are asked for.
    """
    status, counts = job.status, []
    current = next((c for c in reversed(status.conditions) if c.is_true), None)
    for kind in job.replica_specs:
        of_type = status.replica_statuses.get(kind, ReplicaStatus())
        asked = f" of {job.asked_of(kind)}" if job.asked_of(kind) != job.count(kind) else ""
        counts.append(f"{kind} {(of_type.active or 0) + (of_type.succeeded or 0)}/{job.count(kind)}{asked}")
    replicas = ", ".join(counts)
    if status.restarts:
        replicas += f"; {status.restarts} restart{'s' if status.restarts > 1 else ''}"
    text = f"{current.type if current else 'submitted'}: {replicas}"
    if current is None or current.type in (ConditionType.RUNNING, ConditionType.SUCCEEDED):
        return in_short(text)
    return in_short("; ".join(filter(None, (text, current.message))))


class Progress:
    """Shows the latest text about a job on standard error, or in the notebook that runs this code; if not `on`, nowhere."""

    def __init__(self, *, on: bool) -> None:
        self._on = on
        self._display = _display()
        self._in_place = self._display is None and sys.stderr.isatty()
        self._handle: Any = None
        self._last = ""

    def show(self, title: str, seconds: float, text: str, reported: str = "") -> None:
        """Show `text` after that time, and what the program has reported, which makes no line of its own."""
        if not self._on:
            return
        shown = "; ".join(filter(None, (text, reported)))
        line = clean(f"{title} {int(seconds) // 60}:{int(seconds) % 60:02} {shown}")
        if self._handle is not None:
            self._handle.update({"text/plain": line}, raw=True)
        elif self._display is not None:
            self._handle = self._display({"text/plain": line}, raw=True, display_id=True)
        elif self._in_place:
            print(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K", end="", file=sys.stderr, flush=True)
        elif text != self._last:
            print(line, file=sys.stderr, flush=True)
        self._last = text

    def end(self) -> None:
        """Leave the last line where it is."""
        if self._in_place and self._last:
            print(file=sys.stderr)


def _display() -> Any:
    """IPython's `display` when a notebook's kernel runs this code, else None. IPython is not imported for that."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if type(shell).__name__ != "ZMQInteractiveShell":
        return None
    from IPython.display import display

    return display
