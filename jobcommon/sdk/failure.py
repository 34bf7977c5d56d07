"""Why a job failed, as an exception."""

from collections.abc import Sequence

from jobcommon.api.status import Failure
from jobcommon.api.text import clean


class JobFailed(Exception):  # noqa: N818  the name of a state, as users know it
    """A job has failed, or was deleted while it was waited for. The text says why and what to do.

    `job` is as in pytorchjob/digits; `reason` is one word, `sentence` the same in words, and `advice` what to do. `failures`
    are those on record in the job's status, `lines` the last that the replica printed, and `evidence` what else was found.
    `exit_code` is that of the program, None if it was not a program that failed.
    """

    def __init__(
        self, job: str, reason: str, sentence: str, advice: str = "", lines: Sequence[str] = (),
        failures: Sequence[Failure] = (), exit_code: int | None = None, evidence: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.job, self.reason, self.sentence, self.advice = job, reason, sentence, advice
        self.lines, self.failures, self.evidence, self.exit_code = tuple(lines), tuple(failures), tuple(evidence), exit_code
        parts = [f"{job}: {reason}: {sentence}", *(f"  | {line}" for line in lines), *(f"  - {fact}" for fact in evidence)]
        super().__init__("\n".join(map(clean, [*parts, *([f"do: {advice}"] if advice else [])])))
