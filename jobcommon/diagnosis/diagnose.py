"""Why a job is as it is: a pure function of what was found on the API server."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jobcommon.api import reasons
from jobcommon.api.job import CleanPodPolicy
from jobcommon.api.pod import ContainerView, Terminated
from jobcommon.api.status import ConditionType, Failure, JobCondition
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import Cause, in_short, listed
from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.denials import refusal_in
from jobcommon.diagnosis.diagnosis import Diagnosis, in_namespace, reported, shown_end
from jobcommon.diagnosis.failures import (
    alike,
    cause_of_failure,
    lines_of,
    outline,
    root,
    stopped_before,
)
from jobcommon.diagnosis.found import Found, Member
from jobcommon.diagnosis.hangs import ended_by_limit, error_of_running, last_exception, silent, without_progress
from jobcommon.diagnosis.next_steps import after_the_end, replacement
from jobcommon.diagnosis.operator import behind, unanswered
from jobcommon.diagnosis.others import absent, led_by_absent, meanwhile, never_started
from jobcommon.diagnosis.platform import ended_by_platform
from jobcommon.diagnosis.pods import CALM, cause_of, ended
from jobcommon.diagnosis.queues import gang, is_queued, suspended
from jobcommon.diagnosis.resizes import bounds, next_resizes, resizing, scaled_in_vain, smaller, stops_awaited
from jobcommon.diagnosis.starting import BARE
from jobcommon.reconcile import limits
from jobcommon.reconcile.kueue import not_queued
from jobcommon.reconcile.node_loss import avoided
from jobcommon.reconcile.rendering import SAYS_BLOCKED, SAYS_INVALID, SAYS_WAITING, is_stated, said_after

MAX_EVIDENCE = 6
# Of clocks, in seconds.
TOLERANCE = 2.0
_HIDDEN = (
    "the exit code was 0: a pipeline, such as python train.py | tee log, exits with the code of its last program unless the "
    "shell sets -o pipefail (bash); || true and a handler of all exceptions also hide a failure"
)
# Of several causes these come first, and calm ones last.
_FIRST = (Reason.NODE_DOES_NOT_ANSWER, Reason.FINALIZER_STUCK)


def diagnose(found: Found, now: float, *, condition: bool = True) -> Diagnosis:
    """The diagnosis of a job at `now` (seconds since the epoch). `condition`: with the job's condition in the evidence."""
    current = _current(found)
    made = _diagnose(found, current, now)
    state = current.type if current is not None else ""
    evidence = [*made.evidence]
    if condition and current is not None and current.message:
        evidence.append(f"condition {current.type}: {in_short(current.message, 600)}")
    evidence += found.read.warnings
    evidence += [*scaled_in_vain(found), *bounds(found)]
    evidence += [
        f"new pods avoid node {entry.node}: {entry.count} pods failed or were lost there"
        for entry in avoided(replace(found.read, status=found.status))
    ]
    evidence += [f"{what} could not be read: {why}" for what, why in found.unread.items()]
    shown = tuple(dict.fromkeys(evidence))[:MAX_EVIDENCE]
    progress = reported(found.status, now)
    lines = shown_end(made)
    advice = in_namespace(made.advice, found.read.namespace)
    return replace(made, state=state, advice=advice, evidence=shown, lines=lines, progress=progress)


def _diagnose(found: Found, current: JobCondition | None, now: float) -> Diagnosis:
    job, status = found.read, found.status
    if status.has(ConditionType.SUCCEEDED):
        return _succeeded(found, now)
    if status.has(ConditionType.FAILED):
        return _failed(found, current, now)
    if job.deleting:
        return _deleting(found, now)
    if job.managed_elsewhere:
        text = f"another controller manages the job: {job.managed_by}"
        return _of_job(Cause(Reason.MANAGED_ELSEWHERE, text, "see that controller, which runPolicy.managedBy names"))
    if job.suspended or is_queued(status, job.labels):
        why, missed = suspended(found), unanswered(found, now) if current is None else behind(found, now)
        if missed is not None and missed.reason != Reason.STARTING:
            why = replace(missed, text=f"{missed.text}; {why.text}")
        return _of_job(why)
    if current is None:
        return _of_job(unanswered(found, now))
    if (missed := behind(found, now)) is not None:
        return _of_job(missed)
    message = current.message
    if current.type == ConditionType.STALLED:
        return _stalled(found, current, now)
    if found.read.missing:
        what = in_short("; ".join(map(str, found.read.errors)))
        return _of_job(Cause(Reason.REFERENCE_NOT_FOUND, what, "create it, and the job starts; or recreate the job"))
    if blocked := said_after(message, f"; {SAYS_BLOCKED}"):
        return _of_job(Cause(Reason.OPERATOR_BLOCKED, in_short(blocked), "change the operator's options"))
    if invalid := said_after(message, SAYS_INVALID):
        return _of_job(_invalid(invalid))
    refused = refusal_in(message)
    return _of_job(refused) if refused is not None else _of_members(found, current, now)


