"""The restarts of a job: their number for the status, what the kubelet restarted in place, in words, and causes for metrics."""

from collections import Counter
from collections.abc import Iterator

from jobcommon.api.pod import Terminated
from jobcommon.api.status import MAX_FAILURES, ConditionType, Failure, JobStatus
from jobcommon.api.timestamp import format_moment
from jobcommon.framework import Job
from jobcommon.reconcile.accounting import Accounting, failure_of, is_on_record
from jobcommon.reconcile.ending import (
    PLATFORM_REASONS,
    SIGNALS,
    STOPPED_BY_IMAGE,
    Ending,
    Verdict,
    decode,
    ending_by_others,
)
from jobcommon.reconcile.rendering import Note
from jobcommon.reconcile.slots import Slot, Slots, restart_policy

# The characters that are kept of a termination message, from its end, where the cause is.
MAX_END = 300
MAX_NAMED = 3
OTHER_CAUSE = "Other"
# The kubelet's and the control plane's own words: of a container's end, of a DisruptionTarget condition, and of this package.
KNOWN_CAUSES = PLATFORM_REASONS | frozenset(SIGNALS) | {
    "Error", "Completed", "OOMKilled", "ContainerCannotRun", "StartError", "ContainerStatusUnknown", "PreemptionByScheduler",
    "DeletionByTaintManager", "EvictionByEvictionAPI", "DeletionByPodGC", "TerminationByKubelet", "DeadlineExceeded", "Deleted",
    "Lost", STOPPED_BY_IMAGE,
}  # fmt: skip


def count(job: Job, accounting: Accounting, slots: Slots, *, ends: bool) -> int:
    """The restarts made or about to be made, in place or by a new pod; the last failure of a job that `ends` causes none.

    The number never decreases, although the count of a deleted pod is lost with it.
    """
    failed_now = len(accounting.having(Verdict.RETRYABLE)) if ends else 0
    in_place = sum(slot.failed_runs.restarted for slot in slots.living)
    return max(accounting.recorded - failed_now + in_place, job.status.restarts or 0)


def recorded_time(before: JobStatus, after: tuple[int | None, ...], now: float) -> str | None:
    """The time of the last restart, which is `now` if one of the numbers of restarts, disruptions and attempts rises."""
    known = (before.restarts, before.disruptions, before.attempt)
    if any((new or 0) > (old or 0) for new, old in zip(after, known, strict=True)):
        return format_moment(now)
    return before.last_restart_time


def notes(slots: Slots) -> list[Note]:
    """What the condition says of restarts in place: the replica with most of them, and its last failure."""
    found = [(times, slot) for slot in slots.living if (times := slot.failed_runs.restarted)]
    if not found:
        return []
    times, slot = max(found, key=lambda entry: entry[0])
    run = slot.failed_runs.last
    why = f", last: {described_end(run)}" if run is not None else ""
    more = f"; {len(found) - 1} more restarted" if len(found) > 1 else ""
    return [Note(f"{slot.replica} restarted {'once' if times == 1 else f'{times} times'}{why}{more}")]


def causes(before: JobStatus, after: JobStatus, accounting: Accounting, slots: Slots) -> tuple[tuple[str, int], ...]:
    """The restarts that the status records `after` this pass and did not `before` it, by cause, sorted, for metrics.

    The causes are a bounded set, whatever a platform writes into a pod. The status has only the number of restarts in place:
    all of them get the cause of the latest.
    """
    if after.restarts == before.restarts and after.disruptions == before.disruptions:
        return ()
    replaced = accounting.having(Verdict.RETRYABLE, Verdict.DISRUPTED) if not after.finished else ()
    found = Counter(entry.ending.reason for entry in replaced)
    failed = sum(entry.ending.verdict == Verdict.RETRYABLE for entry in replaced)
    if (in_place := (after.restarts or 0) - (before.restarts or 0) - failed) > 0:
        latest = max((run for _, run in runs_in_place(slots)), key=lambda run: run.finished_at or 0.0, default=None)
        found[decode(latest) if latest is not None else OTHER_CAUSE] += in_place
    known: Counter[str] = Counter()
    for cause, times in found.items():
        known[cause if cause in KNOWN_CAUSES else OTHER_CAUSE] += times
    return tuple(sorted(known.items()))


def backoff_message(job: Job, accounting: Accounting, slots: Slots) -> str:
    """Why a job with an exhausted backoffLimit has failed, with the last cause."""
    text = f"Job {job.name} has failed because it has reached the specified backoff limit"
    causes = [entry.ending.describe(entry.replica, entry.pod.node_name) for entry in accounting.having(Verdict.RETRYABLE)]
    causes += [f"{slot.replica}: {described_end(run)}" for slot, run in runs_in_place(slots)]
    cause = f"; last: {causes[-1]}" if causes else ""
    return f"{text}: failed runs {accounting.charged}, restarts allowed {job.run_policy.backoff_limit}{cause}"


def still_terminating(job: Job, slots: Slots) -> list[Note]:
    """The note on pods that others are deleting while the job fails: their peers may have failed of that."""
    ends = [(slot, ending_by_others(slot.pod, restart_policy(job, slot.replica))) for slot in slots.leaving]
    told = [ending.describe(slot.replica, slot.pod.node_name) for slot, ending in ends[:MAX_NAMED] if ending is not None]
    return [Note(f"still terminating: {', '.join(told)}")] if told else []


def failures(job: Job, accounting: Accounting, slots: Slots) -> list[Failure]:
    """The first failures, with those of runs in living pods. Of these the kubelet keeps the latest of each container."""
    found = list(accounting.failures)
    # Where all replicas are restarted together, such a run ends its attempt, or is a consequence of that. While a job is
    # suspended, one fails for want of peers that were stopped.
    counted = not (job.restarts_together or job.suspended or job.status.has(ConditionType.SUSPENDED))
    for slot, run in runs_in_place(slots) if counted else ():
        ending = Ending(Verdict.RETRYABLE, decode(run), run.exit_code, run.message, run.finished_at)
        failure = failure_of(slot.replica, slot.pod, ending)
        if slot.failed_runs.charged and len(found) < MAX_FAILURES and not is_on_record(failure, found):
            found.append(failure)
    return found


def runs_in_place(slots: Slots) -> Iterator[tuple[Slot, Terminated]]:
    """The living pods in which a run has failed, each with the latest."""
    return ((slot, run) for slot in slots.living if (run := slot.failed_runs.last) is not None)


def described_end(run: Terminated) -> str:
    """How a run ended, and the end of its termination message: ``exited with code 1 (Error): no such file``."""
    end = f"exited with code {run.exit_code} ({decode(run)})" if run.exit_code is not None else decode(run)
    words = " ".join(run.message.split())
    tail = words if len(words) <= MAX_END else f"…{words[-MAX_END:]}"
    return f"{end}: {tail}" if words else end
