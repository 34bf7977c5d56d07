"""The decision what to do for a job, as a pure function."""

from jobcommon.api.observed import Observed
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import decision
from jobcommon.reconcile.decision import plan_for_orphans
from jobcommon.reconcile.features import features_of
from jobcommon.reconcile.plan import Action, Create, Delete, Event, KeepLog, Plan, RemoveFinalizer, Update


def plan(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    """What to do for `job`, given what was observed of its children at `now` (seconds since the epoch)."""
    return decision.plan_with(framework, job, observed, now, features_of(framework))


__all__ = [
    "Action",
    "Create",
    "Delete",
    "Event",
    "KeepLog",
    "Plan",
    "RemoveFinalizer",
    "Update",
    "plan",
    "plan_for_orphans",
]
