"""Whether a job has begun: three questions, of which a "yes" to one is a "yes" to the next.

What this process remembers may only add a live read, so it counts for the last one alone.
"""

from jobcommon.api.observed import Observed
from jobcommon.api.status import ConditionType
from jobcommon.api.timestamp import parse_time
from jobcommon.framework import Job
from jobcommon.reconcile.slots import Slots

# If a job reaches us more than these seconds after its creation, another replica may have handled it already, created its pods
# and recorded its end: a live read must verify it.
FRESH_JOB_SECONDS = 10.0


def is_started(job: Job) -> bool:
    """Whether the job has been started, and since its last suspension if there was one."""
    return parse_time(job.status.start_time) is not None and not job.status.has(ConditionType.SUSPENDED)


def has_begun(job: Job, slots: Slots, *, grouped: bool) -> bool:
    """Whether the job was ever started, so that an error of its spec does not fail it. `grouped`: it has a PodGroup."""
    return job.status.start_time is not None or grouped or bool(slots.ours)


def may_have_begun(job: Job, observed: Observed, now: float) -> bool:
    """Whether a job that has not begun, as far as the cache shows, may have (`now`: seconds since the epoch)."""
    return observed.begun or job.creation_time is None or now >= job.creation_time + FRESH_JOB_SECONDS
