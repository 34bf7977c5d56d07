"""The members of a job whose replicas are restarted together: who takes part in an attempt, as its user or the nodes ask.

All programs of an attempt know of the same members. A resize is a new attempt, which is recorded first like any other, and
charges nothing. With `runPolicy.elastic` an attempt gathers its pods before it starts a program: their images cannot be parsed,
so kubelets set them up and start nothing, and pods that are kept are stopped in the same way. When all have a node, or some
have found none for shrinkAfterSeconds, those that have one are recorded as its members, and start together. So a lost node
costs one restart. Those that are left out ask for nodes again later, as spare pods, which join by a new attempt.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from math import inf
from typing import Any

from jobcommon.api import labels, reasons
from jobcommon.api.job import Elasticity
from jobcommon.api.replica import Replica, format_indexes
from jobcommon.api.status import ConditionType, JobStatus
from jobcommon.api.timestamp import format_moment, format_time, parse_time, trusted
from jobcommon.framework import Job
from jobcommon.manifests.children import CORE
from jobcommon.manifests.size import elastic_of, fewest, fixed_counts, named, size_text
from jobcommon.reconcile import limits
from jobcommon.reconcile.in_place import InPlace, spare
from jobcommon.reconcile.intents import Course, RestartPod
from jobcommon.reconcile.plan import NORMAL, Action, Create, Event
from jobcommon.reconcile.rendering import Note, Why
from jobcommon.reconcile.slots import STARTING, Slot, holds_node, is_spare
from jobcommon.reconcile.view import Lifecycle, NewAttempt, PodShape, Proposal, Remark, View, Wake

SHRINK_AFTER = 60.0
GROW_AFTER = 600.0
CHECKPOINT = "checkpoint"
"""The reported metric that names the last checkpoint."""
_NOBODY = frozenset[int]()


class Elastic(PodShape, Lifecycle):
    """The members of a job, in one pass."""

    fields = ("attempt_replicas", "left_out", "gathering_since", "last_resize_time", "awaited_checkpoint")

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._kind = view.framework.scaled_type

    @classmethod
    def concerns(cls, job: Job) -> bool:
        """See `Feature`."""
        return job.restarts_together or bool(job.status.attempt_replicas) or job.status.gathering_since is not None

    @cached_property
    def _elastic(self) -> Elasticity | None:
        return elastic_of(self.framework, self.job)

    @cached_property
    def _policy(self) -> Elasticity | None:
        """The policy by which the job is resized by itself. Not once a replica has succeeded, which would have to run again."""
        recorded = self.job.status.attempt_replicas or self.job.is_gathering
        return self._elastic if recorded and not any(self.view.facts.entered.succeeded.values()) else None

    def propose(self) -> Iterable[NewAttempt]:
        """The resize that is due."""
        job = self.job
        # While pods are gathered, the members change without an attempt.
        if not job.restarts_together or self.view.start_time is None or job.is_gathering:
            return []
        cause = self._cause if job.status.attempt_replicas else self._of_unrecorded_pods
        return [NewAttempt(f"it is resized{cause}")] if cause else []

    @property
    def _of_unrecorded_pods(self) -> str:
        """The resize if the pods were made before the size was on record, and the spec has changed in between.

        Those that were made before restartScope Job have no size: they know of another one if some are missing or too many.
        """
        view = self.view
        other = {s.pod.annotations.get(labels.SIZE, "") for s in view.slots.wanted.values() if not is_spare(s.pod)}
        other -= {size_text(view.framework, self.job)}
        if not (limits.is_started(self.job) and (view.missing or view.slots.surplus)):
            other -= {""}
        return f": its pods belong to a job with {max(other) or 'other replicas'}" if other else ""

    def record(self, status: JobStatus) -> Mapping[str, Any]:
        """The members of the attempt that the status is of, and whether they are still gathered."""
        job, since, awaited, out = self.job, None, None, self._out
        size: Mapping[str, int] = job.status.attempt_replicas
        at = job.status.last_resize_time
        moment = format_moment(self.now)
        if not job.restarts_together or self.view.start_time is None or status.has(ConditionType.SUSPENDED):
            size, out = {}, _NOBODY
        elif status.attempt != job.status.attempt or not (size or job.is_gathering):
            counts, out = self._next
            at = moment if size and self._changes else at
            size, since = (counts, None) if self._elastic is None else (size, moment)
        elif job.is_gathering:
            out, decided = self._gathered
            at = moment if out != self._out else at
            if decided:
                counts = fixed_counts(self.framework, job)
                size = {**counts, self._kind: len(self._asked - out)} if self._kind in counts else counts
            else:
                # Nothing that counts from a time ahead of our clock would be due before that.
                since = moment if out != self._out or self._gathers_since is None else job.status.gathering_since
        else:
            awaited = self._awaited
        left_out = {self._kind: format_indexes(out)} if out and self._elastic is not None else {}
        return {
            "attempt_replicas": dict(size), "left_out": left_out, "gathering_since": since, "last_resize_time": at,
            "awaited_checkpoint": awaited,
        }  # fmt: skip

    def act(self, course: Course | None) -> Iterable[Proposal]:
        """Start the pods that are gathered, and ask for nodes again for the replicas that are left out."""
        yield from map(Wake, self._wakes())
        if course is not Course.GO_ON:
            return
        slots = self.view.slots
        for slot in (*slots.notable, *slots.spare):
            if is_spare(slot.pod) and (actions := self._use_of(slot)) is not None:
                yield RestartPod(slot.pod.uid, actions)
        # The name of a pod on a node that is silent, or of an earlier job, cannot be had yet.
        taken = {slot.pod.name for slot in (*slots.spare, *slots.earlier)} | self.observed.predecessors
        left_out = (Replica(self._kind, index) for index in self._left_out)
        yield from (self._create(replica) for replica in left_out if self.job.pod_name(replica) not in taken)
        yield from self._words()

    def _use_of(self, slot: Slot) -> Sequence[Action] | None:
        """What is done to a pod whose program has not begun; None if it is of no use.

        One that has ended stays until the next may be made.
        """
        member = self.job.has(slot.replica)
        if slot.replica.type in self.view.facts.blocked.types:
            return ()
        if not member and not (slot.replica.type == self._kind and slot.replica.index in self._left_out):
            return None
        if slot.over and not slot.deleting and self.now < self._again_at(slot):
            return ()
        if member:
            in_place = next(iter(self.view.of(InPlace)), None)
            return in_place.first_start(slot) if in_place is not None else None
        return () if slot.stays and self.now < self._tried_until(slot) else None

    def _create(self, replica: Replica) -> Create:
        manifest = self.view.pod(replica)
        return Create(CORE, "pods", self.job.pod_name(replica), manifest, replica_type=replica.type, spare=True)

    def shape(self, replica: Replica, pod: dict[str, Any]) -> dict[str, Any]:
        """The pod, as one that starts no program until its attempt has its members."""
        waits = self._elastic is not None and (self.job.is_gathering or not self.job.has(replica))
        return spare(self.job, pod) if waits else pod

    def _words(self) -> Iterable[Proposal]:
        """That the job is smaller than it is to be, or will be."""
        have, asked = self.job.count(self._kind), len(self._asked)
        if self.job.is_gathering and self.now < self._due < inf:
            yield Remark(None, Note(f"at {format_time(self._due)} it starts without those that have no node"))
        if self.job.is_gathering and self._without_room and self._gathered[0] != self._out:
            left = len(self._asked - self._gathered[0])
            text = f"attempt {self.job.attempt} begins with {left} of {asked} {named(self._kind)}: {self._no_room}"
            yield Event(NORMAL, reasons.of_kind(self.job.kind, reasons.RESTARTING), text)
        if self._policy is not None and have < asked:
            quota = f", and has quota for {self._most}" if self._most < asked else ""
            yield Remark(ConditionType.RUNNING, Note(f"with {have} of {asked} {named(self._kind)}{quota}"))

    @property
    def due(self) -> tuple[float | None, float | None]:
        """When it can be resized next, to fewer replicas and to more; None if it cannot."""
        smaller = self._smaller is not None and self._smaller > self._out
        return self._due if smaller and self._due < inf else None, self._grows_at

    def _wakes(self) -> Iterable[float]:
        """When it can be resized next, and when a spare pod is to be made anew."""
        slots = self.view.slots
        found = [self._due, *([self._grows_at] if self._grows_at is not None else []), *self._joins_at]
        for slot in (*slots.notable, *slots.earlier, *slots.spare) if self._policy is not None else ():
            found.append(slot.removal_due or inf)
            if is_spare(slot.pod):
                found.append(self._again_at(slot) if slot.over else self._tried_until(slot))
        return [at for at in found if at < inf]

    # -- the members --------------------------------------------------------------------------------------------------

    @cached_property
    def _asked(self) -> frozenset[int]:
        """The indexes that are asked for."""
        return frozenset(range(self.job.asked_of(self._kind)))

    @cached_property
    def _members(self) -> frozenset[int]:
        return frozenset(self.job.indexes(self._kind))

    @property
    def _gathers_since(self) -> float | None:
        """Since when it gathers its pods; None if it does not, or if a clock ahead of ours wrote the time."""
        return trusted(parse_time(self.job.status.gathering_since), self.now)

    @property
    def _out(self) -> frozenset[int]:
        """Who of those that are asked for is left out."""
        return self._asked - self._members

    @cached_property
    def _most(self) -> int:
        """The number that is asked for, as far as the job may have it."""
        return self.view.facts.most(self._kind)

    @cached_property
    def _next(self) -> tuple[Mapping[str, int], frozenset[int]]:
        """The size that a new attempt begins with, and who is left out of it."""
        job, framework, kind = self.job, self.framework, self._kind
        counts = fixed_counts(framework, job, {kind: job.asked_of(kind) for kind in job.replica_specs})
        if self._elastic is None:
            return counts, _NOBODY
        out = self._out
        others = any(count != job.count(other) for other, count in counts.items() if other != kind)
        if self._members - self._asked or others or not (job.status.attempt_replicas or job.is_gathering):
            # As its user asks for it, with those of the lowest index.
            out = _NOBODY
        elif not job.is_gathering:
            # After a failure those without a node are awaited first.
            lost = self._smaller if self.now >= self._due and not self.view.accounting.entries else None
            out = (out - self._joining) | (lost or _NOBODY)
        out = self._within(out)
        return {**counts, kind: len(self._asked - out)}, out

    def _within(self, out: frozenset[int]) -> frozenset[int]:
        """Who is left out so that the others are as many as the job needs at least, and may have at most."""
        least = fewest(self._elastic) if self._elastic is not None else 0
        out = out if len(self._asked - out) >= least else _NOBODY
        return out | frozenset(sorted(self._asked - out)[self._most :])

    @cached_property
    def _changes(self) -> Sequence[tuple[str, int, int]]:
        """The types of which a new attempt has other members, with their numbers before and after."""
        job, (after, out) = self.job, self._next
        gone = {kind: n for kind, n in job.status.attempt_replicas.items() if kind not in job.replica_specs}
        before = {**gone, **fixed_counts(self.framework, job)}
        pairs = ((kind, max(before.get(kind, 0), 0), after.get(kind, 0)) for kind in {**before, **after})
        others = self._kind if self._kind in after and self._members != self._asked - out else ""
        return [(kind, old, new) for kind, old, new in pairs if old != new or kind == others]

    @property
    def _cause(self) -> str:
        """The resize as a part of a sentence; "" if nothing changes."""
        if not self._changes:
            return ""
        text = " " + " and ".join(f"from {old} to {new} {named(kind)}" for kind, old, new in self._changes)
        (kind, old, new), *_ = self._changes
        if kind == self._kind and new > old and self._joining:
            return f"{text}, for which there are nodes"
        if kind == self._kind and self._smaller is not None and self._next[1] >= self._smaller > self._out:
            return f"{text}: {self._no_room}"
        return text

    @property
    def _no_room(self) -> str:
        who = sorted(self._without_room, key=lambda replica: (replica.type, replica.index))
        more = f" and {len(who) - 3} more" if len(who) > 3 else ""
        return f"no room for {', '.join(map(str, who[:3]))}{more} for {self._shrink_after:g} s"

    # -- who has no node ------------------------------------------------------------------------------------------------

    @cached_property
    def _without_room(self) -> Mapping[Replica, float]:
        """The members for which there is no room, and since when (seconds since the epoch).

        Also those whose kubelet rejects the pod, or has not set it up in time: their node does not serve them.
        """
        view, job = self.view, self.job
        began = self._gathers_since or trusted(parse_time(job.status.last_restart_time), self.now) or self.now
        waits = ((replica, wait) for replica, wait in view.without_node.items() if wait.why is Why.NO_ROOM)
        found = {replica: began if wait.since is None else wait.since for replica, wait in waits if job.has(replica)}
        for slot in view.slots.notable:
            # One that was to be deleted has ended for that: its node has not rejected it.
            rejected = not slot.deleting if slot.over else self.now >= self._tried_until(slot)
            if is_spare(slot.pod) and slot.replica not in found and rejected:
                found[slot.replica] = began if slot.over else _placed_at(slot, self.now)
        # After one has given its node away for another type, that is waited for again.
        return {r: since if r.type == self._kind else max(since, began) for r, since in found.items()}

    @cached_property
    def _placed(self) -> Mapping[Replica, float]:
        """The members whose node can run them, and since when."""
        view, now, absent = self.view, self.now, self._without_room
        stopped = {uid for uid, restart in view.change.in_place.items() if restart.stopped}
        found = {slot.replica: _placed_at(slot, now) for slot in view.slots.earlier if slot.pod.uid in stopped}
        for slot in view.slots.wanted.values():
            if holds_node(slot.pod) if is_spare(slot.pod) else slot.state is not STARTING or slot.pod.scheduled:
                found[slot.replica] = _placed_at(slot, now)
        return {replica: at for replica, at in found.items() if replica not in absent}

    @cached_property
    def _unclear(self) -> bool:
        """Whether it is still to be seen if some of those that are gathered have a node."""
        view, missing = self.view, {*self.view.missing}
        done = view.accounting.succeeded
        others = (r for r in self.job.replicas if r not in self._placed and r not in self._without_room)
        return any(r not in missing or view.gate(r) is None for r in others if r.index not in done[r.type])

    @property
    def _shrink_after(self) -> float:
        return float((self._policy or Elasticity()).shrink_after_seconds or SHRINK_AFTER)

    @cached_property
    def _due(self) -> float:
        """When those without a node are left out; infinity while all have one, or too few have."""
        if self._policy is None or not self._without_room or self._smaller is None:
            return inf
        # When the last of the fewest with which it goes on has got its node, the others may be about to.
        placed = [at for r, at in self._placed.items() if r.type == self._kind] if self.job.is_gathering else []
        enough = sorted(placed)[fewest(self._policy) - 1 :][:1]
        return max([min(self._without_room.values()), *enough]) + self._shrink_after

    @cached_property
    def _smaller(self) -> frozenset[int] | None:
        """Who is left out once those without a node are; None if too few remain.

        For a replica of another type, of which one is needed, the last of those that have a node gives way.
        """
        if self._policy is None:
            return None
        rest = self._members - {replica.index for replica in self._without_room if replica.type == self._kind}
        if any(replica.type != self._kind for replica in self._without_room):
            rest -= {max(rest, default=0)}
        return self._asked - rest if len(rest) >= fewest(self._policy) else None

    @cached_property
    def _gathered(self) -> tuple[frozenset[int], bool]:
        """Who is left out of the attempt, and whether that is decided. It is not while another type waits for its room."""
        if (out := self._within(self._out)) != self._out:
            return out, False
        if self._unclear or not self._without_room:
            return self._out, not self._unclear
        if self._smaller is None or self.now < self._due:
            return self._out, False
        return self._smaller, all(replica.type == self._kind for replica in self._without_room)

    # -- growing --------------------------------------------------------------------------------------------------------

    @property
    def _grow_after(self) -> float:
        return float((self._policy or Elasticity()).grow_after_seconds or GROW_AFTER)

    @cached_property
    def _grows_at(self) -> float | None:
        """From when on the job may grow; None if it is as large as it may be, or gathers its pods."""
        job = self.job
        if self._policy is None or job.is_gathering or min(self._most, len(self._asked)) <= len(self._members):
            return None
        last = trusted(parse_time(job.status.last_resize_time), self.now, self._grow_after)
        return 0.0 if last is None else last + self._grow_after

    @cached_property
    def _left_out(self) -> Sequence[int]:
        """The indexes for which nodes are asked for, while all members have one."""
        view = self.view
        if self._grows_at is None or self.now < self._grows_at or self._without_room:
            return ()
        earlier = view.slots.earlier
        waits = view.missing or view.keeps_attempt or any(view.now < (s.removal_due or inf) for s in earlier)
        if waits or not all(slot.pod.scheduled for slot in view.slots.living):
            return ()
        there = {slot.replica.index for slot in view.slots.spare if slot.pod.scheduled and slot.stays}
        # The name of a pod on a node that is silent cannot be had again.
        free = self._out - {slot.replica.index for slot in earlier if slot.replica.type == self._kind}
        return sorted(sorted(free, key=lambda i: (i not in there, i))[: self._most - len(self._members)])

    @cached_property
    def _ready(self) -> Mapping[int, float]:
        """Those of them whose pod has a node that serves it, and since when."""
        spare = (s for s in self.view.slots.spare if s.replica.type == self._kind and s.replica.index in self._left_out)
        return {s.replica.index: _placed_at(s, self.now) for s in spare if s.stays and holds_node(s.pod)}

    @cached_property
    def _joins_at(self) -> Sequence[float]:
        """When these join; nothing if there are none. At once if that are all, and after the next checkpoint of a program that
        reports them, for which they wait no longer than for a growth.
        """
        if not self._ready:
            return ()
        first = min(self._ready.values())
        at = 0.0 if len(self._ready) == len(self._left_out) else first + self._shrink_after
        return [max(at, first + self._grow_after if self._awaits_checkpoint else 0.0)]

    @cached_property
    def _joining(self) -> frozenset[int]:
        """Those that join now."""
        return frozenset(self._ready) if any(at <= self.now for at in self._joins_at) else _NOBODY

    @property
    def _awaits_checkpoint(self) -> bool:
        """Whether no checkpoint has been reported since the one on record. A lower number is of a rank that lags behind."""
        before, reported = self.job.status.awaited_checkpoint or "", self._checkpoint
        if not (before and reported) or before == reported:
            return bool(before or reported)
        return before.isdecimal() and reported.isdecimal() and (len(reported), reported) < (len(before), before)

    @property
    def _awaited(self) -> str | None:
        """The checkpoint after which the job waits for another one, to grow."""
        waits = self._ready and not self._joining and self._awaits_checkpoint
        return self.job.status.awaited_checkpoint or self._checkpoint if waits else None

    @property
    def _checkpoint(self) -> str:
        report = self.job.status.trainer_status
        return report.metric(CHECKPOINT) if report is not None else ""

    def _tried_until(self, slot: Slot) -> float:
        """Until when a node may set up a pod that starts nothing (seconds since the epoch); infinity for one that has."""
        if not slot.pod.scheduled or holds_node(slot.pod):
            return inf
        placed = _placed_at(slot, self.now) or self.now
        return placed + (self._shrink_after if self.job.has(slot.replica) else self._grow_after)

    def _again_at(self, slot: Slot) -> float:
        """When the ended pod of a program that has not begun is made anew (seconds since the epoch).

        The pauses grow with the time since when such pods are made, up to that of a restart, which a job that was never resized
        has at once. They count from when the pod got its node: the node's own clock may be wrong.
        """
        since = next((at for at in (self._gathers_since, self._grows_at) if at is not None), self.now)
        ended = _placed_at(slot, self.now) or self.now
        return ended + min(max(ended - since, limits.FIRST_RESTART_DELAY), limits.MAX_RESTART_DELAY)


def _placed_at(slot: Slot, now: float) -> float:
    """When the pod got its node, as far as that is known (seconds since the epoch)."""
    pod = slot.pod
    return trusted(pod.creation_time if pod.scheduled_time is None else pod.scheduled_time, now) or 0.0
