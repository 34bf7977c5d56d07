"""The controller without I/O: queue, expectations, per-job state, and the two calls between which a plan is carried out.

These names are for authors of controllers: `JobController` reconciles a framework's jobs; the other parts work for any object
(docs/new-controller.md).
"""

from jobcommon.api.view import object_view
from jobcommon.cache.delta import Unreadable
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Step, Stream, Wait
from jobcommon.cache.store import Batch, Change, ChangeKind, Relisted, Store
from jobcommon.client.lines import closing
from jobcommon.controller.expectations import Expectations
from jobcommon.controller.job_controller import JobController
from jobcommon.controller.moment import Moment
from jobcommon.controller.observations import Observation
from jobcommon.controller.report import Report
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.workqueue import WorkQueue

__all__ = [
    "ActionResult",
    "Batch",
    "Change",
    "ChangeKind",
    "Effect",
    "Expectations",
    "Fetch",
    "Informer",
    "JobController",
    "Moment",
    "Observation",
    "Relisted",
    "Report",
    "Result",
    "Step",
    "Store",
    "Stream",
    "Unreadable",
    "Wait",
    "Work",
    "WorkQueue",
    "closing",
    "object_view",
]
