"""The table of slots: each pod of a job is classified once per pass, from (spec, status, pod).

A slot has what the pod is to the job (its `State`), whether its processes run (its `Life`), and which of its runs have failed.
Everything else that is decided about pods (accounting, replacement, clean-up, tallies, gang members, what pods wait
for) is a fold over this table. Only this module and `ending`, on which it is based, test a pod's phase or deletionTimestamp.

A pod is one of ours if its controller owner is the job's UID (the observer has checked that) and it has the name of the
slot's pod. Labels select candidates only: an index label from the cluster is untrusted text and never an index into a
list (the reference panicked on "-1").
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import msgspec

from jobcommon.api import labels
from jobcommon.api.job import MAX_REPLICAS, RestartPolicy
from jobcommon.api.pod import PodView, Waiting
from jobcommon.api.replica import Replica, parse_indexes
from jobcommon.api.status import MAX_ATTEMPT, ConditionType
from jobcommon.framework import Framework, Job, Tallies, Tally
from jobcommon.reconcile.ending import (
    NO_FAILED_RUNS,
    Ending,
    EndType,
    FailedRuns,
    Life,
    ending_by_others,
    ending_of,
    failed_in_place,
    failed_runs,
    is_over,
    life_of,
    restarts_in_place,
    runs_undisturbed,
    stopped_by_image,
)

# More UIDs would make the status large; the others are entered in the next pass (Kubernetes' Job controller has this limit).
# Successes are ranges of indexes, and all of them are entered at once.
MAX_ENTRIES = 500


class Starting(msgspec.Struct, frozen=True, gc=False):
    """It does not run yet."""


class Active(msgspec.Struct, frozen=True, gc=False):
    """It runs. `disturbed`: a container of it has ended or was restarted."""

    disturbed: bool = False


class Leaving(msgspec.Struct, frozen=True, gc=False):
    """It is being deleted, its containers may still run, and its end is not recorded yet."""


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


class Other(msgspec.Struct, frozen=True, gc=False):
    """Nothing of it counts. The group of `Slots` says why: in `wanted` it has ended before its program began."""


State = Starting | Active | Leaving | Ended | Recorded | Succeeded | Other
STARTING, ACTIVE, DISTURBED, LEAVING = Starting(), Active(), Active(disturbed=True), Leaving()
RECORDED_STOP, SLOT_SUCCEEDED, OTHER = Recorded(stopped=True), Succeeded(), Other()
_NOWHERE = Replica("", -1)


class Slot(msgspec.Struct, frozen=True, gc=False):
    """One pod in its slot: what it is to the job (`state`), and whether its processes run (`life`).

    `recorded`: its UID is in `countedPods`, as that of one that has ended or that we have stopped. `removal_due`: when its
    kubelet is to remove it, at the end of its grace period (seconds since the epoch); None if it waits for no kubelet.
    """

    replica: Replica
    pod: PodView
    state: State
    life: Life
    recorded: bool = False
    removal_due: float | None = None
    failed_runs: FailedRuns = NO_FAILED_RUNS

    @property
    def ending(self) -> Ending:
        """How it ended. Only for one that has and is not on record."""
        return self.state.ending  # type: ignore[union-attr]

    @property
    def given_up(self) -> bool:
        """Whether it has failed for good, and the job continues without it."""
        return isinstance(self.state, Ended | Recorded) and self.state.given_up

    @property
    def over(self) -> bool:
        """Whether none of its processes can run any more."""
        return self.life is Life.OVER or self.life is Life.REMOVED

    @property
    def deleting(self) -> bool:
        """Whether it is being deleted."""
        return self.life is Life.LEAVING or self.life is Life.REMOVED

    @property
    def stays(self) -> bool:
        """Whether its processes may run and it is not being deleted."""
        return self.life is Life.PENDING or self.life is Life.RUNNING


def order_of_end(slot: Slot) -> tuple[float, bool, str]:
    """The order in which pods ended that are not on record yet, last those of which it is unknown when.

    Of those within a second, one that was asked to stop did not begin it.
    """
    return slot.ending.finished_at or inf, slot.ending.reason == "SIGTERM", slot.pod.name


@dataclass(frozen=True)
class Slots:
    """The pods of a job by slot.

    `wanted` holds the wanted slots with a pod, `vacant` those without; `surplus` the pods beyond the wanted number (scale-down)
    or of a type that the job no longer has, which is then spelt as in the label; `unknown` the pods that may be surplus, which
    errors of the spec hide; `earlier` those of an earlier attempt; `spare` those of replicas that are left out, which wait
    for a node; `unowned` those that claim the job as owner but fit no slot.
    """

    wanted: Mapping[Replica, Slot]
    vacant: tuple[Replica, ...]
    surplus: tuple[Slot, ...] = ()
    unknown: tuple[Slot, ...] = ()
    earlier: tuple[Slot, ...] = ()
    unowned: tuple[Slot, ...] = ()
    spare: tuple[Slot, ...] = ()

    @cached_property
    def notable(self) -> tuple[Slot, ...]:
        """The wanted slots whose pods do not just run: a few of many."""
        return tuple(slot for slot in self.wanted.values() if slot.state is not ACTIVE)

    @property
    def ended(self) -> list[Slot]:
        """Those of `notable` whose end is to be recorded, in the order in which they ended."""
        return sorted((slot for slot in self.notable if isinstance(slot.state, Ended)), key=order_of_end)

    @property
    def living(self) -> tuple[Slot, ...]:
        """Those of `notable` whose pods have not ended, as far as that is not on record."""
        return tuple(slot for slot in self.notable if isinstance(slot.state, Starting | Active | Leaving))

    @property
    def leaving(self) -> tuple[Slot, ...]:
        """Those of `living` whose pods others are deleting."""
        return tuple(slot for slot in self.notable if isinstance(slot.state, Leaving))

    @property
    def ours(self) -> tuple[Slot, ...]:
        """The pods that are ours to delete."""
        return (*self.wanted.values(), *self.surplus, *self.unknown, *self.earlier, *self.spare)


def arrange(framework: Framework, job: Job, pods: Collection[PodView], blocked: Collection[str], *, suspended: bool) -> Slots:
    """Classify the job's pods. Of the `blocked` replica types, no pod is surplus. `suspended`: the job is to have no pods."""
    by_name = {pod.name: pod for pod in pods}
    classifier, attempt = _Classifier(framework, job, pods, suspended=suspended), job.attempt
    wanted: dict[Replica, Slot] = {}
    vacant: list[Replica] = []
    surplus, unknown, earlier, unowned, spare = (list[Slot]() for _ in range(5))
    for replica in job.replicas:
        if (pod := by_name.pop(job.pod_name(replica), None)) is None:
            vacant.append(replica)
        elif is_spare(pod):
            # Nothing of it counts, whichever attempt it was made for.
            living = pod.deletion_time is None and not is_over(pod)
            wanted[replica] = classifier.slot(replica, pod, STARTING if living else OTHER)
        elif attempt and attempt_of(pod) != attempt:
            earlier.append(classifier.slot(replica, pod, OTHER))
        else:
            wanted[replica] = classifier.wanted(replica, pod)
    frozen = {kind.lower() for kind in blocked}
    for _, pod in sorted(by_name.items()):
        if (former := _former_slot(job, pod)) is None:
            unowned.append(classifier.slot(_NOWHERE, pod, OTHER))
        elif former.type.lower() in frozen:
            unknown.append(classifier.slot(former, pod, OTHER))
        elif is_spare(pod):
            spare.append(classifier.slot(former, pod, OTHER))
        elif attempt and attempt_of(pod) != attempt:
            earlier.append(classifier.slot(former, pod, OTHER))
        else:
            surplus.append(classifier.surplus(former, pod))
    return Slots(wanted, tuple(vacant), tuple(surplus), tuple(unknown), tuple(earlier), tuple(unowned), tuple(spare))


