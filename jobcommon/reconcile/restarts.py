"""The restarts of a job: their number for the status, and what the kubelet restarted in place, in words."""

from collections.abc import Iterable, Mapping

from jobcommon.api import reasons
from jobcommon.api.job import RestartPolicy
from jobcommon.api.pod import PodView, Terminated, Waiting
from jobcommon.api.replica import Replica
from jobcommon.api.status import Failure
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Job
from jobcommon.reconcile.accounting import Accounting, restart_policy
from jobcommon.reconcile.ending import Verdict, charged_containers, decode, is_over, restarts_in_place

# The characters that are kept of a termination message, from its end, where the cause is.
MAX_TEXT = 300


def count(job: Job, accounting: Accounting, pods: Mapping[Replica, PodView], *, ends: bool) -> int:
    """The restarts made or about to be made, in place or by a new pod; the last failure of a job that `ends` causes none.

    The number never decreases, although the count of a deleted pod is lost with it.
    """
    failed_now = len(accounting.having(Verdict.RETRYABLE)) if ends else 0
    living = pods.items() if accounting.in_place else ()
    in_place = sum(_made_in_place(pod, restart_policy(job, replica)) for replica, pod in living if not is_over(pod))
    return max(accounting.recorded - failed_now + in_place, job.status.restarts or 0)


def note(job: Job, pods: Mapping[Replica, PodView]) -> str:
    """The condition's text on restarts in place: the replica with most of them, and its last failure."""
    found = [(_made_in_place(pod, restart_policy(job, r)), r, pod) for r, pod in pods.items() if not is_over(pod)]
    found = [entry for entry in found if entry[0]]
    if not found:
        return ""
    times, replica, pod = max(found, key=lambda entry: entry[0])
    run = last_failure_in_place(pod)
    why = f", last: {how(run)}" if run is not None else ""
    more = f"; {len(found) - 1} more restarted" if len(found) > 1 else ""
    return f"; {replica} restarted {'once' if times == 1 else f'{times} times'}{why}{more}"


def backoff_message(job: Job, accounting: Accounting, pods: Mapping[Replica, PodView]) -> str:
    """Why a job with an exhausted backoffLimit has failed, with the last cause."""
    text = f"Job {job.name} has failed because it has reached the specified backoff limit"
    causes = [entry.ending.describe(entry.replica, entry.pod.node_name) for entry in accounting.having(Verdict.RETRYABLE)]
    for replica, pod in pods.items():
        run = None if is_over(pod) else last_failure_in_place(pod)
        if run is not None:
            causes.append(f"{replica}: {how(run)}")
    cause = f"; last: {causes[-1]}" if causes else ""
    return f"{text}: failed runs {accounting.charged}, restarts allowed {job.run_policy.backoff_limit}{cause}"


def last_failures(pods: Mapping[Replica, PodView]) -> Iterable[Failure]:
    """The last failures of living pods, for the status of a job that ends because of them."""
    runs = ((replica, pod, last_failure_in_place(pod)) for replica, pod in pods.items() if not is_over(pod))
    for replica, pod, run in ((replica, pod, run) for replica, pod, run in runs if run is not None):
        yield Failure(
            replica=str(replica),
            pod=pod.name,
            node=pod.node_name or None,
            reason=decode(run),
            exit_code=run.exit_code,
            message=run.message or None,
            time=format_time(run.finished_at) if run.finished_at is not None else None,
        )


def last_failure_in_place(pod: PodView) -> Terminated | None:
    """The latest failed run of a container in a pod that still lives."""
    for container in charged_containers(pod):
        run = container.state if isinstance(container.state, Terminated) else container.last
        if run is not None and run.exit_code != 0:
            return run
    return None


def how(run: Terminated) -> str:
    """How a run ended, and the end of its termination message: ``exited with code 1 (Error): no such file``."""
    end = f"exited with code {run.exit_code} ({decode(run)})" if run.exit_code is not None else decode(run)
    words = " ".join(run.message.split())
    tail = words if len(words) <= MAX_TEXT else f"…{words[-MAX_TEXT:]}"
    return f"{end}: {tail}" if words else end


def _made_in_place(pod: PodView, policy: RestartPolicy) -> int:
    """The completed restarts in place, without the one that the kubelet still backs off from."""
    put_off = (isinstance(c.state, Waiting) and c.state.reason == reasons.CRASH_LOOP_BACK_OFF for c in charged_containers(pod))
    return restarts_in_place(pod, policy) - sum(put_off)
