"""What the controller remembers of one job. None of it is needed to be right; it is gone with the process."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jobcommon.api.view import ObjectView
from jobcommon.framework import Framework, Job, Rejection
from jobcommon.reconcile import read_job, reread_job
from jobcommon.reconcile.plan import Create
from jobcommon.refusals import Refusals
from jobcommon.result import Effect, Outcome
from jobcommon.sights import Sights
from jobcommon.workqueue import LANES

URGENT, USUAL, LATER = range(LANES)


@dataclass
class JobMemory:
    """What was refused, said and seen of a job.

    `begun` once something was made for it or it had its start, `finished` once it is known to have come to its end.
    """

    generation: int = 0
    rejections: dict[tuple[str, str], Rejection] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    said: set[tuple[str, str]] = field(default_factory=set)
    asked_until: float = 0.0
    sights: Sights = field(default_factory=Sights)
    begun: bool = False
    finished: bool = False
    _seen: ObjectView | None = None
    _job: Job | None = None

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what was made, which the job's status may not say yet."""
        self.begun = self.begun or any(isinstance(o.action, Create) and o.effect is Effect.APPLIED for o in outcomes)

    def lane(self, *, settled: bool) -> int:
        """In which lane of the queue the job waits; `settled`: its last pod is over.

        People wait for a new job's pods and for the end of one whose last pod is over; of one that has come to its end there
        is only tidying up left.
        """
        if self.finished:
            return LATER
        return USUAL if self.begun and not settled else URGENT

    def read(self, framework: Framework, cached: ObjectView) -> Job:
        """The job in `cached`, read once for all its pods' events. What was refused of an earlier spec is forgotten."""
        job = self._job
        if job is None or self._seen is None:
            job = read_job(framework, cached.raw)
        elif cached is not self._seen:
            job = reread_job(framework, job, self._seen.raw, cached.raw)
        if job.generation != self.generation:
            self.generation, self.rejections, self.refusals = job.generation, {}, Refusals()
        self.begun = self.begun or job.status.start_time is not None
        self.finished = job.status.finished
        # Most jobs are at their end, and hardly looked at any more.
        self._seen, self._job = (None, None) if self.finished else (cached, job)
        return job
