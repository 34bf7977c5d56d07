"""The ends of replicas: what caused each, and which one explains the end of the job."""

import re
from collections.abc import Sequence
from dataclasses import replace

from jobcommon.api.job import RestartPolicy
from jobcommon.api.pod import Terminated
from jobcommon.api.status import Failure
from jobcommon.api.timestamp import format_time, parse_time
from jobcommon.causes.cause import Cause
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.programs import end_of_program, printed
from jobcommon.diagnosis.context import in_context, without_error
from jobcommon.diagnosis.found import Found, Member
from jobcommon.diagnosis.hangs import last_exception
from jobcommon.diagnosis.platform import PLATFORM_ENDS, ended_by_platform
from jobcommon.diagnosis.pods import ended, of_init, state_of_node
from jobcommon.diagnosis.starting import stopped
from jobcommon.reconcile.accounting import failure_of
from jobcommon.reconcile.ending import PATIENCE_SECONDS, STOPPED, decode, ending_of, last_run
from jobcommon.reconcile.slots import last_is_earlier

# Of ends so close together, consequences of others do not decide.
TOGETHER_SECONDS = 60.0
# Times on record are whole seconds.
SAME_SECONDS = 1.0
# Of a deletion, and of a pod that was still terminating when the job failed, nothing else is on record.
_BY_OTHERS = re.compile(rf"([A-Z]\w*-\d+): ({'|'.join(PLATFORM_ENDS)})\b(?: on node ([^\s,:;]+))?")
_OF_INIT = re.compile(r" ?\(init container ([a-z0-9-]+)\)$")
# NCCL's thread has found an error of CUDA; the process ends some seconds later.
_BY_WATCHDOG = "watchdog thread terminated with exception: CUDA error"
# What Python raises when it is stopped.
_OF_STOP = re.compile(r"\b(?:SignalException|KeyboardInterrupt|SystemExit|GeneratorExit|SIGTERM)\b")
# Of a thousand replicas that failed together, so many are compared.
_MOST_ALIKE = 32
_NUMBER = re.compile(r"\d+")


def ends(found: Found) -> list[Failure]:
    """The failures on record; those of pods that ended later or had no room there; and those by others."""
    known = [*found.status.failures]
    for member in found.members:
        end = _end_of(member, found)
        if end is not None and not any(f.pod == end.pod and _apart(f, end) <= SAME_SECONDS for f in known):
            known.append(end)
    said = [(event.message, format_time(event.at)) for event in reversed(found.events_of(found.read.uid)) if event.warning]
    said += [(c.message, c.last_transition_time or "") for c in found.status.conditions if c.message]
    if found.status.last_restart_cause:
        # The events go after an hour.
        said.append((found.status.last_restart_cause, found.status.last_restart_time or ""))
    on_record = {(failure.replica, failure.reason) for failure in known}
    by_others = {(*match.groups(), at) for text, at in said for match in _BY_OTHERS.finditer(text)}
    new = (one for one in sorted(by_others, key=str) if one[:2] not in on_record)
    return known + [Failure(replica=name, reason=reason, node=node, time=at) for name, reason, node, at in new]


def _end_of(member: Member, found: Found) -> Failure | None:
    pod = member.pod
    replica = next((one for one in found.read.replicas if str(one) == member.replica), None)
    if replica is None or pod.phase != "Failed":
        return None
    if pod.deletion_time is not None or pod.uid in found.status.stopped_pods:
        run = last_run(pod, found.framework.main_container(found.read.replica_specs[replica.type], replica.index))
        return failure_of(replica, pod, run) if run is not None and run.reason != STOPPED else None
    ending = ending_of(pod, found.framework.container, RestartPolicy.NEVER)
    return failure_of(replica, pod, ending) if ending is not None else None


