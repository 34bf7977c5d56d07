"""What is wrong with one pod."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from jobcommon.api import labels, reasons
from jobcommon.api.pod import ContainerView, PodView, Running, Terminated, Waiting
from jobcommon.api.template import mappings_in
from jobcommon.causes.cause import Cause, in_short, listed, span
from jobcommon.causes.cause_reasons import Reason
from jobcommon.causes.programs import end_of_program
from jobcommon.diagnosis.context import in_context, without_error
from jobcommon.diagnosis.found import EventView, Found, Member, main_container
from jobcommon.diagnosis.platform import ended_by_platform
from jobcommon.diagnosis.scheduling import claims_of, unschedulable
from jobcommon.diagnosis.starting import not_prepared, not_started, stopped, unhealthy
from jobcommon.framework import FINALIZER
from jobcommon.reconcile.ending import decode, is_over
from jobcommon.reconcile.slots import attempt_of, holds_node, is_spare, last_is_earlier
from jobcommon.reconcile.waiting import REPORT_AFTER

# The operator removes its finalizer, and a kubelet ends a pod, within seconds.
OVERDUE_SECONDS = 60.0
_SCALES, _DOES_NOT_SCALE = "TriggeredScaleUp", "NotTriggerScaleUp"
_DEFAULT_SCHEDULER = "default-scheduler"
# One that runs takes a pod up, and says so, within seconds.
FOREIGN_SCHEDULER_SECONDS = 15.0
# The kubelet's back-off of a container: 10 s, doubled with each restart, at most 5 minutes.
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 300.0
# A program that has failed so often is not well until it has run for a while.
_OFTEN, RELAPSE_SECONDS = 2, 60.0
PROBE_SECONDS = 600.0
_PROBES = (Reason.STARTUP_PROBE_FAILED, Reason.LIVENESS_PROBE_FAILED)
_SIDECAR = "Always"
#: Reasons of healthy pods that only take their time.
CALM = (Reason.PULLING_IMAGE, Reason.INIT_CONTAINER_RUNNING, Reason.STARTING)


def cause_of(member: Member, found: Found, now: float) -> Cause | None:
    """Why the pod does not do its work; None if it does, or has done it (`now`: seconds since the epoch)."""
    pod = member.pod
    if pod.deletion_time is not None:
        return _terminating(pod, found, now)
    if pod.phase == "Succeeded":
        return _ended_early(member, found, now)
    if pod.phase == "Failed":
        return ended(member, found)
    if not pod.scheduled:
        return _unscheduled(member, found, now)
    if is_spare(pod):
        return _slow(member, found, now) if not holds_node(pod) else None
    if attempt_of(pod) < found.read.attempt:
        # The operator stops it: how its programs end now is no cause, nor is the image that keeps them stopped.
        return _node(pod, found)
    for cause in (
        _containers(member, found, now),
        _node(pod, found),
        _not_ready(member, found),
        _relapsing(member, found, now),
    ):
        if cause is not None:
            return cause
    return _slow(member, found, now) if pod.phase == "Pending" else None


def _ended_early(member: Member, found: Found, now: float) -> Cause | None:
    """That a server has ended, if those that it serves still run a while later."""
    ends = [c.state.finished_at or now for c in member.pod.containers if isinstance(c.state, Terminated)]
    late = now - max(ends, default=now) > RELAPSE_SECONDS
    served = any(other.pod.phase == "Running" and not _serves(other, found) for other in found.members)
    return without_error(member.replica, found) if _serves(member, found) and served and late else None


def _serves(member: Member, found: Found) -> bool:
    return found.framework.serves(member.replica.rpartition("-")[0])


def ended(member: Member, found: Found) -> Cause:
    """Why a pod has failed."""
    pod = member.pod
    for reason in filter(None, (pod.reason, pod.disruption)):
        if (cause := ended_by_platform(reason, pod.message)) is not None:
            return cause
    main = main_container(found.framework, member.pod)
    for container in sorted((*pod.containers, *pod.init_containers), key=lambda one: (one.restart_policy, one.name != main)):
        run = container.state
        if isinstance(run, Terminated) and run.exit_code != 0:
            return _cause_of_run(member, found, container, run)
    return ended_by_platform("Lost", pod.message) or Cause(Reason.NODE_LOST, "lost")


def _terminating(pod: PodView, found: Found, now: float) -> Cause | None:
    late = pod.deletion_time is not None and now > pod.deletion_time + OVERDUE_SECONDS
    state = state_of_node(pod.node_name, found)
    if not pod.scheduled or not (late or (state and not is_over(pod))):
        return None
    if is_over(pod):
        if FINALIZER not in pod.finalizers:
            if not pod.finalizers:
                return None
            names = ", ".join(pod.finalizers)
            advice = f"check the controller that set it; if that controller is gone for good: kubectl edit pod {pod.name}"
            return Cause(Reason.FINALIZER_STUCK, f"has ended and is being deleted, but the finalizer {names} blocks it", advice)
        return Cause(
            Reason.FINALIZER_STUCK,
            f"has ended and is being deleted, but the operator does not remove the finalizer {FINALIZER}",
            "start the operators; if they were uninstalled: jobcommon release-finalizers",
            then="nothing, until an operator is running",
        )
    safe = f"; if its program may run twice: kubectl annotate pod {pod.name} {labels.SAFE_TO_DELETE}=true"
    return Cause(
        Reason.NODE_DOES_NOT_ANSWER,
        f"deleted, but its node {pod.node_name} does not stop it{state}",
        "restart the node; if it is shut down for good, taint it with "
        f"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, or kubectl delete pod {pod.name} --force"
        + (safe if found.read.run_policy.node_loss_seconds is not None else ""),
        then="when the pod is gone, the replica is replaced, or, under restartPolicy Never, the job fails",
    )


def _unscheduled(member: Member, found: Found, now: float) -> Cause | None:
    pod, spec = member.pod, member.raw.get("spec") or {}
    gates = [str(gate.get("name")) for gate in mappings_in(spec.get("schedulingGates"))]
    if gates:
        text = f"held back by the scheduling gate {', '.join(gates)}"
        return Cause(Reason.SCHEDULING_GATED, text, "the controller that set the gate, such as a queue, removes it")
    if pod.unschedulable:
        there = [one for one in found.members if one.pod.phase in ("Pending", "Running") and one.pod.deletion_time is None]
        cause = unschedulable(pod.unschedulable, member.raw, found.nodes, [one.raw for one in there])
        cause = _by_autoscaler(cause, found.events_of(pod.uid))
        return _of_claims(cause, claims_of(spec), found) if cause.reason == Reason.VOLUME_CLAIM_UNBOUND else cause
    name = str(spec.get("schedulerName") or _DEFAULT_SCHEDULER)
    patience = REPORT_AFTER if name == _DEFAULT_SCHEDULER else FOREIGN_SCHEDULER_SECONDS
    if pod.creation_time is not None and now > pod.creation_time + patience:
        waits = span(now - pod.creation_time)
        advice = "install or restart it, or correct schedulerName; for a gang, check the operator's --gang-scheduler-name"
        return Cause(
            Reason.NO_SCHEDULER, f'no scheduler has tried to place it for {waits}; is the scheduler "{name}" running?', advice
        )
    return Cause(Reason.STARTING, "is being scheduled")


def _by_autoscaler(cause: Cause, events: Sequence[EventView]) -> Cause:
    """The cause with what the cluster autoscaler does about it, or why it does nothing."""
    said = next((event for event in events if event.reason in (_SCALES, _DOES_NOT_SCALE)), None)
    if said is None:
        return cause
    if said.reason == _SCALES:
        return replace(cause, then=f"the cluster autoscaler adds a node: {in_short(said.message, 200)}")
    more = "; or raise the maximum size of the node group" if "max node group size reached" in said.message else ""
    return replace(cause, text=f"{cause.text}; {in_short(said.message, 200)}", advice=f"{cause.advice}{more}")


def _of_claims(cause: Cause, claims: Sequence[str], found: Found) -> Cause:
    """The cause with the claims, and why one of them is not bound, by its own events."""
    warned = ((name, event) for name in claims for event in found.events_of(name) if event.warning)
    name, event = next(warned, ("", None))
    why = f"; {name}: {in_short(event.message, 300)}" if event is not None else ""
    return replace(cause, text=f"{cause.text} ({listed(claims)}){why}") if claims else cause


def _containers(member: Member, found: Found, now: float) -> Cause | None:
    pod, events = member.pod, found.events_of(member.pod.uid)
    for container in pod.init_containers:
        state = container.state
        if not isinstance(state, Running):
            continue
        since = f"{span(now - state.started_at)}" if state.started_at is not None else ""
        if container.restart_policy != _SIDECAR:
            return _preparing(member, found, container.name, since, now)
        if _not_started(member, container.name):
            said = unhealthy(events, container.name, Reason.STARTUP_PROBE_FAILED)
            if said is not None:
                detail = said.text.partition(": ")[2] or said.text
                text = f"its sidecar {container.name} has not passed its startup probe ({since}): {detail}"
                return replace(said, text=text, then="the program starts when the sidecar has started")
    # The operator stops programs by an image that cannot be pulled, and the kubelet takes its time to see the next one.
    for container in (one for one in (*pod.init_containers, *pod.containers) if not one.stopped_by_image):
        state = container.state
        if isinstance(state, Waiting):
            if state.reason == reasons.CRASH_LOOP_BACK_OFF and container.last is not None:
                return _restarting(member, found, container, container.last)
            cause = not_started(state, events)
            if cause is not None:
                return cause
        elif isinstance(state, Terminated) and state.exit_code != 0:
            return _restarting(member, found, container, state)
    return _waits_for_sidecar(member, found)


def _preparing(member: Member, found: Found, name: str, since: str, now: float) -> Cause:
    """An init container that runs: for how long, and what it printed last."""
    pod = member.pod.name
    text = f"its init container {name} is running" if not since else f"its init container {name} has run for {since}"
    then, see = "the program starts when the init container has finished", f"kubectl logs {pod} -c {name}"
    if (line := found.last_lines.get(pod, "")) and (at := found.printed_at.get(pod)) is not None:
        text += f"; its last line, {span(now - at)} old: {in_short(line, 200)}"
    return Cause(Reason.INIT_CONTAINER_RUNNING, text, see, then=then)


def _not_started(member: Member, name: str) -> bool:
    """Whether the startup probe of a native sidecar, which runs, has not succeeded yet."""
    statuses = mappings_in((member.raw.get("status") or {}).get("initContainerStatuses"))
    return any(status.get("name") == name and status.get("started") is False for status in statuses)


def _relapsing(member: Member, found: Found, now: float) -> Cause | None:
    """Why a container that runs again, but has not for long, failed before."""
    for container in member.pod.containers if not last_is_earlier(member.pod) else ():
        state, last = container.state, container.last
        if not isinstance(state, Running) or last is None or not last.exit_code or container.restart_count < _OFTEN:
            continue
        if state.started_at is None:
            continue
        cause = _cause_of_run(member, found, container, last)
        # A probe needs its time to fail again.
        if now - state.started_at < (PROBE_SECONDS if cause.reason in _PROBES else RELAPSE_SECONDS):
            again = f"; restarted {container.restart_count} times, running again for {span(now - state.started_at)}"
            return replace(cause, text=cause.text + again)
    return None


def _waits_for_sidecar(member: Member, found: Found) -> Cause | None:
    pod = member.pod
    main = main_container(found.framework, member.pod)
    running = [c.name for c in pod.containers if isinstance(c.state, Running)]
    if main not in _succeeded(pod) or not running:
        return None
    return Cause(
        Reason.SIDECAR_RUNNING,
        f"its container {main} has succeeded, but container {', '.join(running)} is still running",
        "make it an init container with restartPolicy: Always (a native sidecar), which the kubelet stops at the end",
        then="the replica succeeds when its last container ends",
    )


def _succeeded(pod: PodView) -> list[str]:
    return [c.name for c in pod.containers if isinstance(c.state, Terminated) and c.state.exit_code == 0]


def _cause_of_run(member: Member, found: Found, container: ContainerView, run: Terminated) -> Cause:
    """Why a run of one of its containers failed."""
    pod, main = member.pod, main_container(found.framework, member.pod)
    if run.exit_code == 0 and container.name == main:
        return without_error(member.replica, found)
    inits = {c.name for c in pod.init_containers}
    lines = found.logs.get(pod.name, ())
    gone = pod.name in found.gone
    cause = end_of_program(decode(run), run.exit_code, run.message, lines, gone=gone, local=found.local)
    if run.reason != "OOMKilled":
        cause = stopped(found.events_of(pod.uid), container.name, run.exit_code, run.finished_at) or cause
    cause = in_context(cause, member.replica, found, container.name)
    if container.name in inits and container.restart_policy != _SIDECAR:
        return of_init(container.name, cause)
    if container.name != main:
        over = f"its container {main} has succeeded, but " if main in _succeeded(pod) else ""
        return replace(cause, text=f"{over}container {container.name}: {cause.text}")
    return cause


def of_init(container: str, cause: Cause) -> Cause:
    """The cause of a failed run of an init container."""
    return Cause(Reason.INIT_CONTAINER_FAILED, f"its init container {container} failed: {cause.text}", cause.advice)


def _restarting(member: Member, found: Found, container: ContainerView, run: Terminated) -> Cause:
    """The cause of the last failed run of a container that the kubelet starts again, and when it does."""
    cause = _cause_of_run(member, found, container, run)
    if member.pod.restart_policy == "Never":
        return cause
    times = max(container.restart_count, 0)
    again = f"; restarted {times} times" if times > 1 else "; restarted once" if times else ""
    pause = min(_FIRST_PAUSE * 2.0 ** min(max(times - 1, 0), 10), _LONGEST_PAUSE) if times else 0.0
    at = run.finished_at + pause if run.finished_at is not None else None
    then = "the kubelet restarts it"
    return Cause(cause.reason, f"{cause.text}{again}", cause.advice, cause.symptom, then, at)


def _node(pod: PodView, found: Found) -> Cause | None:
    state = state_of_node(pod.node_name, found)
    if not state:
        return None
    advice = "check the node: kubectl describe node " + pod.node_name
    then = "Kubernetes evicts its pods after 5 minutes, and the operator replaces them"
    return Cause(Reason.NODE_DOES_NOT_ANSWER, f"its node {pod.node_name} does not respond{state}", advice, then=then)


def state_of_node(name: str, found: Found) -> str:
    """What the node's condition Ready says if it is not True; "" if it is, or the node is not known."""
    for node in found.nodes:
        if (node.get("metadata") or {}).get("name") == name:
            conditions = mappings_in((node.get("status") or {}).get("conditions"))
            ready: Mapping[str, object] = next((c for c in conditions if c.get("type") == "Ready"), {})
            if ready and ready.get("status") != "True":
                return f" ({in_short(str(ready.get('message') or ready.get('reason') or 'not ready'))})"
    return ""


