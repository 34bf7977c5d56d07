"""Orphans: pods of a deleted job, whose name a new job may have by now."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from jobcommon.api import labels
from jobcommon.api.pod import PodView
from jobcommon.api.view import ObjectView
from jobcommon.controller.job_state import JobState
from jobcommon.controller.moment import Moment
from jobcommon.controller.result import Result, Work
from jobcommon.controller.workqueue import backoff
from jobcommon.framework import FINALIZER, Framework


@dataclass(slots=True)
class OrphanState:
    """What was refused and emitted for the orphans of one deleted job, which are left alone `until` (monotonic seconds)."""

    until: float = 0.0
    emitted: dict[tuple[str, str], None] = field(default_factory=dict)
    _state: JobState = field(default_factory=JobState)
    _failures: int = 0

    def finish(self, work: Work, result: Result, moment: Moment, random: Callable[[], float]) -> bool:
        """Record the result of work on them. Returns whether they have to wait. `random` gives the jitter of their back-off."""
        now, again = moment.monotonic, self._state.finish(work, result, moment, ())
        soon = now + backoff(self._failures, random()) if again.failed else now
        self._failures = self._failures + 1 if again.failed else 0
        self.until = max(soon, again.at or now, self._state.asked_until)
        return again.failed or self.until > now


def job_keys(child: PodView | ObjectView) -> tuple[tuple[str, str], ...]:
    """The keys (namespace, name) of the jobs to reconcile for an object: that of its owner.

    A pod with our finalizer and without an owner has the name in its label. The garbage collector removes the owner reference
    when a job is deleted with ``--cascade=orphan``, and only this controller removes the finalizer. A Workload that others made
    for a job has the name in its label, too.
    """
    if child.owner is not None:
        return ((child.namespace, child.owner.name),)
    if isinstance(child, PodView) and FINALIZER in child.finalizers:
        return ((child.namespace, child.labels.get(labels.JOB_NAME) or child.name),)
    if isinstance(child, ObjectView) and labels.JOB_NAME in child.labels:
        return ((child.namespace, child.labels[labels.JOB_NAME]),)
    return ()


def owner_keys(child: PodView | ObjectView) -> tuple[tuple[str, str], ...]:
    """The namespace and UID of its controller owner, if it has one.

    An owner is in the namespace of what it owns. A reference to one elsewhere is a claim that anybody may make who can read it.
    """
    return ((child.namespace, child.owner.uid),) if child.owner is not None else ()


def is_made_by(frameworks: Collection[Framework], pod: PodView) -> bool:
    """Whether a pod with our finalizer is one of these operators: by its owner, without one by its label, else of any."""
    kinds = [framework.kind for framework in frameworks]
    names = [name for framework in frameworks for name in (framework.operator_name, *framework.former_controllers)]
    label = pod.labels.get(labels.OPERATOR_NAME)
    made = pod.owner.kind in kinds if pod.owner is not None else label is None or label in names
    return made and FINALIZER in pod.finalizers


def left_behind(kind: str, named: Iterable[PodView], uid: str) -> list[PodView]:
    """Of the pods whose job has a certain name, those of a job of this kind with a UID other than `uid`, or of no job."""
    return [pod for pod in named if pod.owner is None or (pod.owner.kind == kind and pod.owner.uid != uid)]


def orphans_by_owner(left: Iterable[PodView]) -> dict[str, list[PodView]]:
    """Of the pods `left_behind`, those that still carry our finalizer, by the UID of the deleted job, "" without an owner."""
    found: dict[str, list[PodView]] = {}
    for pod in left:
        if FINALIZER in pod.finalizers:
            found.setdefault(pod.owner.uid if pod.owner is not None else "", []).append(pod)
    return found
