"""Which pod stands in which slot, and the tallies of the slots.

A pod is one of ours if its controller owner is the job's UID (the observer has seen to that) and its name is the one the
slot's pod has. Labels select candidates only: an index label from the cluster is untrusted text and never an index into a
list (the reference panicked on "-1").
"""

from collections.abc import Mapping
from dataclasses import dataclass

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica, replica_count
from jobcommon.framework import Job, Tallies, Tally


@dataclass(frozen=True, slots=True)
class Slots:
    """The pods of a job by slot.

    `pods` holds the wanted slots that have a pod; `surplus` pods that are ours but beyond the wanted number (scale-down)
    or of a type the job no longer has; `strangers` pods that claim the job as owner but fit no slot.
    """

    pods: Mapping[Replica, PodView]
    surplus: tuple[PodView, ...]
    strangers: tuple[PodView, ...]

    @property
    def ours(self) -> tuple[PodView, ...]:
        """The pods that are ours to delete."""
        return (*self.pods.values(), *self.surplus)


def arrange(job: Job, pods: tuple[PodView, ...]) -> Slots:
    """Sort the job's pods into its slots."""
    by_name = {pod.name: pod for pod in pods}
    placed = {replica: by_name.pop(name) for replica in job.replicas if (name := job.pod_name(replica)) in by_name}
    others = sorted(by_name.values(), key=lambda pod: pod.name)
    return Slots(
        pods=placed,
        surplus=tuple(pod for pod in others if _was_a_slot(job, pod)),
        strangers=tuple(pod for pod in others if not _was_a_slot(job, pod)),
    )


def tally(job: Job, slots: Slots, succeeded: Mapping[str, frozenset[int]]) -> Tallies:
    """Count the slots of each type. A slot in `succeeded` counts as such whatever its pod says."""
    tallies: dict[str, Tally] = {}
    for kind, spec in job.replica_specs.items():
        done = succeeded.get(kind, frozenset())
        count = {"active": 0, "ready": 0, "pending": 0, "failed": 0}
        for index in range(replica_count(spec)):
            pod = slots.pods.get(Replica(kind, index))
            if pod is None or index in done:
                continue
            if pod.phase == "Failed":
                count["failed"] += 1
            elif pod.deletion_time is None and pod.phase == "Running":
                count["active"] += 1
                count["ready"] += pod.ready
            elif pod.deletion_time is None:
                count["pending"] += 1
        tallies[kind] = Tally(wanted=replica_count(spec), succeeded=len(done), succeeded_indexes=done, **count)
    return tallies


def _was_a_slot(job: Job, pod: PodView) -> bool:
    kind, index = pod.labels.get(labels.REPLICA_TYPE, ""), pod.labels.get(labels.REPLICA_INDEX, "")
    if not index.isdecimal() or len(index) > 9:
        return False
    return pod.name == job.pod_name(Replica(kind, int(index)))
