"""Reading a job as the API server has it: defaults, rules, and whether it is over."""

from jobcommon.spec.defaulting import read_job, reread_job

__all__ = ["read_job", "reread_job"]
