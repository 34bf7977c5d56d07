"""One cause of a pod's or a job's trouble, and how texts are shortened."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_TEXT = 400


@dataclass(frozen=True, slots=True)
class Cause:
    """`reason` is a `Reason` or a signal's name; `text` says it in words, `advice` what to do.

    `symptom`: usually the consequence of another replica's failure; `vague`: one that says less of it than others do. `then` is
    what happens next by itself, and `at` when (seconds since the epoch).
    """

    reason: str
    text: str
    advice: str = ""
    symptom: bool = False
    then: str = ""
    at: float | None = None
    vague: bool = False

    @property
    def distance(self) -> int:
        """How far it is from the failure that began: of several ends, the least explains the others."""
        return self.symptom + (self.symptom and self.vague)


def in_short(text: str, limit: int = MAX_TEXT) -> str:
    """The text in one line of at most `limit` characters, without a full stop."""
    line = " ".join(text.split())
    return without_middle(line if line.endswith("..") else line.removesuffix("."), limit)


def without_middle(line: str, limit: int) -> str:
    """The line, or its beginning and its end: of nested errors the last one decides."""
    end = limit // 3
    return line if len(line) <= limit else f"{line[: limit - end - 3]} … {line[-end:]}"


def listed(names: Sequence[object], most: int = 3) -> str:
    """``Worker-0, Worker-1, Worker-2 and 5 more``."""
    shown = ", ".join(map(str, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def span(seconds: float) -> str:
    """``45 s``, ``18 min``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if minutes < 120:
        return f"{minutes} min"
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