def _stalled(found: Found, current: JobCondition, now: float) -> Diagnosis:
    """A job without progress: by what is wrong with a replica, else by that which differs from the others."""
    made, text = _of_members(found, current, now), in_short(current.message)
    if not made.well:
        return replace(made, sentence=f"{made.sentence}; {text}")
    return without_progress(found, text, now)


def _of_members(found: Found, current: JobCondition, now: float) -> Diagnosis:
    """The diagnosis of a job that goes on, by its pods."""
    message = current.message
    waits = gang(found, message)
    causes = [(member, cause) for member in found.members if (cause := cause_of(member, found, now)) is not None]
    if waits is not None and not any(cause.reason in _BEFORE_GANG for _, cause in causes):
        return _of_job(waits)
    run = [member for member in found.members if member.pod.phase == "Running"]
    alone = [(m, its) for m in run if (its := error_of_running(m, found, now)) is not None]
    worst = _worst([*causes, *alone])
    if found.status.resizing and (not worst or worst[0][1].reason in CALM):
        then, at = stops_awaited(found, now) or ("the programs start when all pods are running", None)
        return replace(_of_job(resizing(found)), then=then, at=at)
    again = current.type == ConditionType.RESTARTING and not found.status.resizing
    if worst and again and worst[0][1].reason in CALM:
        begins = f"{listed([member.replica for member, _ in worst])}: {worst[0][1].text}"
        return _restarting(found, root(found, message, latest=True), now, begins)
    if worst:
        ends = root(found, message, latest=True) if worst[0][1].symptom else None
        if ends is not None and ends[0] is not ends[1]:
            return _restarting(found, ends, now)
        made = _of_pods(found, worst, causes, now)
        shrinks_at, _ = next_resizes(found, now)
        if not worst[0][0].pod.scheduled and shrinks_at is not None:
            made = replace(made, then="an attempt begins without the pods that have no node by then", at=shrinks_at)
        return replace(made, lines=tuple(found.tails[worst[0][0].pod.name])) if worst[0] in alone else made
    return _progressing(found, current, now)


_BEFORE_GANG = (Reason.VOLUME_CLAIM_NOT_FOUND, Reason.NODE_TOO_SMALL, Reason.NODE_DOES_NOT_ANSWER, Reason.SCHEDULING_GATED)


# -- the ends -------------------------------------------------------------------------------------------------------------


def _succeeded(found: Found, now: float) -> Diagnosis:
    job, status = found.read, found.status
    stuck = _stuck_finalizers(found, now)
    if stuck is not None:
        return stuck
    evidence = []
    failed = [m for m in found.members if m.pod.phase == "Failed"]
    if failed:
        how = f"ended with an error, by itself or because it was stopped ({ended(failed[0], found).text})"
        evidence.append(f"{listed([m.replica for m in failed])} {how}: the job has succeeded nevertheless")
    if status.restarts:
        evidence.append(f"restarts: {status.restarts}")
    text, advice = f"{job.kind} {job.name} has succeeded", ""
    for member in found.members:
        raised, _ = last_exception(found.tails.get(member.pod.name, ()), local=found.local)
        if raised is not None and not failed:
            text += f", but the log of {member.replica} ends with an exception: {raised.text}"
            advice = f"{_HIDDEN}; {raised.advice}"
            break
    then, at = after_the_end(found)
    grace, left = limits.grace(replace(job, status=status), now), [m.replica for m in found.members if m.pod.phase == "Running"]
    if left and at is None and grace is not None and now < grace:
        then, at = f"replicas that are still running are stopped: {listed(left)}", grace
    return Diagnosis(Reason.SUCCEEDED, text, evidence=tuple(evidence), advice=advice, then=then, at=at)


