"""Defects in what the end of a pod is taken for, put back: what real kubelets, nodes and API servers have shown."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from jobcommon.api import labels
from jobcommon.api.job import RestartPolicy
from jobcommon.api.observed import Observed
from jobcommon.api.pod import ContainerView, PodView, Terminated, Waiting
from jobcommon.api.reasons import CRASH_LOOP_BACK_OFF
from jobcommon.api.replica import parse_indexes, replica_count
from jobcommon.api.status import JobStatus
from jobcommon.controller import job_controller as controller
from jobcommon.framework import FINALIZER, Framework, Job
from jobcommon.reconcile import (
    accounting,
    attempt,
    cleanup,
    compose,
    decision,
    ending,
    failed_logs,
    limits,
    node_loss,
    situation,
    slots,
)
from jobcommon.reconcile.accounting import Accounting
from jobcommon.reconcile.ending import Ending, Verdict
from jobcommon.reconcile.plan import Action, KeepLog, Plan
from jobcommon.reconcile.slots import Slot, Slots, arrange
from jobcommon.testutil.sim.mutation import Mutant

_ending_of = ending.ending_of
_counted_ending = slots.counted_ending
_decide = decision.plan
_account = accounting.account_for_pods
_ending_in_slot = slots.ending_in_slot
_retire_earlier = attempt.retire_earlier
_force_deletions = node_loss.force_deletions
_remembered = accounting.pods_to_remember
_logs_to_keep = failed_logs.logs_to_keep


def _main_run(pod: PodView, main: str) -> Terminated | None:
    state = next((one.state for one in pod.containers if one.name == main), None)
    return state if isinstance(state, Terminated) else None


def _by_timestamps(pod: PodView, main: str, policy: RestartPolicy) -> Ending | None:
    """A container that finished before the time of the deletion, less the grace period, ended by itself."""
    run = _main_run(pod, main)
    asked = (pod.deletion_time or 0.0) - (pod.deletion_grace_seconds or 0)
    itself = run is not None and run.finished_at is not None and run.finished_at < asked
    return _ending_of(_not_deleted(pod) if itself and ending.is_over(pod) else pod, main, policy)


def _not_deleted(pod: PodView) -> PodView:
    fields = {name: getattr(pod, name) for name in PodView.__struct_fields__}
    return PodView(**{**fields, "deletion_time": None, "deletion_grace_seconds": None})


def _stopped_by_timestamps(framework: Framework, job: Job, replica: Any, pod: PodView, **known: bool) -> Ending | None:
    """Only an end without an exit code counts as one by the suspension."""
    found = _counted_ending(framework, job, replica, pod, **known)
    own = slots.ending_in_slot(framework, job, replica, pod)
    if found is not None and found.verdict == Verdict.STOPPED and own is not None and own.exit_code is not None:
        return own
    return found


def _exit_0_first(pod: PodView, main: str, policy: RestartPolicy) -> Ending | None:
    run = _main_run(pod, main)
    if ending.is_over(pod) and run is not None and run.exit_code == 0:
        return Ending(Verdict.SUCCEEDED, "Completed", exit_code=0)
    return _ending_of(pod, main, policy)


def _deleted_with_the_record(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    plan = _decide(framework, job, observed, now)
    if plan.actions or plan.status is None or plan.reason != "job is suspended":
        return plan
    found = arrange(framework, job, observed.pods)
    entered = accounting.account_for_pods(job, found).entries
    stopped = [slot for slot in found.ours if slot not in entered]
    return replace(plan, actions=tuple(cleanup.stop_pods(stopped, "job is suspended")))


def _no_time(*_: Any) -> None:
    return None


def _never(*_: Any, **__: Any) -> bool:
    return False


def _always(*_: Any) -> bool:
    return True


def _surplus_not_entered(status: JobStatus, found: Slots, entries: Any) -> tuple[str, ...]:
    surplus = {slot.pod.uid for slot in found.surplus}
    return tuple(uid for uid in _remembered(status, found, entries) if uid not in surplus)


def _all_surplus(found: Slots) -> list[Slot]:
    return list(found.surplus)


def _wanted_only(job: Job) -> Mapping[str, frozenset[int]]:
    statuses = job.status.replica_statuses
    return {
        kind: parse_indexes(statuses[kind].succeeded_indexes if kind in statuses else None, replica_count(spec))
        for kind, spec in job.replica_specs.items()
    }


def _all_restarts(pod: PodView, _policy: RestartPolicy) -> int:
    return sum(one.restart_count + _backs_off(one) for one in pod.init_containers + pod.containers)


def _backs_off(container: ContainerView) -> bool:
    return isinstance(container.state, Waiting) and container.state.reason == CRASH_LOOP_BACK_OFF


def _uncapped(started: float | None, earlier: int, now: float, _recorded_at: float | None = None) -> limits.Due:
    if earlier <= 1:
        return limits.Due(now, now)
    delay = min(limits.FIRST_RESTART_DELAY * 2.0 ** min(earlier - 2, 10), limits.MAX_RESTART_DELAY)
    return limits.Due((started or now) + delay, now)


def _no_barrier(
    job: Job, slots: Collection[Slot], backed_off: Collection[str], now: float
) -> tuple[Sequence[Action], float | None]:
    return _retire_earlier(job, slots, backed_off, now)[0], None


def _all_charged(_framework: Framework, job: Job, ledger: Accounting, _slots: Slots) -> Accounting:
    """Each failure is charged, and the replicas are restarted together all the same."""
    lost = ledger.having(Verdict.RETRYABLE, Verdict.DISRUPTED)
    return replace(ledger, attempt=job.attempt + 1) if lost else ledger


def _logs_of_released_pods(job: Job, actions: Iterable[Action], pods: Iterable[PodView]) -> tuple[KeepLog, ...]:
    return _logs_to_keep(job, actions, [pod for pod in pods if FINALIZER not in pod.finalizers])


def _entered_unread(job: Job, found: Slots) -> Accounting:
    return _account(replace(job, unread=frozenset()), found)


def _ending_without_main(framework: Framework, job: Job, replica: Any, pod: PodView) -> Ending | None:
    main = framework.main_container(job.replica_specs[replica.type], replica.index)
    return _ending_in_slot(framework, job, replica, pod) if main else _ending_of(pod, main, slots.restart_policy(job, replica))


def _forced_unasked(job: Job, found: Iterable[Slot], now: float) -> tuple[list[Action], list[float]]:
    """Whatever the pods' annotations say."""
    safe = [structs.replace(s, pod=structs.replace(s.pod, annotations={labels.SAFE_TO_DELETE: "true"})) for s in found]
    return _force_deletions(job, safe, now)


