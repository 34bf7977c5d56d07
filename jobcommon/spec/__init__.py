"""Reading a job as the API server has it: defaults and rules."""

from jobcommon.spec.defaulting import differs_in_status_alone, model_errors, read_job, reread_job

__all__ = ["differs_in_status_alone", "model_errors", "read_job", "reread_job"]
