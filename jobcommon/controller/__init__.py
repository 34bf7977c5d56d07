"""The controller without I/O: queue, expectations, per-job state, and the two calls between which a plan is carried out."""

from jobcommon.controller.job_controller import JobController

__all__ = ["JobController"]
