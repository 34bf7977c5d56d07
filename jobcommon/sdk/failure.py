"""Why a job failed, as an exception."""

from collections.abc import Sequence

from jobcommon.api.status import Failure


class JobFailed(Exception):  # noqa: N818  the name of a state, as users know it
    """A job has failed, or was deleted while it was waited for. The text says why and what to do.

    `job` is as in pytorchjob/digits; `reason` is one word, `sentence` the same in words, and `advice` what to do. `failures`
    are those on record in the job's status, and `lines` the last that the replica printed. `exit_code` is that of the program,
    None if it was not a program that failed.
    """

    def __init__(
        self, job: str, reason: str, sentence: str, advice: str = "", lines: Sequence[str] = (),
        failures: Sequence[Failure] = (), exit_code: int | None = None,
    ) -> None:  # fmt: skip
        self.job, self.reason, self.sentence, self.advice = job, reason, sentence, advice
        self.lines, self.failures, self.exit_code = tuple(lines), tuple(failures), exit_code
        parts = f"{job}: {reason}: {sentence}", *(f"  | {line}" for line in lines), *((f"do: {advice}",) if advice else ())
        super().__init__("\n".join(parts))
