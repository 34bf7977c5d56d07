"""The controller without I/O: queue, expectations, per-job state, and the two calls between which a plan is carried out.

These names are for authors of controllers: `JobController` reconciles a framework's jobs; the other parts work for any object
(docs/new-controller.md).
"""

from jobcommon.api.view import object_view
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Sleep, Step, Stream
from jobcommon.cache.store import Batch, Change, ChangeKind, Relisted, Store, Unreadable
from jobcommon.controller.expectations import Creation, Deletion, Expectations
from jobcommon.controller.job_controller import JobController
from jobcommon.controller.moment import Moment
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import Duration, Telemetry
from jobcommon.controller.workqueue import WorkQueue

__all__ = [
    "ActionResult",
    "Batch",
    "Change",
    "ChangeKind",
    "Creation",
    "Deletion",
    "Duration",
    "Effect",
    "Expectations",
    "Fetch",
    "Informer",
    "JobController",
    "Moment",
    "Relisted",
    "Result",
    "Sleep",
    "Step",
    "Store",
    "Stream",
    "Telemetry",
    "Unreadable",
    "Work",
    "WorkQueue",
    "object_view",
]
