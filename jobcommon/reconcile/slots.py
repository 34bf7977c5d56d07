"""The table of slots: each pod of a job is classified once per pass, from (spec, status, pod).

Everything else that is decided about pods (accounting, retirement, restarts, clean-up, tallies, gang members, what pods wait
for) is a fold over this table. Only this module and `ending`, on which it is based, test a pod's phase or deletionTimestamp.

A pod is one of ours if its controller owner is the job's UID (the observer has checked that) and it has the name of the
slot's pod. Labels select candidates only: an index label from the cluster is untrusted text and never an index into a
list (the reference panicked on "-1").
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from jobcommon.api import labels
from jobcommon.api.job import MAX_REPLICAS, RestartPolicy
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica, parse_indexes
from jobcommon.api.status import ConditionType
from jobcommon.framework import Framework, Job, Tallies, Tally
from jobcommon.reconcile.ending import Ending, Verdict, ending_of, failed_in_place, is_over, runs_undisturbed

# More UIDs would make the status large; the others are entered in the next pass (Kubernetes' Job controller has this limit).
# Successes are ranges of indexes, and all of them are entered at once.
MAX_ENTRIES = 500


class Starting(msgspec.Struct, frozen=True, gc=False):
    """It does not run yet."""


class Running(msgspec.Struct, frozen=True, gc=False):
    """It runs. `disturbed`: a container of it has ended or was restarted."""

    disturbed: bool = False


class Leaving(msgspec.Struct, frozen=True, gc=False):
    """It is being deleted, its processes may still run, and that is not on record."""


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Its end is to be recorded. `given_up`: it has failed for good, and the job continues without it."""

    ending: Ending
    given_up: bool = False


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """It is on record as ended, or as `stopped` by us: nothing that it does counts any more. `given_up`: see `Ended`."""

    given_up: bool = False
    stopped: bool = False


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    """The slot is on record as succeeded, whatever its pod does."""


class Surplus(msgspec.Struct, frozen=True, gc=False):
    """The job does not want it any more."""


class Earlier(msgspec.Struct, frozen=True, gc=False):
    """It belongs to an earlier attempt of the job and is to go."""


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """Errors of the spec hide whether it is wanted, or it fits no slot of the job."""


State = Starting | Running | Leaving | Ended | Recorded | Succeeded | Surplus | Earlier | Unknown
STARTING, RUNNING, DISTURBED, LEAVING = Starting(), Running(), Running(disturbed=True), Leaving()
STOPPED = Recorded(stopped=True)
SUCCEEDED, SURPLUS, EARLIER, UNKNOWN = Succeeded(), Surplus(), Earlier(), Unknown()
_NOWHERE = Replica("", -1)


class Slot(msgspec.Struct, frozen=True, gc=False):
    """One pod in its slot. `recorded`: its UID is in `countedPods`, as that of one that has ended or that we have stopped."""

    replica: Replica
    pod: PodView
    state: State
    recorded: bool = False

    @property
    def ending(self) -> Ending:
        """How it ended. Only for one that has and is not on record."""
        return self.state.ending  # type: ignore[union-attr]

    @property
    def over(self) -> bool:
        """Whether none of its processes can run any more."""
        return is_over(self.pod)

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.pod.deletion_time is not None

    @property
    def grace_until(self) -> float | None:
        """When the grace period of its deletion ends (seconds since the epoch); None if it is not being deleted."""
        return self.pod.deletion_time

    @property
    def lingers(self) -> bool:
        """Whether it is being deleted and waits for its kubelet, whose last DELETE has no grace period."""
        pod = self.pod
        return pod.deletion_time is not None and pod.scheduled and pod.deletion_grace_seconds != 0

    @property
    def stays(self) -> bool:
        """Whether its processes may run and it is not being deleted."""
        return self.pod.deletion_time is None and not is_over(self.pod)

    @property
    def active(self) -> bool:
        """Whether it runs and is not being deleted."""
        return self.pod.phase == "Running" and self.pod.deletion_time is None


