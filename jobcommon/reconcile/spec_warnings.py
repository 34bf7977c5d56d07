"""Warnings of settings that do not do what is expected, as events: of the manifest, and of a job that is scaled in vain."""

from collections.abc import Iterable

from jobcommon.api import reasons
from jobcommon.api.status import MAX_MESSAGE, ConditionType
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.plan import WARNING, Event
from jobcommon.reconcile.view import View


def unaware(framework: Framework, job: Job, kind: str) -> str | None:
    """The warning of a job that is scaled while it runs; None if its replicas learn of it."""
    if job.restarts_together or framework.joins(job, kind):
        return None
    return f"Scaling {kind} does not affect running replicas; set restartScope: Job to restart all of them at the new size"


def warning_events(view: View) -> Iterable[Event]:
    """One event for all that the manifest is warned of, when the job begins, since each costs a request; those of scaling."""
    if view.job.warnings and not limits.is_started(view.job):
        yield Event(WARNING, reasons.SPEC_WARNING, "; ".join(view.job.warnings)[:MAX_MESSAGE], lasting=True)
    for kind in _scaled(view):
        if text := unaware(view.framework, view.job, kind):
            yield Event(WARNING, reasons.SPEC_WARNING, text, lasting=True)


def _scaled(view: View) -> list[str]:
    """The types whose number was changed while replicas run. What was lost or refused has no pod, either."""
    job, status, slots = view.job, view.job.status, view.slots
    if job.restarts_together or not any(tally.active for tally in view.tallies.values()):
        return []
    lost = status.restarts or status.disruptions or status.reason(ConditionType.SUSPENDED)
    refused = "pods" in view.observed.backed_off
    new = () if lost or refused or job.generation < 2 else view.missing
    kinds = {replica.type for replica in new if replica not in view.holds}
    return [kind for kind in job.replica_specs if kind in kinds | {slot.replica.type for slot in slots.surplus}]
