"""The failures on record in a job's status: what caused each, and which one explains the end of the job."""

from jobcommon.api.status import Failure
from jobcommon.api.timestamp import parse_time
from jobcommon.diagnosis.cause import Cause
from jobcommon.diagnosis.found import Found
from jobcommon.diagnosis.platform import ended_by_platform
from jobcommon.diagnosis.pods import ended
from jobcommon.diagnosis.runs import end_of_program
from jobcommon.diagnosis.stops import stopped

# A replica that lost its peers fails after the one that caused it; of failures so close together, symptoms do not count.
_TOGETHER = 60.0


def root(found: Found, message: str) -> Failure | None:
    """The failure that explains the end of the job; `message` is its condition's. None if none is on record.

    It is the one that the condition names, or one of about that time that is no symptom; disruptions count only if there is
    nothing else.
    """
    failures = found.status.failures
    charged = [f for f in failures if ended_by_platform(f.reason) is None or f.reason == "DeadlineExceeded"] or failures
    if not charged:
        return None
    named = [f for f in charged if f"{f.replica}: " in message and f"code {f.exit_code} " in message]
    decisive = named[-1] if named else charged[0]
    close = [f for f in charged if _together(f, decisive)]
    return next((f for f in close if not cause_of_failure(found, f).symptom), decisive)


def cause_of_failure(found: Found, failure: Failure) -> Cause:
    """Why a failure on record occurred."""
    message = failure.message or ""
    by_platform = ended_by_platform(failure.reason, message)
    if by_platform is not None:
        return by_platform
    # It may be that of an init container; the pod's status says so while it is there.
    pod = failure.pod or ""
    member = next((m for m in found.members if m.pod.name == pod and m.pod.phase == "Failed"), None)
    if member is not None and member.pod.init_containers:
        return ended(member, found)
    by_kubelet = stopped(found.events_of(pod), found.framework.container, failure.exit_code, parse_time(failure.time))
    lines = found.logs.get(pod, ())
    return by_kubelet or end_of_program(
        failure.reason, failure.exit_code, message, lines, gone=pod in found.gone, local=found.local
    )


def _together(one: Failure, other: Failure) -> bool:
    times = parse_time(one.time), parse_time(other.time)
    return one is other or None in times or abs((times[0] or 0.0) - (times[1] or 0.0)) <= _TOGETHER