def _failed(found: Found, current: JobCondition | None, now: float) -> Diagnosis:
    job = found.read
    then, at = after_the_end(found)
    reason = current.reason if current is not None else ""
    message = current.message if current is not None else ""
    if reason == reasons.INVALID_SPEC:
        return replace(_of_job(_invalid(message)), then=then, at=at)
    if reason == reasons.DEADLINE_EXCEEDED:
        return replace(_deadline(found, message), then=then, at=at)
    if reason == reasons.PENDING_TOO_LONG:
        why = in_short(message.partition(" has failed because ")[2])
        causes = (other.cause for other in never_started(found) if other.cause is not None)
        advice = next((cause.advice for cause in causes), "make room for it, or request less")
        advice += "; or raise runPolicy.pendingDeadlineSeconds"
        return replace(_of_job(Cause(Reason.PENDING_TOO_LONG, why, advice)), then=then, at=at)
    if reason == reasons.STALLED:
        return replace(ended_by_limit(found, Reason.STALLED, in_short(message)), then=then, at=at)
    ends = root(found, message)
    if ends is None:
        text = in_short(message or f"{job.kind} {job.name} has failed")
        return Diagnosis(reason or Reason.PROGRAM_FAILED, text, then=then)
    made = _of_failure(found, *ends, now)
    if reason == reasons.NO_PROGRESS:
        made = replace(made, evidence=(*made.evidence, "the job ended because restarts brought no progress"))
    if reason == reasons.BACKOFF_LIMIT_EXCEEDED:
        limit = job.run_policy.backoff_limit
        made = replace(made, evidence=(*made.evidence, f"the job ended because its backoffLimit of {limit} is used up"))
    return replace(made, then=then, at=at)


def _deadline(found: Found, message: str) -> Diagnosis:
    """A deadline cuts something short: a wait, or training."""
    text = f"active for longer than runPolicy.activeDeadlineSeconds ({found.read.run_policy.active_deadline_seconds} s)"
    waited = said_after(message, SAYS_WAITING)
    if not waited:
        made = ended_by_limit(found, Reason.DEADLINE_EXCEEDED, text)
        if (restarts := found.status.restarts) and (ends := root(found, message, latest=True)) is not None:
            its = cause_of_failure(found, ends[0])
            failed = f"restarts until then: {restarts}; {ends[0].replica} failed: {its.text}"
            made = replace(made, sentence=f"{made.sentence}; {failed}", advice=f"{its.advice}; {made.advice}")
        late = [*never_started(found)]
        return replace(led_by_absent(made, late, made.sentence), reason=made.reason) if late else made
    causes = (
        (f"{other.replica} {other.text}", other.cause.advice) for other in never_started(found) if other.cause is not None
    )
    why, advice = next(causes, (in_short(waited), "resolve what it waited for"))
    return _of_job(Cause(Reason.DEADLINE_EXCEEDED, f"{text}; until then it waited: {why}", advice))


def _deleting(found: Found, now: float) -> Diagnosis:
    stuck = _stuck_finalizers(found, now)
    if stuck is not None:
        return stuck
    finalizers = ", ".join((found.job.get("metadata") or {}).get("finalizers") or ())
    if not finalizers:
        return _of_job(Cause(Reason.DELETING, "the job is being deleted", then="the job is removed when its pods are gone"))
    return _of_job(
        Cause(
            Reason.DELETING,
            f"the job is being deleted; it waits for the finalizers {finalizers}",
            "a finalizer is removed by the controller that set it; if that controller is gone for good: kubectl patch "
            f'{found.framework.singular} {found.read.name} --type merge -p \'{{"metadata":{{"finalizers":null}}}}\'',
            then="nothing, until the finalizers are removed; then its pods are deleted, too",
        )
    )


def _stuck_finalizers(found: Found, now: float) -> Diagnosis | None:
    """Pods of a job that is over which cannot be deleted."""
    causes = [(m, c) for m in found.members if m.pod.deletion_time is not None and (c := cause_of(m, found, now)) is not None]
    return _of_pods(found, causes, (), now) if causes else None


# -- failures -------------------------------------------------------------------------------------------------------------


