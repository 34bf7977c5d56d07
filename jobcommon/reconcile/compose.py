"""The plan as a whole: its actions in order, with the logs that go with them, and its status if that must be written."""

from collections.abc import Iterable
from typing import Any

from jobcommon.api.status import JobStatus
from jobcommon.framework import Job
from jobcommon.reconcile.plan import Action, Plan, Urgency, in_order
from jobcommon.reconcile.rendering import condition_states
from jobcommon.reconcile.situation import Situation


def compose(view: Situation, reason: str, actions: Iterable[Action], status: JobStatus, **more: Any) -> Plan:
    """The plan with those actions and that status; `more` are further fields of it."""
    ordered = in_order(actions, view.observed.backed_off)
    logs = tuple(log for extension in view.extensions for log in extension.logs(ordered))
    return Plan(actions=ordered, logs=logs, status=if_changed(view.job, status), reason=reason, **more)


def if_changed(job: Job, status: JobStatus) -> JobStatus | None:
    """The status if it must be written. Dropping the UIDs of deleted pods alone does not cause a write (rule R19)."""
    changed = status.to_json()
    remembered = {"countedPods": list(job.status.counted_pods), "stoppedPods": list(job.status.stopped_pods)}
    same_memory = {key: value for key, value in {**changed, **remembered}.items() if value or key not in remembered}
    forgets_only = set(status.counted_pods) <= set(job.status.counted_pods)
    return None if (same_memory if forgets_only else changed) == dict(job.raw_status) else status


# The fields that users and other programs wait for, or on which the next decision depends. A change of any other field, such as
# a count, is not urgent.
_URGENT = (
    "start_time",
    "completion_time",
    "restarts",
    "disruptions",
    "attempt",
    "service_name",
    "failures",
)


def urgency(before: JobStatus, after: JobStatus) -> Urgency:
    """The urgency of a status that is not final.

    The message of a condition names the pods that wait, so each pod that starts may change it: it is as urgent as a count.
    """
    urgent = any(getattr(before, name) != getattr(after, name) for name in _URGENT)
    urgent |= not set(after.counted_pods) <= set(before.counted_pods)
    return Urgency.TRANSITION if urgent or condition_states(before) != condition_states(after) else Urgency.COUNTS
