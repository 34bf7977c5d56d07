"""The lines of a log that was requested with timestamps."""

import re

from jobcommon.api.pod import Terminated
from jobcommon.api.timestamp import parse_time

# The end of a run is known to the second, and lines get their times when they are read from the program.
_LATER = 2.0
STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) ?")
# A progress bar whose line another stream of the program has taken over.
_TAKEN_OVER = re.compile(rb"^[^\n]*\r(?=" + STAMP.pattern + rb")", re.MULTILINE)


def with_own_lines(body: bytes) -> bytes:
    """Lines with timestamps, each of which begins with its own."""
    return _TAKEN_OVER.sub(b"", body) if b"\r" in body else body


def printed_by(body: bytes, run: Terminated | None = None) -> bytes | None:
    """What a program printed, of its log with timestamps; None if it is no log, or that of another run than `run`.

    A kubelet that cannot read a log has begun its answer already, with 200, and says why in the place of the log.
    """
    lines = with_own_lines(body).split(b"\n")
    stamps = [stamp for line in lines if (stamp := STAMP.match(line)) is not None]
    if len(stamps) != len(lines) - (not lines[-1]):
        return None
    last = parse_time(stamps[-1][1].decode()) if stamps else None
    if run is not None and last is not None and not (run.started_at or 0.0) <= last <= (run.finished_at or last) + _LATER:
        return None
    return b"\n".join([line[stamp.end() :] for line, stamp in zip(lines, stamps, strict=False)] + lines[len(stamps) :])


def begins_later(body: bytes, run: Terminated) -> bool:
    """Whether a log has no line from before the end of `run`: it may be that of the next one."""
    first = STAMP.match(body)
    at = parse_time(first[1].decode()) if first is not None else None
    return run.finished_at is not None and (at is None or at >= run.finished_at + 1)


def until(body: bytes, at: float | None) -> bytes:
    """A log with timestamps up to the lines of that moment."""
    if at is None:
        return body
    stamps = ((line, STAMP.match(line)) for line in with_own_lines(body).split(b"\n"))
    return b"\n".join(line for line, stamp in stamps if stamp is None or (parse_time(stamp[1].decode()) or 0.0) <= at + _LATER)
