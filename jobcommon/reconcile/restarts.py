"""The restarts of a job: their number for the status, and what the kubelet restarted in place, in words."""

from collections.abc import Iterable, Iterator

from jobcommon.api import reasons
from jobcommon.api.pod import PodView, Terminated, Waiting
from jobcommon.api.status import Failure
from jobcommon.api.timestamp import format_time
from jobcommon.framework import Job
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.ending import Verdict, charged_containers, decode, restarts_in_place
from jobcommon.reconcile.slots import Slot, Slots, restart_policy

# The characters that are kept of a termination message, from its end, where the cause is.
MAX_TEXT = 300


def count(job: Job, accounting: Accounting, slots: Slots, *, ends: bool) -> int:
    """The restarts made or about to be made, in place or by a new pod; the last failure of a job that `ends` causes none.

    The number never decreases, although the count of a deleted pod is lost with it.
    """
    failed_now = len(accounting.having(Verdict.RETRYABLE)) if ends else 0
    in_place = sum(_made_in_place(job, slot) for slot in _living(slots)) if accounting.in_place else 0
    return max(accounting.recorded - failed_now + in_place, job.status.restarts or 0)


def note(job: Job, slots: Slots) -> str:
    """The condition's text on restarts in place: the replica with most of them, and its last failure."""
    found = [(times, slot) for slot in _living(slots) if (times := _made_in_place(job, slot))]
    if not found:
        return ""
    times, slot = max(found, key=lambda entry: entry[0])
    run = last_failure_in_place(slot.pod)
    why = f", last: {how(run)}" if run is not None else ""
    more = f"; {len(found) - 1} more restarted" if len(found) > 1 else ""
    return f"; {slot.replica} restarted {'once' if times == 1 else f'{times} times'}{why}{more}"


def backoff_message(job: Job, accounting: Accounting, slots: Slots) -> str:
    """Why a job with an exhausted backoffLimit has failed, with the last cause."""
    text = f"Job {job.name} has failed because it has reached the specified backoff limit"
    causes = [entry.ending.describe(entry.replica, entry.pod.node_name) for entry in accounting.having(Verdict.RETRYABLE)]
    causes += [f"{slot.replica}: {how(run)}" for slot, run in runs_in_place(slots)]
    cause = f"; last: {causes[-1]}" if causes else ""
    return f"{text}: failed runs {accounting.charged}, restarts allowed {job.run_policy.backoff_limit}{cause}"


def last_failures(slots: Slots) -> Iterable[Failure]:
    """The last failures of living pods, for the status of a job that ends because of them."""
    for slot, run in runs_in_place(slots):
        yield Failure(
            replica=str(slot.replica),
            pod=slot.pod.name,
            node=slot.pod.node_name or None,
            reason=decode(run),
            exit_code=run.exit_code,
            message=run.message or None,
            time=format_time(run.finished_at) if run.finished_at is not None else None,
        )


def runs_in_place(slots: Slots) -> Iterator[tuple[Slot, Terminated]]:
    """The living pods in which a run has failed, each with the latest."""
    runs = ((slot, last_failure_in_place(slot.pod)) for slot in _living(slots))
    return ((slot, run) for slot, run in runs if run is not None)


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


def _living(slots: Slots) -> Iterator[Slot]:
    return (slot for slot in slots.notable if not slot.over)


def _made_in_place(job: Job, slot: Slot) -> int:
    """The completed restarts in place, without the one that the kubelet still backs off from."""
    pod, policy = slot.pod, restart_policy(job, slot.replica)
    put_off = (isinstance(c.state, Waiting) and c.state.reason == reasons.CRASH_LOOP_BACK_OFF for c in charged_containers(pod))
    return restarts_in_place(pod, policy) - sum(put_off)
