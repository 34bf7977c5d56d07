"""Keeping the logs of failed replicas (`keepFailedLogs`): which are read before a plan ends their pods.

A log goes with its pod, and with a container that is started anew. Events go after an hour, and some causes are in events
alone. The failure is on record before that, and the pod's finalizer is there until its log is kept. So no other memory is
needed: an operator that dies in between leaves the finalizer, and the next one keeps the log again, under the same key. A pod
that the platform ended is left out: its log has no cause, and its node may not answer.
"""

from collections.abc import Iterable, Iterator, Sequence

from jobcommon.api.pod import STOPPING_TAG, ContainerView, PodView, Terminated
from jobcommon.api.status import MAX_FAILURES, ConditionType, Failure
from jobcommon.api.timestamp import format_time
from jobcommon.framework import FINALIZER, Job
from jobcommon.reconcile.accounting import failures_on_record
from jobcommon.reconcile.ending import PLATFORM_REASONS, charged_containers
from jobcommon.reconcile.plan import Action, KeepLog, SetImage
from jobcommon.reconcile.slots import last_is_earlier
from jobcommon.reconcile.view import View

MAX_LOG_BYTES = 64 * 1024
"""Of each log as many bytes are kept, from its end."""
MAX_EVENT_BYTES = 8 * 1024
"""Of the events on a pod, and on the job, as many bytes are kept, the latest first."""
MAX_LAST = 4
"""A job with more failures than its status has room for keeps as many more logs when it fails. A ConfigMap holds 1 MiB, and
(10 + 4) * (64 + 8) KiB and 8 KiB are less."""

#: How the reason begins.
UNKEPT = "not all logs and events of failed replicas are kept"
#: The key of the events on the job.
JOB_EVENTS = "job.events"


def logs_of(view: View, actions: Sequence[Action]) -> tuple[KeepLog, ...]:
    """The logs of the failed runs in pods that `actions` release, delete or stop.

    And those of runs that the kubelet has followed by others, in the pass that records them: they go when it starts the next.
    """
    job, pods = view.job, view.observed.pods
    if not job.keeps_failed_logs:
        return ()
    ended = {getattr(action, "uid", "") for action in actions if not _starts(action)}
    going = [pod for pod in pods if pod.uid in ended and (FINALIZER in pod.finalizers or not job.options.tracking_finalizer)]
    last = {pod.uid for pod in _last_to_fail(job, pods)} if going and job.status.has(ConditionType.FAILED) else ()
    logs = [_log_on_record(job, pod) or (_last_log(pod) if pod.uid in last else None) for pod in going]
    known, places = job.status.failures, {slot.pod.name: slot.pod for slot in view.slots.living}
    found = failures_on_record(job, view.accounting, view.slots, suspended=view.facts.suspended)
    new = ((n, one, places.get(one.pod or "")) for n, one in enumerate(found[:MAX_FAILURES]) if n >= len(known))
    logs += [_log_of(number, one, pod) for number, one, pod in new if pod is not None]
    return tuple(log for log in logs if log is not None)


def config_map_name(job: str) -> str:
    """The name of the ConfigMap that holds a job's logs."""
    return f"{job[:240]}-failed-logs"


def key_of_failure(number: int, pod: str) -> str:
    """The key of the log of the failure at that place in `status.failures`."""
    return f"{number}.{pod[:240]}.log"


def key_of_events(log: str) -> str:
    """The key of the events on the pod whose log has this key."""
    return f"{log.removesuffix('.log')}.events"


def _starts(action: Action) -> bool:
    """Whether it starts what was stopped before: what there is to keep was kept then."""
    return isinstance(action, SetImage) and STOPPING_TAG not in action.image


def _log_on_record(job: Job, pod: PodView) -> KeepLog | None:
    """The log of the latest failure on record that is one of this pod."""
    on_record = reversed([*enumerate(job.status.failures)][:MAX_FAILURES])
    return next(filter(None, (_log_of(number, failure, pod) for number, failure in on_record)), None)


def _log_of(number: int, failure: Failure, pod: PodView) -> KeepLog | None:
    """The log of the failure with that number, if it is one of the pod."""
    for container, run in _failed_runs(pod) if failure.pod == pod.name else ():
        if _is_of(failure, run):
            return KeepLog(pod.name, container.name, run.container_id, key_of_failure(number, pod.name), pod.uid)
    return None


def _last_log(pod: PodView) -> KeepLog | None:
    container, run = next(_failed_runs(pod))
    return KeepLog(pod.name, container.name, run.container_id, f"last.{pod.name[:240]}.log", pod.uid)


def _last_to_fail(job: Job, pods: Iterable[PodView]) -> list[PodView]:
    """The first to fail of those whose failures the status had no room for."""
    failed = [(run.finished_at or 0.0, pod.name, pod) for pod in pods for _, run in [*_failed_runs(pod)][:1]]
    others = sorted(entry for entry in failed if _log_on_record(job, entry[2]) is None)
    return [pod for _, _, pod in others[:MAX_LAST]]


def _failed_runs(pod: PodView) -> Iterator[tuple[ContainerView, Terminated]]:
    """The failed runs of the pod's attempt whose logs may still be there.

    What ended before was kept when it was stopped, and may be a run that had not failed but was stopped by us.
    """
    if pod.disruption is not None or pod.reason in PLATFORM_REASONS:
        return
    earlier = last_is_earlier(pod)
    for container in charged_containers(pod):
        if isinstance(container.state, Terminated) and container.state.exit_code:
            yield container, container.state
        if container.last is not None and container.last.exit_code and not earlier:
            yield container, container.last


def _is_of(failure: Failure, run: Terminated) -> bool:
    """Whether this run is the one on record. A pod of the same name may have failed before."""
    at = format_time(run.finished_at) if run.finished_at is not None else None
    return failure.time == at and failure.exit_code == run.exit_code
