"""What the controller remembers of one job. None of it is needed to be right; it is gone with the process."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.view import ObjectView
from jobcommon.framework import Framework, Job, Rejection
from jobcommon.reconcile import differs_in_status_alone, read_job, reread_job
from jobcommon.reconcile.plan import Create, Plan
from jobcommon.refusals import Refusals
from jobcommon.result import Effect, Outcome
from jobcommon.sights import Sights
from jobcommon.workqueue import LANES

# These answers do not change until the spec does.
_FINAL_CODES = (400, 413, 422)

URGENT, USUAL, LATER = range(LANES)


@dataclass
class JobMemory:
    """What was refused, said and seen of a job.

    `begun` once something was made for it or it had its start, `finished` once it is known to have come to its end. `put_off`
    when a look at it had to wait for the caches, `running` while it is said to run.
    """

    generation: int = 0
    rejections: dict[tuple[str, str], Rejection] = field(default_factory=dict)
    refusals: Refusals = field(default_factory=Refusals)
    said: set[tuple[str, str]] = field(default_factory=set)
    asked_until: float = 0.0
    sights: Sights = field(default_factory=Sights)
    begun: bool = False
    finished: bool = False
    put_off: bool = False
    running: bool = False
    _settling: bool = False
    _status: JobStatus | None = None
    _seen: ObjectView | None = None
    _job: Job | None = None

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what was made, which the job's status may not say yet."""
        self.begun = self.begun or any(isinstance(o.action, Create) and o.effect is Effect.APPLIED for o in outcomes)

    def reject(self, outcomes: Iterable[Outcome]) -> bool:
        """Take note of what the API server will not have, whatever we do. Returns whether the job cannot be without it."""
        rejected = False
        for outcome in outcomes:
            code, action = getattr(outcome.error, "code", 0), outcome.action
            if isinstance(action, Create) and (code in _FINAL_CODES or "too large" in str(outcome.error)):
                reason, message = getattr(outcome.error, "reason", ""), getattr(outcome.error, "message", "")
                self.rejections[action.plural, action.name] = Rejection(code, reason, message, required=action.required)
                rejected = rejected or action.required
        return rejected

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
        self.finished, self.running = job.status.finished, job.status.has(ConditionType.RUNNING)
        self._seen, self._job = cached, job
        return job

    def decided(self, plan: Plan) -> None:
        """Take note of the plan that is carried out from now on."""
        self.put_off = False
        self._settling, self._status = plan.settles, plan.status
        self.running = plan.status.has(ConditionType.RUNNING) if plan.status is not None else self.running

    def brings_nothing(self, child: PodView | ObjectView) -> bool:
        """Whether `child`, which the last plan has made, is what that plan reckoned with."""
        if not self._settling or self.put_off:
            return False
        if isinstance(child, PodView):
            return child.phase in ("", "Pending") and not (child.scheduled or child.unschedulable or child.deletion_time)
        return child.deletion_time is None

    def wrote(self, cached: ObjectView) -> bool:
        """Whether the job is what the last plan was made for, with the status of that plan."""
        if not self._settling or self._status is None or self._seen is None or self.put_off:
            return False
        raw = cached.raw
        return raw.get("status") == self._status.to_json() and differs_in_status_alone(self._seen.raw, raw)

    def rest(self) -> None:
        """There is nothing to do. Most jobs are at their end, and hardly looked at any more: they are forgotten as read."""
        if self.finished:
            self._seen = self._job = None