@dataclass(frozen=True)
class Slots:
    """The pods of a job by slot.

    `wanted` holds the wanted slots that have a pod, `vacant` those that have none; `surplus` pods that are ours but beyond the
    wanted number (scale-down) or of a type the job no longer has, which is then spelt as in the label; `unknown` pods of which
    the spec's errors do not tell whether they are surplus; `earlier` pods of an earlier attempt; `unowned` pods that claim the
    job as owner but fit no slot.
    """

    wanted: Mapping[Replica, Slot]
    vacant: tuple[Replica, ...]
    surplus: tuple[Slot, ...] = ()
    unknown: tuple[Slot, ...] = ()
    earlier: tuple[Slot, ...] = ()
    unowned: tuple[Slot, ...] = ()

    @cached_property
    def notable(self) -> tuple[Slot, ...]:
        """The wanted slots whose pods do not just run: a few of many."""
        return tuple(slot for slot in self.wanted.values() if slot.state is not RUNNING)

    @property
    def ours(self) -> tuple[Slot, ...]:
        """The pods that are ours to delete."""
        return (*self.wanted.values(), *self.surplus, *self.unknown, *self.earlier)


def arrange(framework: Framework, job: Job, pods: Collection[PodView], blocked: Collection[str] = ()) -> Slots:
    """Classify the job's pods. Of the replica types in `blocked`, no pod is surplus."""
    by_name = {pod.name: pod for pod in pods}
    attempt, counted, done = job.attempt, set(job.status.counted_pods), recorded_success(job)
    stopped, resumed = counted.intersection(job.status.stopped_pods), is_resuming(job, pods)

    def state_of(replica: Replica, pod: PodView) -> State:
        if replica.index in done[replica.type]:
            return SUCCEEDED
        if pod.uid in stopped:
            return STOPPED
        if pod.uid in counted:
            # Only what can be given up is looked at again.
            ending = ending_in_slot(framework, job, replica, pod) if framework.tolerates_failure(job, replica) else None
            return Recorded(given_up=ending is not None and gives_up(framework, job, replica, ending))
        if runs_undisturbed(pod, earlier_runs(pod) if attempt else 0):
            return RUNNING
        if (ending := counted_ending(framework, job, replica, pod, resumed=resumed)) is not None:
            return Ended(ending, ending.verdict == Verdict.PERMANENT and gives_up(framework, job, replica, ending))
        if pod.deletion_time is not None:
            return LEAVING
        return STARTING if pod.phase != "Running" or starts_again(pod) else DISTURBED

    wanted: dict[Replica, Slot] = {}
    vacant: list[Replica] = []
    surplus, unknown, earlier, unowned = (list[Slot]() for _ in range(4))
    for replica in job.replicas:
        if (pod := by_name.pop(job.pod_name(replica), None)) is None:
            vacant.append(replica)
        elif attempt and attempt_of(pod) < attempt:
            earlier.append(Slot(replica, pod, EARLIER, pod.uid in counted))
        else:
            wanted[replica] = Slot(replica, pod, state_of(replica, pod), pod.uid in counted)
    frozen = {kind.lower() for kind in blocked}
    for _, pod in sorted(by_name.items()):
        if (former := _former_slot(job, pod)) is None:
            unowned.append(Slot(_NOWHERE, pod, UNKNOWN))
        elif former.type.lower() in frozen:
            unknown.append(Slot(former, pod, UNKNOWN, pod.uid in counted))
        elif attempt_of(pod) < attempt:
            earlier.append(Slot(former, pod, EARLIER, pod.uid in counted))
        else:
            surplus.append(Slot(former, pod, _surplus_state(framework, job, former, pod, done), pod.uid in counted))
    return Slots(wanted, tuple(vacant), tuple(surplus), tuple(unknown), tuple(earlier), tuple(unowned))


def attempt_of(pod: PodView) -> int:
    """The attempt that the pod belongs to; 0 for one without a readable annotation."""
    return _number(pod, labels.ATTEMPT)


def earlier_runs(pod: PodView) -> int:
    """How many runs of the pod's containers belong to earlier attempts; 0 for one that was not restarted in place."""
    return _number(pod, labels.EARLIER_RUNS)


def starts_again(pod: PodView) -> bool:
    """Whether it is restarted in place and the first run of its attempt is still to come."""
    return sum([container.restart_count for container in (*pod.containers, *pod.init_containers)]) < earlier_runs(pod)


