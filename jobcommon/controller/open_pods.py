"""How many pods of each job may still run, counted as they change: one pod event costs the same whatever the job's size."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from jobcommon.api.pod import PodView
from jobcommon.cache.store import Change
from jobcommon.reconcile.ending import is_over


@dataclass(slots=True)
class OpenPods:
    """The number of pods that are not over, by the UID of their job.

    It tells when to hurry, and nothing is decided by it: the final state of a deleted pod may differ from the one that was
    counted. A look at all pods of a job puts its number right.
    """

    _counts: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many jobs are counted."""
        return len(self._counts)

    def count(self, uid: str, pods: Iterable[PodView]) -> None:
        """Count the pods of job `uid` afresh."""
        self._counts[uid] = sum(not is_over(pod) for pod in pods)

    def take(self, change: Change[PodView]) -> bool:
        """Take in a change. Returns whether it was the end of the job's last open pod. Jobs never counted are left out."""
        pod = change.new or change.old
        if pod is None or pod.owner is None or pod.owner.uid not in self._counts:
            return False
        before = change.old is not None and not is_over(change.old)
        after = change.new is not None and not is_over(change.new)
        if before == after:
            return False
        self._counts[pod.owner.uid] += after - before
        return before and self._counts[pod.owner.uid] <= 0

    def settled(self, uid: str) -> bool:
        """Whether no pod of job `uid` may still run, as far as is known."""
        return self._counts.get(uid, 1) <= 0

    def forget(self, uid: str) -> None:
        """Drop everything about job `uid`."""
        self._counts.pop(uid, None)