def _of_failure(found: Found, failure: Failure, charged: Failure, now: float) -> Diagnosis:
    """The diagnosis by the failure that explains the end, which may be another than the one that is `charged`."""
    cause = cause_of_failure(found, failure)
    same = alike(found, failure, cause)
    replicas = list(dict.fromkeys(f.replica for f in same))
    where = f" on node {failure.node}" if failure.node and {f.node for f in same} == {failure.node} else ""
    ahead = (parse_time(failure.time) or 0.0) > now + TOLERANCE
    ended = "is being stopped, and is killed" if ahead else "ended"
    evidence = [f"{failure.replica} {ended} at {failure.time}"] if failure.time else []
    lost = ""
    if charged is not failure and (its := cause_of_failure(found, charged)).symptom:
        lost = f"; {'its later runs' if charged.replica == failure.replica else charged.replica} failed because of it"
        lost = lost if not cause.symptom else ""
        evidence.append(f"{charged.replica} ended at {charged.time}: {its.text}")
    others = meanwhile(found, cause, replicas, now, parse_time(failure.time))
    lines, advice = lines_of(found, failure), cause.advice
    if failure.pod is not None and failure.pod in found.gone:
        said = (failure.message or "").splitlines()
        # What the platform says of an end the program has not printed.
        lines = said if ended_by_platform(failure.reason) is None else ()
        code = f"exit code {failure.exit_code}" if failure.exit_code is not None else ""
        node = f"its node {failure.node}" if failure.node else ""
        kept = listed([*filter(None, (code, node, "the message" if said else ""))] or ["no exit code"])
        evidence.append(f"the log of {failure.pod} is gone; the status keeps {kept}")
        if not said and found.read.run_policy.clean_pod_policy == CleanPodPolicy.ALL:
            advice += "; cleanPodPolicy: Running keeps failed pods and their logs"
    sentence = f"{listed(replicas)}{where}: {cause.text}{lost}{others}"
    made = Diagnosis(
        cause.reason,
        sentence,
        evidence=tuple(evidence),
        lines=tuple(lines),
        advice=advice,
        replicas=tuple(replicas),
        node=failure.node or "",
        exit_code=failure.exit_code,
    )
    late = absent(found, failure, cause, now)
    return led_by_absent(made, late, f"{failure.replica}{where}: {cause.text}") if late else made


# -- waits ----------------------------------------------------------------------------------------------------------------


def _worst(causes: Sequence[tuple[Member, Cause]]) -> list[tuple[Member, Cause]]:
    """The causes that are named: of one reason, the most frequent; one that is calm or a symptom only if there is no other."""
    if not causes:
        return []

    # What a program has failed of is known; or else that it lacks a replica which does not start.
    missing = any(member.pod.phase == "Pending" and cause.reason not in CALM for member, cause in causes)

    def rank(cause: Cause) -> tuple[bool, bool, bool]:
        symptom = cause.symptom or (missing and cause.reason == Reason.PROGRAM_FAILED)
        return cause.reason in CALM, symptom, cause.reason not in _FIRST

    best = min(rank(cause) for _, cause in causes)
    kept = [entry for entry in causes if rank(entry[1]) == best]
    counts = {reason: sum(cause.reason == reason for _, cause in kept) for reason in (cause.reason for _, cause in kept)}
    most = max(counts, key=lambda reason: counts[reason])
    alike = [entry for entry in kept if entry[1].reason == most]
    # These reasons say nothing of what the programs have in common.
    vague = most in (Reason.PYTHON_EXCEPTION, Reason.PROGRAM_FAILED)
    return [entry for entry in alike if not vague or outline(entry[1]) == outline(alike[0][1])]


def _of_pods(
    found: Found, worst: Sequence[tuple[Member, Cause]], all_of_them: Iterable[tuple[Member, Cause]], now: float
) -> Diagnosis:
    member, cause = worst[0]
    replicas = tuple(entry[0].replica for entry in worst)
    nodes = {entry[0].pod.node_name for entry in worst}
    where = f" on node {member.pod.node_name}" if len(nodes) == 1 and member.pod.node_name else ""
    events = (e for e in found.events_of(member.pod.uid) if e.warning and not BARE.match(e.message))
    evidence = [f"event {e.reason}: {in_short(e.message)}" for e in events][:2]
    others: dict[str, str] = {}
    for other, its in all_of_them:
        if its.reason != cause.reason:
            others.setdefault(its.reason, f"{other.replica}: {its.text}")
    evidence += [f"also {text}" for text in others.values()]
    then, at = cause.then, cause.at
    if member.pod.phase == "Failed" and not found.status.finished:
        then, at = replacement(found, now)
    if (deadline := limits.active_deadline(found.read, found.status.start_time)) is not None:
        if not then:
            then, at = "the job fails when its activeDeadlineSeconds have passed", deadline.at
        else:
            evidence.append("runPolicy.activeDeadlineSeconds limits the wait")
    runs = [_last_run(container) for container in (*member.pod.containers, *member.pod.init_containers)]
    code = next((run.exit_code for run in runs if run is not None and run.exit_code), None)
    return Diagnosis(
        cause.reason,
        f"{listed(replicas)}{where}: {cause.text}{meanwhile(found, cause, replicas, now)}",
        evidence=tuple(evidence),
        lines=tuple(found.logs.get(member.pod.name, ())),
        advice=cause.advice,
        then=then,
        at=at,
        replicas=replicas,
        node=member.pod.node_name,
        exit_code=code,
    )