def _number(pod: PodView, annotation: str) -> int:
    text = pod.annotations.get(annotation, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0


def _surplus_state(framework: Framework, job: Job, replica: Replica, pod: PodView, done: Mapping[str, frozenset[int]]) -> State:
    """When the job is scaled up again, what has succeeded need not run again."""
    if replica.type not in done or replica.index >= MAX_REPLICAS:
        return SURPLUS
    if replica.index in done[replica.type]:
        return SUCCEEDED
    ending = ending_in_slot(framework, job, replica, pod)
    return Ended(ending) if ending is not None and ending.verdict == Verdict.SUCCEEDED else SURPLUS


def gives_up(framework: Framework, job: Job, replica: Replica, ending: Ending) -> bool:
    """Whether a replica with that end has failed for good and the job continues without it."""
    return ending.verdict == Verdict.PERMANENT and framework.tolerates_failure(job, replica)


def ending_in_slot(framework: Framework, job: Job, replica: Replica, pod: PodView) -> Ending | None:
    """How the pod in a slot ended, by its restart policy and the framework's rules; None while it has not."""
    policy = restart_policy(job, replica)
    if policy not in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE) and framework.retries(job, replica):
        policy = RestartPolicy.ON_FAILURE
    main = framework.main_container(job.replica_specs[replica.type], replica.index)
    ending = ending_of(pod, main, policy)
    if ending is None and job.restarts_together and pod.deletion_time is None and labels.ATTEMPT in pod.annotations:
        return failed_in_place(pod, earlier_runs(pod), policy)
    if ending is not None and ending.verdict == Verdict.SUCCEEDED and not framework.runs_to_completion(replica.type):
        return replace(ending, verdict=Verdict.DISRUPTED)
    return ending


def counted_ending(framework: Framework, job: Job, replica: Replica, pod: PodView, *, resumed: bool) -> Ending | None:
    """How the pod ended, with regard to stops by the operator itself.

    During a recorded suspension a pod that is not deleted yet may fail because its peers were deleted.
    """
    on_record = job.status.has(ConditionType.SUSPENDED)
    if pod.deletion_time is not None and (on_record or job.suspended):
        return Ending(Verdict.STOPPED, "Deleted", deleted=True) if resumed or is_over(pod) else None
    ending = ending_in_slot(framework, job, replica, pod)
    if ending is not None and on_record and ending.verdict != Verdict.SUCCEEDED:
        return replace(ending, verdict=Verdict.STOPPED)
    return ending


def restart_policy(job: Job, replica: Replica) -> RestartPolicy:
    """The restart policy of a slot."""
    return job.replica_specs[replica.type].restart_policy or RestartPolicy.NEVER


def recorded_success(job: Job) -> Mapping[str, frozenset[int]]:
    """By type, the indexes recorded as succeeded in the stored status, including those beyond the wanted number."""
    statuses = job.status.replica_statuses
    return {
        kind: parse_indexes(statuses[kind].succeeded_indexes if kind in statuses else None, MAX_REPLICAS)
        for kind in job.replica_specs
    }


def tally(job: Job, slots: Slots, succeeded: Mapping[str, frozenset[int]]) -> Tallies:
    """Count the slots of each type. A slot in `succeeded` counts as such regardless of its pod.

    A pod whose end is known and which another container keeps alive has failed.
    """
    counts = {kind: {"active": 0, "ready": 0, "pending": 0, "failed": 0} for kind in job.replica_specs}
    # Indexes beyond a scale-down stay recorded, and count again after a scale-up.
    done = {kind: frozenset(i for i in succeeded.get(kind, ()) if i < job.count(kind)) for kind in counts}
    for replica, slot in slots.wanted.items():
        pod, state = slot.pod, slot.state
        if state is not RUNNING and replica.index in done[replica.type]:
            continue
        count = counts[replica.type]
        match state:
            case Running():
                count["active"] += 1
                count["ready"] += pod.ready
            case Starting():
                count["pending"] += 1
            case Recorded(stopped=True):
                count["failed"] += pod.phase == "Failed"
            case Ended() | Recorded():
                count["failed"] += pod.phase == "Failed" or slot.active
    return {
        kind: Tally(wanted=job.count(kind), succeeded=len(done[kind]), succeeded_indexes=done[kind], **count)
        for kind, count in counts.items()
    }


def is_resuming(job: Job, pods: Collection[PodView]) -> bool:
    """Whether the job is to be resumed now, and the UIDs of all pods still terminating fit into one status (MAX_ENTRIES)."""
    if job.suspended or not job.status.has(ConditionType.SUSPENDED):
        return False
    return sum(pod.deletion_time is not None and not is_over(pod) for pod in pods) <= MAX_ENTRIES


def _former_slot(job: Job, pod: PodView) -> Replica | None:
    """The slot that the pod had when the job wanted more replicas; None for a pod that never had one."""
    kind, index = pod.labels.get(labels.REPLICA_TYPE, ""), pod.labels.get(labels.REPLICA_INDEX, "")
    if not index.isdecimal() or len(index) > 9:
        return None
    known = next((name for name in job.replica_specs if name.lower() == kind.lower()), kind)
    replica = Replica(known, int(index) - job.index_offsets.get(kind.lower(), 0))
    return replica if pod.name == job.pod_name(replica) else None