class _Classifier:
    """What a pod of the job is in this pass."""

    def __init__(self, framework: Framework, job: Job, pods: Collection[PodView], *, suspended: bool) -> None:
        self._framework, self._job, self._attempt = framework, job, job.attempt
        self._counted, self._done = set(job.status.counted_pods), recorded_success(job)
        self._stopped = self._counted.intersection(job.status.stopped_pods)
        self._suspended, self._on_record = suspended, job.status.has(ConditionType.SUSPENDED)
        self._resumed = self._on_record and not suspended and _fit_into_a_status(pods)

    def wanted(self, replica: Replica, pod: PodView) -> Slot:
        """The slot of a pod that the job wants."""
        undisturbed = runs_undisturbed(pod, earlier_runs(pod) if self._attempt else 0)
        if undisturbed and pod.uid not in self._counted and replica.index not in self._done[replica.type]:
            return Slot(replica, pod, ACTIVE, Life.RUNNING)
        return self.slot(replica, pod, self._state(replica, pod))

    def surplus(self, replica: Replica, pod: PodView) -> Slot:
        """The slot of a pod that it does not want. When the job is scaled up again, what has succeeded need not run again."""
        state: State = OTHER
        if replica.type in self._done and replica.index < MAX_REPLICAS:
            ending = ending_in_slot(self._framework, self._job, replica, pod)
            if replica.index in self._done[replica.type]:
                state = SLOT_SUCCEEDED
            elif ending is not None and ending.type == EndType.SUCCEEDED:
                state = Ended(ending)
        return self.slot(replica, pod, state)

    def slot(self, replica: Replica, pod: PodView, state: State) -> Slot:
        """The slot of a pod in that state."""
        job, runs = self._job, NO_FAILED_RUNS
        if (pod.containers or pod.init_containers) and isinstance(state, Ended | Active | Starting | Leaving):
            runs = failed_runs(pod, restart_policy(job, replica), ended=isinstance(state, Ended))
            # Where all replicas are restarted together, a failed run in a pod that lives is an end, and charged as such.
            runs = FailedRuns(last=runs.last) if job.restarts_together else _since(pod, runs, ended=isinstance(state, Ended))
        # The kubelet's last DELETE has no grace period.
        removal_due = pod.deletion_time if pod.scheduled and pod.deletion_grace_seconds != 0 else None
        return Slot(replica, pod, state, life_of(pod), pod.uid in self._counted, removal_due, runs)

    def _state(self, replica: Replica, pod: PodView) -> State:
        framework, job = self._framework, self._job
        if replica.index in self._done[replica.type]:
            return SLOT_SUCCEEDED
        if pod.uid in self._stopped:
            return RECORDED_STOP
        if pod.uid in self._counted:
            # Only what can be given up is looked at again.
            ending = ending_in_slot(framework, job, replica, pod) if framework.tolerates_failure(job, replica) else None
            return Recorded(given_up=ending is not None and gives_up(framework, job, replica, ending))
        if (ending := self._counted_ending(replica, pod)) is not None:
            return Ended(ending, gives_up(framework, job, replica, ending))
        if pod.deletion_time is not None:
            return LEAVING
        return STARTING if pod.phase != "Running" or starts_again(pod) else DISTURBED

    def _counted_ending(self, replica: Replica, pod: PodView) -> Ending | None:
        """How the pod ended, with regard to stops by the operator itself.

        During a recorded suspension a pod that is not deleted yet may fail because its peers were deleted.
        """
        if pod.deletion_time is not None and (self._on_record or self._suspended):
            return Ending(EndType.STOPPED, "Deleted", deleted=True) if self._resumed or is_over(pod) else None
        ending = ending_in_slot(self._framework, self._job, replica, pod)
        if ending is not None and self._on_record and ending.type != EndType.SUCCEEDED:
            return replace(ending, type=EndType.STOPPED)
        return ending


