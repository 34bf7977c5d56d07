"""The assignment of pods to slots, and the tallies of the slots.

A pod is one of ours if its controller owner is the job's UID (the observer has checked that) and it has the name of the
slot's pod. Labels select candidates only: an index label from the cluster is untrusted text and never an index into a
list (the reference panicked on "-1").
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica
from jobcommon.framework import Job, Tallies, Tally


@dataclass(frozen=True, slots=True)
class Slots:
    """The pods of a job by slot.

    `pods` holds the wanted slots that have a pod, `vacant` those that have none; `surplus` pods that are ours but beyond the
    wanted number (scale-down) or of a type the job no longer has, which is then spelt as in the label; `unknown` pods of which
    the spec's errors do not tell whether they are surplus; `earlier` pods of an earlier attempt; `unowned` pods that claim the
    job as owner but fit no slot.
    """

    pods: Mapping[Replica, PodView]
    vacant: tuple[Replica, ...]
    surplus: Mapping[Replica, PodView]
    unknown: Mapping[Replica, PodView]
    earlier: Mapping[Replica, PodView]
    unowned: tuple[PodView, ...]

    @property
    def ours(self) -> tuple[PodView, ...]:
        """The pods that are ours to delete."""
        return (*self.pods.values(), *self.surplus.values(), *self.unknown.values(), *self.earlier.values())


def arrange(job: Job, pods: tuple[PodView, ...], blocked: Collection[str] = ()) -> Slots:
    """Sort the job's pods into its slots. Of the replica types in `blocked`, no pod is surplus."""
    frozen = {kind.lower() for kind in blocked}
    by_name = {pod.name: pod for pod in pods}
    placed: dict[Replica, PodView] = {}
    earlier: dict[Replica, PodView] = {}
    vacant: list[Replica] = []
    for replica in job.replicas:
        if (pod := by_name.pop(job.pod_name(replica), None)) is not None:
            (earlier if attempt_of(pod) < job.attempt else placed)[replica] = pod
        else:
            vacant.append(replica)
    others = [(pod, _former_slot(job, pod)) for pod in sorted(by_name.values(), key=lambda pod: pod.name)]
    beyond = {replica: pod for pod, replica in others if replica is not None}
    unknown = {replica: pod for replica, pod in beyond.items() if replica.type.lower() in frozen}
    known = {replica: pod for replica, pod in beyond.items() if replica not in unknown}
    earlier |= {replica: pod for replica, pod in known.items() if attempt_of(pod) < job.attempt}
    return Slots(
        pods=placed,
        vacant=tuple(vacant),
        surplus={replica: pod for replica, pod in known.items() if replica not in earlier},
        unknown=unknown,
        earlier=earlier,
        unowned=tuple(pod for pod, replica in others if replica is None),
    )


def attempt_of(pod: PodView) -> int:
    """The attempt that the pod belongs to; 0 for one without a readable annotation."""
    number = pod.annotations.get(labels.ATTEMPT, "")
    return int(number) if number.isdecimal() and len(number) < 10 else 0


def tally(job: Job, slots: Slots, succeeded: Mapping[str, frozenset[int]], counted: Collection[str] = ()) -> Tallies:
    """Count the slots of each type. A slot in `succeeded` counts as such regardless of its pod.

    A pod whose end is `counted` (by UID) and which another container keeps alive has failed.
    """
    counts = {kind: {"active": 0, "ready": 0, "pending": 0, "failed": 0} for kind in job.replica_specs}
    # Indexes beyond a scale-down stay recorded, and count again after a scale-up.
    done = {kind: frozenset(i for i in succeeded.get(kind, ()) if i < job.count(kind)) for kind in counts}
    for replica, pod in slots.pods.items():
        if replica.index in done[replica.type]:
            continue
        count = counts[replica.type]
        if pod.phase == "Failed" or (pod.deletion_time is None and pod.uid in counted and pod.phase == "Running"):
            count["failed"] += 1
        elif pod.deletion_time is None and pod.phase == "Running":
            count["active"] += 1
            count["ready"] += pod.ready
        elif pod.deletion_time is None and pod.phase != "Succeeded":
            count["pending"] += 1
    return {
        kind: Tally(wanted=job.count(kind), succeeded=len(done[kind]), succeeded_indexes=done[kind], **count)
        for kind, count in counts.items()
    }


def _former_slot(job: Job, pod: PodView) -> Replica | None:
    """The slot that the pod had when the job wanted more replicas; None for a pod that never had one."""
    kind, index = pod.labels.get(labels.REPLICA_TYPE, ""), pod.labels.get(labels.REPLICA_INDEX, "")
    if not index.isdecimal() or len(index) > 9:
        return None
    known = next((name for name in job.replica_specs if name.lower() == kind.lower()), kind)
    replica = Replica(known, int(index) - job.index_offsets.get(kind.lower(), 0))
    return replica if pod.name == job.pod_name(replica) else None
