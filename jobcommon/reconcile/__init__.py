"""The decision what to do for a job, as a pure function."""

from jobcommon.reconcile.decision import plan, plan_for_orphans
from jobcommon.reconcile.defaulting import read_job, reread_job
from jobcommon.reconcile.plan import Action, Create, Delete, Event, KeepLog, Plan, RemoveFinalizer, Update

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
    "read_job",
    "reread_job",
]
