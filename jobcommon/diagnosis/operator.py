"""Whether an operator acts on a job at all. While one does, the job's status follows its pods within seconds."""

from collections.abc import Iterator

from jobcommon.api import reasons
from jobcommon.api.kueue import QUEUE_LABEL
from jobcommon.api.labels import REPLICA_TYPE
from jobcommon.api.pod import PodView, Running, Terminated
from jobcommon.api.status import ConditionType, ReplicaStatus
from jobcommon.api.template import mapping_of, mappings_in
from jobcommon.api.timestamp import parse_time
from jobcommon.causes.cause import Cause, in_short, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.diagnosis.found import Found
from jobcommon.reconcile.rendering import said_after
from jobcommon.reconcile.slots import attempt_of, starts_again

# An operator answers within seconds; clocks differ.
ANSWER_SECONDS = 15.0
OPERATOR_BEHIND_SECONDS = 30.0


def unanswered(found: Found, now: float) -> Cause:
    """Why a job has no condition."""
    job = found.read
    age = now - job.creation_time if job.creation_time is not None else ANSWER_SECONDS
    if (raised := framework_error(found)) is not None:
        return raised
    if age < ANSWER_SECONDS:
        return Cause(Reason.STARTING, "the job was created just now; no operator has reconciled it yet")
    known = {
        True: "; a pod of the operators is running: does it handle this kind and namespace?",
        False: "; no pod of the operators is running in this cluster",
        None: "",
    }[found.operator]
    advice = "install or start the operators, for this kind and namespace (docs/install.md); /readyz says what is missing"
    return Cause(Reason.NO_OPERATOR, f"no operator has reconciled the job in {span(age)}{known}", advice)


def behind(found: Found, now: float) -> Cause | None:
    """The cause if the status does not say what the job or its pods have shown for a while; None if it follows them."""
    missed = next(_missed(found, now), "")
    if not missed:
        return None
    if (raised := framework_error(found)) is not None:
        return raised
    text = f"no operator acts on the job: {missed}, and its status does not show it"
    return Cause(
        Reason.NO_OPERATOR, text, "start the operators, or check their log (kubectl logs); jobcommon doctor reports more"
    )


def framework_error(found: Found) -> Cause | None:
    """The exception that a function of the framework raises for this job, by the operator's event."""
    for event in found.events_of(found.read.uid):
        if event.reason == reasons.INTERNAL_ERROR:
            return Cause(
                Reason.FRAMEWORK_ERROR,
                f"the operator runs, but a function of the framework {found.framework.name} raises {in_short(event.message)}",
                "correct the framework; the operator's log has the traceback, and jobcommon plan -f shows it without a cluster",
                then="the operator retries, at most a minute apart",
            )
    return None


def _missed(found: Found, now: float) -> Iterator[str]:
    """What was to be seen for longer than `OPERATOR_BEHIND_SECONDS` and the status does not have."""
    if found.status.finished or "pods" in found.unread:
        return
    if now - max(_edited(found), _changed(found)) > OPERATOR_BEHIND_SECONDS:
        if (asked := found.framework.is_suspended(found.job)) and not found.status.has(ConditionType.SUSPENDED):
            yield "it is to be suspended"
        elif _is_suspended_by_user(found) and not asked and not found.members:
            yield "it is to run again"
    # The pods of an earlier attempt are being stopped, and count no more.
    current = [member for member in found.members if attempt_of(member.pod) >= found.read.attempt]
    for kind in found.framework.replica_types:
        members = [m for m in current if m.pod.labels.get(REPLICA_TYPE) == kind.name.lower()]
        counts = found.status.replica_statuses.get(kind.name, ReplicaStatus())
        active = counts.active or 0
        running = [m for m in members if m.pod.phase == "Running" and m.pod.deletion_time is None and not starts_again(m.pod)]
        changing = [m for m in members if m not in running and now - _since(m.pod) <= OPERATOR_BEHIND_SECONDS]
        if active <= len(running) + len(changing):
            continue
        over = [m for m in members if m.pod.phase in ("Succeeded", "Failed")]
        if over:
            member = min(over, key=lambda m: _since(m.pod))
            yield f"{member.replica} ended {span(now - _since(member.pod))} ago"
        elif now - _changed(found) > OPERATOR_BEHIND_SECONDS:
            yield f"a pod of {kind.name} is gone"


def _is_suspended_by_user(found: Found) -> bool:
    """By the status: a queue, or another feature, gives a reason."""
    current = next((c for c in found.status.conditions if c.type == ConditionType.SUSPENDED and c.is_true), None)
    return current is not None and QUEUE_LABEL not in found.read.labels and not said_after(current.message, "suspended: ")


def _edited(found: Found) -> float:
    """When others than the operator, which writes the status, wrote to the job last; its creation if that is not known."""
    fields = mappings_in(mapping_of(found.job.get("metadata")).get("managedFields"))
    times = [parse_time(one.get("time")) for one in fields if one.get("subresource") != "status"]
    return max((time for time in (*times, found.read.creation_time) if time is not None), default=0.0)


def _changed(found: Found) -> float:
    """When the job or one of its pods is known to have changed last: nothing says when a pod that is gone went."""
    status = found.status
    times = [parse_time(status.last_restart_time), *(parse_time(c.last_transition_time) for c in status.conditions)]
    times += [*(_since(member.pod) for member in found.members), *(event.at for event in found.events_of(found.read.uid))]
    return max((time for time in times if time is not None), default=0.0)


def _since(pod: PodView) -> float:
    """When the pod began to be as it is: when its last container started or ended, or it was deleted or created."""
    times = [pod.deletion_time, pod.creation_time]
    for container in pod.containers:
        state = container.state
        if isinstance(state, Running):
            times.append(state.started_at)
        elif isinstance(state, Terminated):
            times += [state.started_at, state.finished_at]
        elif container.last is not None:
            times.append(container.last.finished_at)
    return max((time for time in times if time is not None), default=0.0)
