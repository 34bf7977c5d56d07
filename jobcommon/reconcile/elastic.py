"""The size of a job whose replicas are restarted together: an attempt of another size, as its user or the nodes ask for it.

All programs of an attempt know of the same number of replicas. A resize is a new attempt, which is recorded first like any
other, and charges nothing. With `runPolicy.elastic` an attempt leaves out the replicas that find no node. Their pods ask for
nodes again later, as spare ones: the image of a spare pod cannot be parsed, so the kubelet binds it and starts nothing. When it
has a node, an attempt of the larger size begins, in which the pod is started like any other that is restarted in place.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from jobcommon.api import labels
from jobcommon.api.job import Elasticity
from jobcommon.api.replica import Replica
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import format_moment, parse_time, trusted
from jobcommon.framework import Job
from jobcommon.manifests.children import CORE
from jobcommon.manifests.size import elastic_of, fixed_counts, named, size_text, within_bounds
from jobcommon.reconcile import in_place, limits
from jobcommon.reconcile.intents import Course, StopPod
from jobcommon.reconcile.plan import Create
from jobcommon.reconcile.rendering import Note, Why
from jobcommon.reconcile.slots import Slot, is_spare
from jobcommon.reconcile.view import Lifecycle, NewAttempt, Proposal, Remark, View, Wake

SHRINK_AFTER = 60.0
GROW_AFTER = 600.0
CHECKPOINT = "checkpoint"
"""The reported metric that names the last checkpoint."""


class Elastic(Lifecycle):
    """The size of a job, in one pass."""

    fields = ("attempt_replicas", "last_resize_time", "awaited_checkpoint")

    def __init__(self, view: View) -> None:
        self._situation, self._job = view, view.job
        self._kind = view.framework.scaled_type

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return job.restarts_together or bool(job.status.attempt_replicas)

    @cached_property
    def _policy(self) -> Elasticity | None:
        """The policy by which the job is resized by itself. Not once a replica has succeeded, which would have to run again."""
        done = any(self._situation.facts.entered.succeeded.values())
        return elastic_of(self._situation.framework, self._job) if self._job.status.attempt_replicas and not done else None

    def propose(self) -> Iterable[NewAttempt]:
        """The resize that is due."""
        return [NewAttempt(cause)] if (cause := self._resize()) is not None else []

    def _resize(self) -> str | None:
        """The resize that is due."""
        recorded = self._job.status.attempt_replicas
        if not self._job.restarts_together or self._situation.start_time is None:
            return None
        if not recorded:
            # The pods were made before the size was on record, and the spec has changed in between. Those that were made before
            # restartScope Job have no size: they know of another one if some are missing or too many.
            situation = self._situation
            other = {slot.pod.annotations.get(labels.SIZE, "") for slot in situation.slots.wanted.values()}
            other -= {size_text(situation.framework, self._job)}
            if not (limits.is_started(self._job) and (situation.missing or situation.slots.surplus)):
                other -= {""}
            return f"it is resized: its pods belong to a job with {max(other) or 'other replicas'}" if other else None
        return self._cause(self._present, self._next)

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """The size of the attempt that the status is of."""
        job, before = self._job, self._job.status.attempt_replicas
        at, awaited = job.status.last_resize_time, None
        if not job.restarts_together or self._situation.start_time is None or status.has(ConditionType.SUSPENDED):
            size: Mapping[str, int] = {}
        elif status.attempt == job.status.attempt and before:
            size, awaited = before, self._awaited
        else:
            size = self._next
            at = format_moment(self._situation.now) if before and self._cause(before, size) else at
        return {"attempt_replicas": dict(size), "last_resize_time": at, "awaited_checkpoint": awaited}

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Ask for nodes again for the replicas that are left out, and stop spare pods that are not needed or have ended."""
        yield from (Wake(at) for at in self.due if at is not None)
        if course is not Course.GO_ON:
            return
        slots, left_out = self._situation.slots, self._left_out
        there = {slot.replica for slot in slots.spare}
        yield from (
            StopPod(slot.pod.uid)
            for slot in (*slots.spare, *slots.unknown)
            if is_spare(slot.pod) and not (slot.replica in left_out and slot.stays)
        )
        yield from (self._create(replica) for replica in left_out if replica not in there)
        have, asked = self._job.count(self._kind), self._job.asked_of(self._kind)
        if self._policy is not None and have < asked:
            # The job is smaller than it is to be.
            quota = f", and has quota for {self._most}" if self._most < asked else ""
            yield Remark(ConditionType.RUNNING, Note(f"with {have} of {asked} {named(self._kind)}{quota}"))

    def _create(self, replica: Replica) -> Create:
        manifest = in_place.spare(self._job, self._situation.pod(replica))
        return Create(CORE, "pods", self._job.pod_name(replica), manifest, replica_type=replica.type)

    @property
    def due(self) -> tuple[float | None, float | None]:
        """When it can be resized next, to fewer replicas and to more; None if it cannot."""
        return self._shrinks_at, self._grows_at

    # -- the size of the next attempt -------------------------------------------------------------------------------

    @cached_property
    def _present(self) -> Mapping[str, int]:
        gone = {kind: n for kind, n in self._job.status.attempt_replicas.items() if kind not in self._job.replica_specs}
        return {**gone, **fixed_counts(self._situation.framework, self._job)}

    @cached_property
    def _most(self) -> int:
        """The number that is asked for, as far as the job may have it."""
        return self._situation.facts.most(self._kind)

    @cached_property
    def _next(self) -> Mapping[str, int]:
        """The size that a new attempt has."""
        job = self._job
        asked = fixed_counts(self._situation.framework, job, {kind: job.asked_of(kind) for kind in job.replica_specs})
        if elastic_of(self._situation.framework, job) is None:
            return asked
        have, wanted = job.count(self._kind), self._most
        if wanted > have:
            wanted = have + len(self._placed)
        if self._shrinks_at is not None and self._situation.now >= self._shrinks_at and self._smaller < min(have, wanted):
            wanted = self._smaller
        return {**asked, self._kind: wanted}

    def _cause(self, before: Mapping[str, int], after: Mapping[str, int]) -> str | None:
        """The resize as a part of a sentence; None if nothing changes."""
        pairs = ((kind, max(before.get(kind, 0), 0), after.get(kind, 0)) for kind in {**before, **after})
        changes = [(kind, old, new) for kind, old, new in pairs if old != new]
        if not changes:
            return None
        text = " and ".join(f"from {old} to {new} {named(kind)}" for kind, old, new in changes)
        asked = self._job.asked_of(self._kind) if self._policy is not None else None
        (kind, old, new), *_ = changes
        if asked is None or kind != self._kind or (new == asked and new < old):
            return f"it is resized {text}"
        if new > old:
            return f"it is resized {text}, for which there are nodes"
        lost = ", ".join(str(replica) for replica, _ in self._missing[:3])
        more = f" and {len(self._missing) - 3} more" if len(self._missing) > 3 else ""
        return f"it is resized {text}: {lost}{more} found no node for {self._shrink_after:g} s"

    # -- shrinking --------------------------------------------------------------------------------------------------

    @cached_property
    def _missing(self) -> Sequence[tuple[Replica, float]]:
        """The replicas without a node, and since when (seconds since the epoch)."""
        situation, status = self._situation, self._job.status
        times = (
            trusted(parse_time(at), situation.now, self._shrink_after) for at in (status.start_time, status.last_restart_time)
        )
        began = max((time for time in times if time is not None), default=situation.now)
        waits = ((replica, wait) for replica, wait in situation.without_node.items() if wait.why is Why.NO_ROOM)
        ours = (
            (r, max(wait.since or began, began))
            for r, wait in waits
            if r.type == self._kind and r.index < self._job.count(self._kind)
        )
        return sorted(ours, key=lambda entry: entry[0].index)

    @cached_property
    def _shrinks_at(self) -> float | None:
        """When those without a node are left out; None if all have one, or none can be left out."""
        if self._policy is None or not self._missing or self._smaller >= self._job.count(self._kind):
            return None
        return min(since for _, since in self._missing) + self._shrink_after

    @property
    def _shrink_after(self) -> float:
        seconds = self._policy.shrink_after_seconds if self._policy is not None else None
        return SHRINK_AFTER if seconds is None else float(seconds)

    @cached_property
    def _smaller(self) -> int:
        """The number of replicas without those that have no node."""
        have = self._job.count(self._kind)
        # The name of a pod on a node that is silent cannot be had again.
        ours = (slot for slot in self._situation.slots.ours if slot.replica.type == self._kind)
        count = min([have - len(self._missing), *(s.replica.index for s in ours if self._silent_since(s) is not None)])
        return within_bounds(self._policy, count) if self._policy is not None else have

    def _silent_since(self, slot: Slot) -> float | None:
        """Since when a pod should have been removed by its kubelet; None if that is not due."""
        due = slot.removal_due
        return due if due is not None and due <= self._situation.now else None

    # -- growing ----------------------------------------------------------------------------------------------------

    @cached_property
    def _grows_at(self) -> float | None:
        """From when on the job may grow; None if it is as large as it is to be, or does not run whole."""
        situation, job = self._situation, self._job
        if self._policy is None or self._most <= job.count(self._kind):
            return None
        seconds = self._policy.grow_after_seconds
        after = GROW_AFTER if seconds is None else float(seconds)
        last = trusted(parse_time(job.status.last_resize_time), situation.now, after)
        return 0.0 if last is None else last + after

    @cached_property
    def _left_out(self) -> Sequence[Replica]:
        """The replicas for which nodes are asked for: beyond the present size, while all within it have one."""
        job, situation = self._job, self._situation
        if (
            self._grows_at is None
            or situation.now < self._grows_at
            or self._missing
            or situation.slots.earlier
            or situation.keeps_attempt
        ):
            return ()
        return [Replica(self._kind, index) for index in range(job.count(self._kind), self._most)]

    @cached_property
    def _nodes_found(self) -> Sequence[Replica]:
        """Those of them that can join, in order: all that have a node, once it is known that the others find none."""
        spare = {slot.replica: slot for slot in self._situation.slots.spare if slot.stays}
        found: list[Replica] = []
        for replica in self._left_out:
            slot = spare.get(replica)
            # Of a pod that has just been bound it is known what can be restarted in place when its kubelet has seen it.
            if slot is None or not (slot.pod.containers or slot.pod.unschedulable):
                return ()
            found += [replica] if slot.pod.containers and len(found) == replica.index - self._job.count(self._kind) else []
        return found

    @cached_property
    def _placed(self) -> Sequence[Replica]:
        """Those that join now: after the next checkpoint, if the program reports them."""
        reported, awaited = self._checkpoint, self._job.status.awaited_checkpoint
        return self._nodes_found if reported is None or (awaited is not None and reported != awaited) else ()

    @property
    def _awaited(self) -> str | None:
        """The checkpoint after which the job waits for another one, to grow."""
        if not self._nodes_found or self._placed:
            return None
        return self._job.status.awaited_checkpoint or self._checkpoint

    @property
    def _checkpoint(self) -> str | None:
        report = self._job.status.trainer_status
        return next((m.value for m in (report.metrics if report is not None else None) or () if m.name == CHECKPOINT), None)