def being_deleted(job: Job, slots: Slots) -> Iterator[Slot]:
    """The pods that others are deleting, as ended by that."""
    for slot in slots.leaving:
        if (ending := ending_by_others(slot.pod, _rule_of_ends(job, slot.replica))) is not None:
            yield msgspec.structs.replace(slot, state=Ended(ending))


def attempt_of(pod: PodView) -> int:
    """The attempt that the pod belongs to; 0 for one without a readable annotation."""
    return _number(pod, labels.ATTEMPT)


def is_spare(pod: PodView) -> bool:
    """Whether none of its containers has begun: their images cannot be parsed, until the program is started."""
    return pod.annotations.get(labels.SPARE) == "true"


def holds_node(pod: PodView) -> bool:
    """Whether a pod that starts nothing has a node that serves it: images are read after volumes and network are set up."""
    found = (*pod.init_containers, *pod.containers)
    return any(isinstance(c.state, Waiting) and c.state.reason == "InvalidImageName" for c in found)


def earlier_runs(pod: PodView) -> int:
    """How many runs of the pod's containers belong to earlier attempts; 0 for one that was not restarted in place."""
    return _number(pod, labels.EARLIER_RUNS)


def _since(pod: PodView, runs: FailedRuns, *, ended: bool) -> FailedRuns:
    """The failed runs without those of earlier attempts, which the operator has ended and charged for itself."""
    if not (earlier := earlier_runs(pod)):
        return runs
    charged, restarted = max(runs.charged - earlier, 0), max(runs.restarted - earlier, 0)
    return FailedRuns(charged, restarted, runs.last if charged or ended else None)


def last_is_earlier(pod: PodView) -> bool:
    """Whether the last run before the present one belongs to an earlier attempt, which a restart in place has ended."""
    return 0 < earlier_runs(pod) >= restarts_in_place(pod, RestartPolicy.ON_FAILURE)


def starts_again(pod: PodView) -> bool:
    """Whether it is restarted in place and the first run of its attempt is still to come."""
    return failed_runs(pod, RestartPolicy.ON_FAILURE, ended=False).restarted < earlier_runs(pod)


def _number(pod: PodView, annotation: str) -> int:
    text = pod.annotations.get(annotation, "")
    return number if len(text) < 10 and text.isdecimal() and (number := int(text)) <= MAX_ATTEMPT else 0


