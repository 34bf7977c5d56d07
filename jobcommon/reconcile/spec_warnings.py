"""Warnings of settings that do not do what is expected, as events: of the manifest, and of a job that is scaled in vain."""

from collections.abc import Iterable

from jobcommon.api import reasons
from jobcommon.api.status import MAX_MESSAGE, ConditionType
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import limits
from jobcommon.reconcile.extension import Extension
from jobcommon.reconcile.plan import WARNING, Event
from jobcommon.reconcile.situation import Situation


def unaware(framework: Framework, job: Job, kind: str) -> str | None:
    """The warning of a job that is scaled while it runs; None if its replicas learn of it."""
    if job.restarts_together or framework.joins(job, kind):
        return None
    return f"Scaling {kind} does not affect running replicas; set restartScope: Job to restart all of them at the new size"


class SpecWarnings(Extension):
    """The warnings, in one pass."""

    def __init__(self, situation: Situation) -> None:
        self._situation, self._job = situation, situation.job

    def events(self) -> Iterable[Event]:
        """One event for all that the manifest is warned of, when the job begins: each event costs a request."""
        if self._job.warnings and not limits.is_started(self._job):
            yield Event(WARNING, reasons.SPEC_WARNING, "; ".join(self._job.warnings)[:MAX_MESSAGE], lasting=True)
        for kind in self._scaled:
            if text := unaware(self._situation.framework, self._job, kind):
                yield Event(WARNING, reasons.SPEC_WARNING, text, lasting=True)

    @property
    def _scaled(self) -> list[str]:
        """The types whose number was changed while replicas run. What was lost or refused has no pod, either."""
        job, status, slots = self._job, self._job.status, self._situation.slots
        if job.restarts_together or not any(tally.active for tally in self._situation.tallies.values()):
            return []
        lost = status.restarts or status.disruptions or status.reason(ConditionType.SUSPENDED)
        refused = "pods" in self._situation.observed.backed_off
        new = () if lost or refused or job.generation < 2 else self._situation.missing
        kinds = {replica.type for replica in new if replica not in self._situation.holds}
        return [kind for kind in job.replica_specs if kind in kinds | {slot.replica.type for slot in slots.surplus}]