def _not_ready(member: Member, found: Found) -> Cause | None:
    pod = member.pod
    running = bool(pod.containers) and all(isinstance(c.state, Running) for c in pod.containers)
    if pod.ready or not running:
        return None
    events, main = found.events_of(pod.uid), main_container(found.framework, member.pod)
    said = unhealthy(events, main, Reason.READINESS_PROBE_FAILED, Reason.STARTUP_PROBE_FAILED)
    if said is None:
        return None
    how = "is not started yet" if said.reason == Reason.STARTUP_PROBE_FAILED else "is not ready"
    return replace(said, text=f"runs, but {how}: {said.text}")


def _slow(member: Member, found: Found, now: float) -> Cause:
    """A pod on a node whose containers are not started yet, with no reason in its status."""
    pod = member.pod
    if (cause := not_prepared(found.events_of(pod.uid))) is not None:
        return cause
    since = pod.started
    if since is None or now < since + REPORT_AFTER or any(_begun(pod)):
        return Cause(Reason.STARTING, "its containers are being created")
    if pod.ready_to_start:
        text = "its containers are not created yet; the kubelet may still be pulling the image"
        return Cause(Reason.PULLING_IMAGE, text, f"kubectl describe pod {pod.name}")
    text = "its volumes or network are not ready"
    return Cause(Reason.VOLUMES_NOT_READY, text, f"check its volumes: kubectl describe pod {pod.name}")


def _begun(pod: PodView) -> Iterator[bool]:
    return (isinstance(c.state, Running | Terminated) for c in (*pod.init_containers, *pod.containers))
