"""The diagnosis: why a job fails or waits, what happens next, and what to do. Pure: callers send the requests of `reading`."""

from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.diagnose import diagnose
from jobcommon.diagnosis.diagnosis import Diagnosis
from jobcommon.diagnosis.found import Found

__all__ = ["Diagnosis", "Found", "Reason", "diagnose"]
