"""What a diagnosis says."""

import re
from dataclasses import dataclass

from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.printed import is_stack, plain
from jobcommon.diagnosis.pods import CALM

MAX_LINES = 12
# A report is on record 15 s after it was made.
_OLD = 60.0
_COMMAND = re.compile(r"kubectl (?=(?:exec|logs|patch|edit|annotate|describe (?:pod|pvc)|delete pod|get pvc|create secret)\b)")
_WELL = (Reason.SUCCEEDED, Reason.RUNNING, Reason.RESIZING, *CALM)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job is as it is.

    `reason` is a `Reason` or a signal's name, `sentence` the same in words, `evidence` what it was concluded from, and `lines`
    the last ones that the replica printed. `advice` is what a user can do, `then` what happens next by itself, and `at` when
    (seconds since the epoch), if that is known. `state` is the type of the job's current condition, "" without one. `replicas`
    are those concerned, with the `node` and `exit_code` of the first. `progress` is what the program reported last, in words.
    `well`: nothing is wrong.
    """

    reason: str
    sentence: str
    state: str = ""
    evidence: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    advice: str = ""
    then: str = ""
    at: float | None = None
    replicas: tuple[str, ...] = ()
    node: str = ""
    exit_code: int | None = None
    progress: str = ""

    @property
    def well(self) -> bool:
        """Whether nothing is wrong with the job."""
        return self.reason in _WELL


def in_namespace(advice: str, namespace: str) -> str:
    """The advice with its commands for that namespace."""
    return _COMMAND.sub(f"kubectl -n {namespace} ", advice) if namespace != "default" else advice


def shown_end(made: Diagnosis) -> tuple[str, ...]:
    """The last lines, or those up to the line that the sentence quotes if it is far before the end; no stack of native code."""
    lines = tuple(line for line in made.lines if not is_stack(line)) or made.lines
    texts = [in_short(plain(line))[:100] for line in lines]
    quoted = {at: len(text) for at, text in enumerate(texts) if text and f": {text}" in made.sentence}
    end = max(quoted, key=lambda at: (quoted[at], at), default=len(lines)) + 1
    if end > len(lines) - MAX_LINES:
        return lines[-MAX_LINES:]
    return (*lines[max(end - MAX_LINES, 0) : end], f"… {len(lines) - end} more lines")


def reported(status: JobStatus, now: float) -> str:
    """``████░░░░░░ 47% (940/2000), 12m left``, and how old the report is if the job goes on without another."""
    words = status.reported_progress
    at = parse_time(status.progress.last_report_time) if status.progress is not None else None
    old = words and at is not None and now - at >= _OLD and not status.finished
    return f"{words}; reported {span(now - at)} ago" if old and at is not None else words