def root(found: Found, message: str, *, latest: bool = False) -> tuple[Failure, Failure] | None:
    """The end that explains the one of the job, and that which is charged; `message` is the condition's. None without any.

    It is the one that the condition names, or the `latest`, or one of about that time that is no symptom, also if it is not on
    record. What the platform has ended counts only if there is nothing else; so does what was long before.
    """
    every = [failure for failure in ends(found) if failure.reason != STOPPED]
    charged = [f for f in every if ended_by_platform(f.reason) is None or f.reason == "DeadlineExceeded"] or every
    if not charged:
        return None
    named = [f for f in charged if f"{f.replica}: " in message and f"code {f.exit_code} " in message]
    recorded = [f for f in charged if f in found.status.failures] or charged
    decisive = named[-1] if named else recorded[-1 if latest else 0]
    if latest and not named:
        # What was long before has been restarted.
        last = max(every, key=_time)
        decisive = last if _time(last) - _time(decisive) > TOGETHER_SECONDS else decisive
    restarted = found.status.restarts and not found.read.restarts_together
    if restarted and named and not cause_of_failure(found, decisive).symptom:
        # The operator has seen it end the job: what failed before was restarted.
        return decisive, decisive
    charged_before, every = charged, _of_its_attempt(found, every, decisive)
    charged = [failure for failure in charged if failure in every]
    for some, before in ((charged, TOGETHER_SECONDS), (every, PATIENCE_SECONDS)):
        # A replica that has ended without an error caused less than one with an error.
        order = sorted(some, key=lambda f: (f.exit_code == 0, _apart(f, decisive) > TOGETHER_SECONDS))
        close = [f for f in order if _close(f, decisive, before)]
        if (first := next((f for f in close if not cause_of_failure(found, f).symptom), None)) is not None:
            return first, decisive
    if not found.read.restarts_together:
        # A replica that is restarted alone may lack a peer which has failed by itself long before.
        recorded = [f for f in _on_record(found) if f in charged_before]
        if (first := next((f for f in recorded if not cause_of_failure(found, f).symptom), None)) is not None:
            return first, decisive
    stops = [failure for failure in found.status.failures if failure.reason == STOPPED]
    if (own := next((f for f in stops if not cause_of_failure(found, f).symptom), None)) is not None:
        return own, decisive
    together = [decisive, *(f for f in (*charged, *stops) if f is not decisive and _close(f, decisive, TOGETHER_SECONDS))]
    return min(together, key=lambda f: cause_of_failure(found, f).distance), decisive


def _of_its_attempt(found: Found, some: Sequence[Failure], decisive: Failure) -> list[Failure]:
    """Those that may explain the decisive one: the last of each replica, unless its run, or its attempt, began later.

    A run that lost others, in a job that restarts each replica by itself, may have lost them through any earlier failure.
    """
    latest_of = {f.replica: f for f in sorted(some, key=_time)} | {decisive.replica: decisive}
    latest = [f for f in some if latest_of[f.replica] is f or f.reason == "Deleted"]
    at, together = parse_time(decisive.time), found.read.restarts_together
    if at is None or not (together or not cause_of_failure(found, decisive).symptom):
        return latest
    starts = [parse_time(f.time) for f in some if f.replica == decisive.replica and f is not decisive]
    starts += [run.started_at for run in _runs(found, decisive) if _is_run(run, decisive)]
    starts += [parse_time(found.status.last_restart_time)] if together else []
    began = max((start for start in starts if start is not None and start <= at), default=0.0)
    return [f for f in latest if f is decisive or f.time is None or _time(f) > began]


def alike(found: Found, failure: Failure, cause: Cause) -> list[Failure]:
    """The ends of the same attempt that have the same cause, of its own: that `failure` first."""
    if cause.symptom:
        return [failure]
    others = [f for f in ends(found) if f.replica != failure.replica and f.exit_code == failure.exit_code]
    close = [f for f in _of_its_attempt(found, others, failure) if _apart(f, failure) <= TOGETHER_SECONDS]
    return [failure, *(f for f in close[:_MOST_ALIKE] if outline(cause_of_failure(found, f)) == outline(cause))]


def cause_of_failure(found: Found, failure: Failure) -> Cause:
    """Why a failure occurred."""
    message = failure.message or ""
    if failure.reason == STOPPED:
        return _when_stopped(found, failure)
    by_platform = ended_by_platform(failure.reason, message)
    if (
        by_platform is not None
        and failure.reason == "DeletionByTaintManager"
        and (silent := state_of_node(failure.node or "", found))
    ):
        text = f"its node {failure.node} stopped responding{silent}, so the control plane evicted it"
        by_platform = Cause(
            Reason.NODE_LOST, text, "check the node; the replica starts on another one where restartPolicy allows it"
        )
    if by_platform is not None:
        return by_platform
    if failure.exit_code == 0:
        return without_error(failure.replica, found)
    # It may be that of an init container; the pod's status says so while it is there.
    pod = failure.pod or ""
    member = next((m for m in found.members if m.pod.name == pod and m.pod.phase == "Failed"), None)
    lines = lines_of(found, failure)
    if member is not None and member.pod.init_containers and lines:
        return ended(member, found)
    by_kubelet = stopped(found.events_of(pod), found.framework.container, failure.exit_code, parse_time(failure.time))
    gone = pod in found.gone or (not lines and bool(found.logs.get(pod)))
    init = _OF_INIT.search(message)
    said = _OF_INIT.sub("", message)
    cause = by_kubelet or end_of_program(failure.reason, failure.exit_code, said, lines, gone=gone, local=found.local)
    cause = in_context(cause, failure.replica, found, init[1] if init else "")
    cause = _after_another(member, cause, found) if member is not None else cause
    return of_init(init[1], cause) if init else cause


