"""The diagnosis: why a job fails or waits, what happens next, and what to do. Pure; it neither reads a cluster nor prints."""

from jobcommon.diagnosis.diagnose import Diagnosis, diagnose
from jobcommon.diagnosis.found import Found
from jobcommon.diagnosis.reason import Reason

__all__ = ["Diagnosis", "Found", "Reason", "diagnose"]