_STOPPED = ("*/L16-*", "*/L8-*")


def _of_unread_types_too(framework: Framework, job: Job, pods: tuple[PodView, ...], *_: object) -> Slots:
    return arrange(framework, job, pods)


ENDINGS = (
    Mutant(
        "E1-ended-before-the-deletion",
        "What finished before deletionTimestamp less the grace period ended by itself; the last DELETE moves that time.",
        ((slots, "ending_of", _by_timestamps), (slots, "counted_ending", _stopped_by_timestamps)),
        where=("*/L16-preempted-*", "*/L16-deleted-*"),
        pair="With the suspension on record the ends of its pods count as nothing; so exit codes count there, too.",
    ),
    Mutant(
        "E2-deleted-with-the-record",
        "A suspension deletes its pods in the pass that records it; an operator that dies between leaves no trace of why.",
        ((controller, "decide", _deleted_with_the_record),),
        where=("*/L16-preempted-never", "*/L16-preempted-exitcode", "*/L16-preempted-onfailure"),
        faults=("crash-before", "conflict", "server-error", "forbidden"),
    ),
    Mutant(
        "E3-resumed-without-the-terminating",
        "A resume does not enter the pods that still terminate, so their ends count as disruptions of the resumed job.",
        ((slots, "is_resuming", _never), (decision, "is_stopping", _never)),
        where=_STOPPED,
    ),
    Mutant(
        "E4-scaled-down-without-a-record",
        "Surplus pods are deleted and not entered, so they count as disruptions when the job is scaled up again.",
        ((accounting, "pods_to_remember", _surplus_not_entered), (decision, "pods_scaled_down", _all_surplus)),
        where=("*/L16-scaled-*",),
    ),
    Mutant(
        "E5-success-forgotten-when-scaled-away",
        "Successes beyond the wanted number are dropped, and run again when the job is scaled up.",
        ((accounting, "recorded_success", _wanted_only), (slots, "recorded_success", _wanted_only)),
        where=("*/L16-success-scaled-away",),
    ),
    Mutant(
        "E6-exit-0-before-the-platform",
        "Exit 0 is a success whatever the platform says, so a drained or evicted replica is taken for done.",
        ((slots, "ending_of", _exit_0_first),),
        where=("pytorch/L12-drained", "tensorflow/L12-drained", "mxnet/L12-drained"),
    ),
    Mutant(
        "E7-helper-succeeds",
        "A worker that serves the launcher has succeeded when it ends with exit 0, and is missing ever after.",
        ((Framework, "runs_to_completion", _always),),
        where=("mpi/L7*", "mpi-v1/L7*"),
    ),
    Mutant(
        "E8-sidecars-are-charged",
        "Restarts of sidecars and init containers are charged to backoffLimit.",
        ((ending, "restarts_in_place", _all_restarts),),
        where=("*/L17-native-*",),
    ),
    Mutant(
        "E9-waits-for-the-sidecar",
        "A pod whose main container has failed for good is waited for as long as a sidecar runs: without end.",
        ((ending, "main_failed", _never),),
        where=("*/L17-sidecar-*",),
    ),
    Mutant(
        "E10-given-up-keeps-restarting",
        "A replica that was given up keeps the job Restarting, for not every slot will ever run again.",
        ((slots, "gives_up", _never),),
        where=("tensorflow/dynamic-worker-given-up",),
        faults=(),
    ),
    Mutant(
        "E11-delay-by-a-clock-ahead",
        "The delay of a restart counts from a time that another clock wrote, so it lasts as long as that one is ahead.",
        ((limits, "restart_due", _uncapped),),
        where=("*/X-clock-ahead",),
        faults=(),
    ),
    Mutant(
        "E12-half-stopped-runs-on",
        "A job that is resumed when half of its pods were stopped runs on, and fails for want of the others.",
        ((decision, "is_stopping", _never),),
        where=("*/X-fails-without-peers",),
        faults=("crash-after", "crash-before"),
    ),
    Mutant(
        "E13-unread-means-unwanted",
        "A type that cannot be read wants no pods, so that after its correction those that run are deleted.",
        ((situation, "arrange", _of_unread_types_too),),
        where=("*/X-runs-on",),
        faults=("replicas-unreadable",),
    ),
    Mutant(
        "E14-stopped-at-the-success",
        "Pods that still run when a job has succeeded are stopped at once, though they may be saving.",
        ((limits, "grace", _no_time),),
        where=("*/X-ends-after-the-success",),
        faults=(),
    ),
    Mutant(
        "E15-attempts-overlap",
        "The pods of an attempt are created while programs of the one before still run.",
        ((attempt, "retire_earlier", _no_barrier),),
        where=("*/A-peers-stop-slowly",),
    ),
    Mutant(
        "E16-consequences-are-charged",
        "What ends because a peer has failed counts, so one lost rank uses up backoffLimit.",
        ((attempt, "without_consequences", _all_charged),),
        where=("*/A-rank-killed", "*/A-pod-deleted", "*/A-evicted"),
    ),
    Mutant(
        "E17-log-after-the-pod",
        "Logs are read after the finalizers of their pods are removed, when the kubelet may have deleted them.",
        ((compose, "logs_to_keep", _logs_of_released_pods),),
        where=("*/K-log-of-*",),
    ),
    Mutant(
        "E18-forced-unasked",
        "A pod on a silent node is deleted by force although no annotation says that its program may run twice.",
        ((node_loss, "force_deletions", _forced_unasked),),
        where=("*/A-node-cut-off",),
        faults=(),
    ),
    Mutant(
        "E25-entered-unread",
        "A failure for good is entered while a type cannot be read, and not acted on when it can be.",
        ((situation, "account_for_pods", _entered_unread),),
        where=("*/L3-permanent-exit",),
        faults=("replicas-unreadable",),
    ),
    Mutant(
        "E26-no-main-container",
        "A template that cannot be read has no main container, so that what failed meanwhile is a disruption.",
        ((slots, "ending_in_slot", _ending_without_main),),
        where=("mpi*/L3-permanent-exit",),
        faults=("replicas-unreadable",),
    ),
)