def _after_another(member: Member, cause: Cause, found: Found) -> Cause:
    """Of a program that lost a connection: why another container of its pod had failed before."""
    ending = ending_of(member.pod, found.framework.container, RestartPolicy.NEVER)
    if ending is None or ending.before is None or not (cause.symptom or cause.reason == Reason.HOST_UNREACHABLE):
        return cause
    name, run = ending.before
    first = end_of_program(decode(run), run.exit_code, run.message, local=found.local)
    return replace(cause, text=f"its container {name} ended first: {first.text}; then {cause.text}", advice=first.advice)


def stopped_before(found: Found) -> list[str]:
    """The last run that a probe or a hook ended, of programs that run again: only events say so."""
    runs = [(f.replica, f.pod or "", found.framework.container, f.exit_code, parse_time(f.time)) for f in found.status.failures]
    for member in (member for member in found.members if not last_is_earlier(member.pod)):
        ends = ((one.name, one.last) for one in member.pod.containers if one.last is not None and one.last.exit_code)
        runs += [(member.replica, member.pod.uid, name, end.exit_code, end.finished_at) for name, end in ends]
    causes = ((name, stopped(found.events_of(about), one, code, at)) for name, about, one, code, at in reversed(runs))
    return [f"{name} was {cause.text}" for name, cause in causes if cause is not None][:1]


def _when_stopped(found: Found, failure: Failure) -> Cause:
    """What a replica had failed of, by its last lines, that had not ended when its job failed."""
    lines = (failure.message or "").splitlines()
    cause = last_exception(lines, local=found.local)[0]
    if cause is None and (by := next((line for line in lines if _BY_WATCHDOG in line), "")):
        cause = printed([by], local=found.local)
    if cause is None or _OF_STOP.search(cause.text):
        return Cause(STOPPED, "was running when the job ended", symptom=True, vague=True)
    return replace(in_context(cause, failure.replica, found), text=f"{cause.text}; it had not ended when the job failed")


def lines_of(found: Found, failure: Failure) -> Sequence[str]:
    """The last lines of the run that failed; none if those that were read are another run's."""
    runs = _runs(found, failure)
    if runs and parse_time(failure.time) is not None:
        same = any(_is_run(run, failure) for run in runs)
    else:
        # What was kept of the pod that is gone is its latest log.
        same = not runs or failure == next((f for f in reversed(found.status.failures) if f.pod == failure.pod), failure)
    return found.logs.get(failure.pod or "", ()) if same else ()


def _runs(found: Found, failure: Failure) -> list[Terminated]:
    """The failed runs in the pod of that name."""
    return [
        run
        for member in found.members
        if member.pod.name == failure.pod
        for container in (*member.pod.containers, *member.pod.init_containers)
        for run in (container.state, container.last)
        if isinstance(run, Terminated) and run.exit_code and run.finished_at is not None
    ]


def _is_run(run: Terminated, failure: Failure) -> bool:
    at = parse_time(failure.time)
    return at is not None and abs((run.finished_at or 0.0) - at) <= SAME_SECONDS and run.exit_code == failure.exit_code


def outline(cause: Cause) -> tuple[str, str]:
    """What is the same of a cause that occurs again: the steps, addresses and times in its text are not."""
    return cause.reason, _NUMBER.sub("", cause.text)


def _on_record(found: Found) -> list[Failure]:
    """Without those that ran when the job failed."""
    return [failure for failure in found.status.failures if failure.reason != STOPPED]


def _time(failure: Failure) -> float:
    return parse_time(failure.time) or 0.0


def _apart(one: Failure, other: Failure) -> float:
    times = parse_time(one.time), parse_time(other.time)
    return 0.0 if None in times else abs((times[0] or 0.0) - (times[1] or 0.0))


def _close(one: Failure, decisive: Failure, before: float) -> bool:
    """Whether it was at most so long before the decisive one, or soon after it."""
    times = parse_time(one.time), parse_time(decisive.time)
    return one is decisive or None in times or -before <= (times[0] or 0.0) - (times[1] or 0.0) <= TOGETHER_SECONDS
