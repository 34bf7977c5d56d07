"""What the controller remembers of one job. None of it is needed to be right; it is gone with the process."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from jobcommon.api.observed import Rejection
from jobcommon.api.pod import PodView
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.view import ObjectView
from jobcommon.client.errors import StatusError
from jobcommon.controller.refusals import Refusals
from jobcommon.controller.result import Effect, Outcome
from jobcommon.controller.sights import Sights
from jobcommon.controller.workqueue import LANES
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import differs_in_status_alone, read_job, reread_job
from jobcommon.reconcile.plan import Create, Plan

# What the API server itself says of an object that it cannot take: apimachinery's words for 422 Invalid, and for a body that
# does not fit the type (400). Admission answers with the same codes, but in other words: 'admission webhook "x" denied the
# request', 'pods "x" is forbidden: ValidatingAdmissionPolicy …'. That is the platform's will, which changes without the job.
_OWN_VALIDATION = re.compile(r'[A-Z]\w*(\.\S+)? "[^"]*" is invalid: |[A-Z]\w* in version "[^"]*" cannot be handled as a ')
_OF_VALIDATION = (400, 422)

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
    _had_begun: bool = False
    _settling: bool = False
    _status: JobStatus | None = None
    _seen: ObjectView | None = None
    _job: Job | None = None

    def take(self, outcomes: Iterable[Outcome]) -> None:
        """Take note of what was made, which the job's status may not say yet."""
        self.begun = self.begun or any(isinstance(o.action, Create) and o.effect is Effect.APPLIED for o in outcomes)

    def refused(self, plan: Plan, outcomes: Iterable[Outcome], now: float) -> bool:
        """Take note of what the API server refused to create; says whether it is to be tried again at `refusals.until`.

        A refusal is final, for this spec, where it is certainly the job's own fault and the job can be without the object
        or has not begun. A job that has begun is never failed by a refusal.
        """
        for_now: list[Outcome] = []
        failed = False
        for outcome in outcomes:
            action, error = outcome.action, outcome.error
            if isinstance(action, Create) and isinstance(error, StatusError) and self._is_final(action, error):
                rejection = Rejection(error.code, error.reason, error.message, required=action.required)
                self.rejections[action.plural, action.name] = rejection
                failed = failed or action.required
            else:
                for_now.append(outcome)
        return not failed and self.refusals.take(plan, for_now, now)

    def _is_final(self, action: Create, error: StatusError) -> bool:
        return _is_own_fault(error) and not (action.required and self._had_begun)

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
        self.put_off, self._had_begun = False, self.begun
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


def _is_own_fault(error: StatusError) -> bool:
    """Whether a create was refused for what the job's author wrote, on any cluster."""
    if error.code == 413 or "request is too large" in error.message:
        return True
    return error.code in _OF_VALIDATION and _OWN_VALIDATION.match(error.message) is not None