def _progressing(found: Found, current: JobCondition, now: float) -> Diagnosis:
    """A job whose pods are all well, or whose failed ones are being replaced."""
    job, status = found.read, found.status
    run = [
        member.replica
        for member in found.members
        if (pod := member.pod).phase == "Running" and pod.deletion_time is None
        if not any(container.stopped_by_image for container in pod.containers)
    ]
    over = [member.replica for member in found.members if member.pod.phase == "Succeeded"]
    running, done, lost = len(run), len(over), {str(replica) for replica in job.replicas}.difference(run, over)
    count = f"{running}/{job.total_replicas} Running" + (f", {done} succeeded" if done else "")
    if current.type == ConditionType.RESTARTING or any(failure.replica in lost for failure in status.failures):
        made = _restarting(found, root(found, current.message, latest=True), now)
        return replace(made, evidence=(*made.evidence, count))
    if running + done < job.total_replicas:
        text = f"its pods are being created: {count}"
        # What an API server answers for a while, such as 500 or 429, is in no status.
        events = found.events_of(job.uid)
        created = {event.reason: event.at for event in reversed(events)}
        failed = (e for e in events if e.at >= created.get(e.reason.replace("FailedCreate", "SuccessfulCreate"), 0.0))
        last = next((e for e in failed if e.reason.startswith("FailedCreate")), None)
        if len(found.members) < job.total_replicas and last is not None:
            advice = "the administrator of the API server must see to it; nothing is wrong with the job"
            return _of_job(Cause(Reason.REFUSED, f"{text}; {in_short(last.message)}", advice, then="the operator retries"))
        return _of_job(Cause(Reason.STARTING, text))
    evidence = [f"restarts: {status.restarts}"] if status.restarts else []
    evidence += stopped_before(found)
    evidence += [f"last restarted because {in_short(status.last_restart_cause)}"] if status.last_restart_cause else []
    # An operator that owns the Workloads of jobs states no such thing.
    outside = [text for text in not_queued(job) if is_stated(current, text)]
    evidence += [f"it runs outside its queue and all quota: {text}" for text in outside[:1]]
    due = limits.active_deadline(job, status.start_time)
    then, at = ("the job fails if it has not finished by then (activeDeadlineSeconds)", due.at) if due else ("", None)
    quiet, advice = silent(found, now)
    text = f"{job.kind} {job.name} is running: {count}{quiet}"
    advice = advice or in_short("".join(outside[1:]))
    if (fewer := smaller(found, now)) is not None:
        cause, others = fewer
        text, advice = f"{job.kind} {job.name} is running {cause.text}: {count}{quiet}", advice or cause.advice
        return replace(_of_job(cause), sentence=text, evidence=(*others, *evidence), advice=advice)
    return Diagnosis(Reason.RUNNING, text, evidence=tuple(evidence), advice=advice, then=then, at=at)


def _restarting(found: Found, ends: tuple[Failure, Failure] | None, now: float, *begins: str) -> Diagnosis:
    """A job whose failed pods are being replaced, by the end that explains it, if one is known. `begins`: what new ones do."""
    message = in_short(current.message) if (current := _current(found)) is not None else ""
    made = _of_failure(found, *ends, now) if ends else _of_job(Cause(Reason.RESTARTING, message))
    then, at = replacement(found, now, *begins)
    return replace(made, then=then, at=at)


# -- parts ----------------------------------------------------------------------------------------------------------------


def _current(found: Found) -> JobCondition | None:
    """The current condition: the last one that is True, else the last."""
    conditions = found.status.conditions
    return next((c for c in reversed(conditions) if c.is_true), conditions[-1] if conditions else None)


def _of_job(cause: Cause) -> Diagnosis:
    return Diagnosis(cause.reason, cause.text, advice=cause.advice, then=cause.then, at=cause.at)


def _invalid(errors: str) -> Cause:
    return Cause(
        Reason.INVALID_SPEC, f"the manifest is invalid: {in_short(errors, 1000)}", "correct it, and create the job again"
    )


def _last_run(container: ContainerView) -> Terminated | None:
    return container.state if isinstance(container.state, Terminated) else container.last