def gives_up(framework: Framework, job: Job, replica: Replica, ending: Ending) -> bool:
    """Whether a replica with that end has failed for good and the job continues without it."""
    return ending.type == EndType.PERMANENT and framework.tolerates_failure(job, replica)


def ending_in_slot(framework: Framework, job: Job, replica: Replica, pod: PodView) -> Ending | None:
    """How the pod in a slot ended, by its restart policy and the framework's rules; None while it has not."""
    if not (pod.containers or pod.init_containers or is_over(pod)):
        return None  # as in most passes of a large job, for its pods that have no node yet
    policy = _rule_of_ends(job, replica)
    if policy not in (RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE) and framework.retries(job, replica):
        policy = RestartPolicy.ON_FAILURE
    main = framework.main_container(job.replica_specs[replica.type], replica.index)
    if not main:
        # The template cannot be read, and so it is unknown whose exit code counts.
        return None
    # What the operator itself stops so belongs to an earlier attempt, and is not asked for its end.
    if (stopped := stopped_by_image(pod, main, policy)) is not None:
        return stopped
    ending = ending_of(pod, main, policy)
    never = policy == RestartPolicy.EXIT_CODE and restart_policy(job, replica) == RestartPolicy.NEVER
    if ending is not None and never and ending.type == EndType.RETRYABLE:
        return replace(ending, type=EndType.PERMANENT)
    if ending is None and job.restarts_together and pod.deletion_time is None and labels.ATTEMPT in pod.annotations:
        return failed_in_place(pod, main, earlier_runs(pod), policy)
    if ending is not None and ending.type == EndType.SUCCEEDED and not framework.runs_to_completion(replica.type):
        return replace(ending, type=EndType.DISRUPTED)
    if ending is not None and ending.type == EndType.SUCCEEDED and _is_to_serve_on(framework, job, replica):
        return replace(ending, type=EndType.RETRYABLE)
    return ending


def has_failed(framework: Framework, job: Job, slot: Slot) -> bool:
    """Whether its pod has ended otherwise than with success, also if it counts as succeeded since the job's success."""
    ending = ending_in_slot(framework, job, slot.replica, slot.pod)
    return ending is not None and ending.type != EndType.SUCCEEDED


def _is_to_serve_on(framework: Framework, job: Job, replica: Replica) -> bool:
    """Whether the job needs a server again that has ended with code 0: under Always, where no kubelet restarts it by itself.

    Not one whose success is that of the job, and no replica with work of its own, which may be done before the leader's is.
    """
    kind = replica.type
    serves = framework.serves(kind) and restart_policy(job, replica) == RestartPolicy.ALWAYS
    if not serves or not job.restarts_together or job.status.finished:
        return False
    done = {kind: frozenset(job.indexes(kind))}
    return not framework.decide(job, tally(job, Slots({}, ()), done)).succeeded


def _rule_of_ends(job: Job, replica: Replica) -> RestartPolicy:
    """The policy by which an end is judged. Of an elastic job a lost node is no failure, also under Never."""
    policy = restart_policy(job, replica)
    return RestartPolicy.EXIT_CODE if policy == RestartPolicy.NEVER and job.is_elastic else policy


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
    done = {kind: frozenset(succeeded.get(kind, ())).intersection(job.indexes(kind)) for kind in counts}
    for replica, slot in slots.wanted.items():
        pod, state = slot.pod, slot.state
        if replica.index in done[replica.type]:
            continue
        count = counts[replica.type]
        match state:
            case Active():
                count["active"] += 1
                count["ready"] += pod.ready
            case Starting():
                count["pending"] += 1
            case Recorded(stopped=True) | Ended(Ending(EndType.STOPPED)):
                pass
            case Ended() | Recorded():
                count["failed"] += pod.phase == "Failed" or slot.life is Life.RUNNING
    return {
        kind: Tally(wanted=job.count(kind), succeeded=len(done[kind]), succeeded_indexes=done[kind], **count)
        for kind, count in counts.items()
    }


def _fit_into_a_status(pods: Collection[PodView]) -> bool:
    """Whether the UIDs of all pods still terminating fit into one status."""
    return sum(pod.deletion_time is not None and not is_over(pod) for pod in pods) <= MAX_ENTRIES


def _former_slot(job: Job, pod: PodView) -> Replica | None:
    """The slot that the pod had when the job wanted more replicas; None for a pod that never had one."""
    kind, index = pod.labels.get(labels.REPLICA_TYPE, ""), pod.labels.get(labels.REPLICA_INDEX, "")
    if not index.isdecimal() or len(index) > 9:
        return None
    known = next((name for name in job.replica_specs if name.lower() == kind.lower()), kind)
    replica = Replica(known, int(index) - job.index_offsets.get(kind.lower(), 0))
    return replica if pod.name == job.pod_name(replica) else None
