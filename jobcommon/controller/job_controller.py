"""The job controller of one framework, without I/O: a driver feeds it events and carries out its plans.

The driver (asyncio in production, a seeded loop in the simulator) does four things::

    batch  = controller.informers["pods"].line(data, now)      # a line of the watch
    controller.take("pods", batch)                             # -> keys in the queue
    work   = controller.begin(moment)                          # -> a plan for the next key, expectations raised
    after  = controller.finish(work, result, moment, cost)     # -> events to emit, counts for metrics

No two workers process a key at the same time. An exception in a framework's function costs its own job a back-off and does
not affect other jobs (rule R14).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from msgspec import structs

from jobcommon.api import reasons
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.text import said
from jobcommon.api.view import ObjectView
from jobcommon.cache.store import Batch, Change, ChangeKind
from jobcommon.controller.barrier import Barrier
from jobcommon.controller.caches import PODS, Caches
from jobcommon.controller.expectations import Creation, Deletion, Expectations, Expected
from jobcommon.controller.job_state import JobState, QueueLevel
from jobcommon.controller.moment import Moment as Moment  # re-exported: the drivers' clocks give it
from jobcommon.controller.orphans import OrphanState, job_keys, left_behind, orphans_by_owner
from jobcommon.controller.refusals import Answer, answer_of
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.telemetry import Telemetry, telemetry
from jobcommon.controller.unstored import Unstored
from jobcommon.controller.workqueue import WorkQueue
from jobcommon.framework import FINALIZER, Framework
from jobcommon.reconcile import plan as decide
from jobcommon.reconcile import plan_for_orphans
from jobcommon.reconcile.plan import MAX_WAKE, WARNING, Create, Delete, Event, Plan, RemoveFinalizer, Urgency

JobKey = tuple[str, str]
# The watch event for which a job waits queues it. After this many seconds it is checked whether the watch has stalled.
WATCH_CHECK_SECONDS = 10.0


@dataclass
class JobController:
    """Caches, queue and state of one framework's jobs, in one `namespace` or in all (None).

    `random` gives floats in [0, 1).
    """

    framework: Framework
    random: Callable[[], float]
    namespace: str | None = None

    def __post_init__(self) -> None:
        self.queue: WorkQueue[JobKey] = WorkQueue(
            self.random, flow=itemgetter(0), level=lambda key: self._state_and_level(key)[1], levels=len(QueueLevel)
        )
        self.expectations, self.barrier = Expectations(), Barrier()
        self.withheld = ""
        """Why this controller does not act, as another one of the kind does; then `begin` returns None."""
        self.on_lapsed: Callable[[JobKey, Sequence[Expected]], None] = lambda _, __: None
        """Called with the lapsed expectations of a job: writes of ours that no watch has shown in time."""
        self.reachable_since: Callable[[str, str], float | None] = lambda _, __: None
        """Since when (monotonic seconds) this process has taken every report of the job of that namespace and name that reached
        it; None if not known."""
        self.unstored = Unstored(f"{self.framework.plural}.{self.framework.group}", self._unstored_changed)
        self.on_unstored: Callable[[], None] = lambda: None
        """Called when the set of status fields that are not stored changes."""
        self.states: dict[str, JobState] = {}
        self.orphans: dict[JobKey, dict[str, OrphanState]] = {}
        """What is kept of orphans that were worked on, by the UID of their deleted job, until the cache shows them released."""
        self.strays: dict[JobKey, dict[str, PodView]] = {}
        """By UID the pods that have lost our labels, which no cache shows any more, until they are released (as batch Job)."""
        self.caches = Caches(self.framework, self.namespace, self.random)
        self.informers = self.caches.informers
        self._jobs = self.caches.jobs
        self._related = frozenset(kind.plural for kind in self.framework.related)
        self._shared = frozenset(name for name, one in self.caches.watches.items() if not one.owned)
        self._unwatched = tuple(kind for kind in self.framework.companion_kinds if not kind.watched)
        self._missing: tuple[bool, Mapping[str, str]] = (False, {})

    @property
    def jobs(self) -> str:
        """The name of the jobs' own resource."""
        return self.framework.plural

    @property
    def synced(self) -> bool:
        """Whether every available cache has had its first complete list. Until then `begin` returns None."""
        return self.caches.synced

    @property
    def conditions(self) -> Counter[str]:
        """How many jobs have each current condition, "" for none. Thread-safe."""
        return Counter([state.condition for state in list(self.states.values())])

    # -- events from the API server ------------------------------------------------------------------------------------

    def take(self, resource: str, batch: Batch[Any]) -> None:
        """Handle the changes that an informer returned: lower expectations and queue the jobs concerned."""
        for change in batch.changes:
            if resource == self.jobs:
                self._job_changed(change)
            elif resource in self._related:
                for view in filter(None, (change.new or change.old,)):
                    for key in self.caches.referring(resource, view):
                        self._enqueue(key, Urgency.TRANSITION)
            elif resource in self._shared:
                self._shared_changed(change)
            else:
                self._child_changed(resource, change)
        if batch.relisted is not None:
            lost = self.barrier.reset(resource, batch.relisted.resource_version, batch.relisted.requested_at)
            for job in self._jobs.all() if lost else ():
                if job.uid in lost:
                    self.queue.add((job.namespace, job.name))

    def resync(self, namespace: str = "") -> None:
        """Queue every job in the cache, of a namespace or of all."""
        for job in self._jobs.all():
            if not namespace or job.namespace == namespace:
                self.queue.add((job.namespace, job.name))

    def _shared_changed(self, change: Change[ObjectView]) -> None:
        """Queue the jobs whose features may read an object of others."""
        if (found := change.new or change.old) is not None and self.synced:
            self.resync(found.namespace)

    def _unstored_changed(self) -> None:
        """Queue every job: a status that was not stored whole may have blocked it, and its condition reports the fields."""
        self.resync()
        self.on_unstored()

    def _job_changed(self, change: Change[ObjectView]) -> None:
        if change.new is not None:
            self._enqueue((change.new.namespace, change.new.name), Urgency.TRANSITION)
        if change.kind is ChangeKind.DELETED and change.old is not None:
            self._forget(change.old.uid)
            self.queue.add((change.old.namespace, change.old.name))

    def _child_changed(self, resource: str, change: Change[Any]) -> None:
        """Lower expectations and queue the owner; if the change moves the child to another owner, queue both."""
        new, old = change.new, change.old
        expected = self._observe_expected(resource, change)
        urgency = Urgency.TRANSITION
        if resource == PODS:
            pod: PodView | None = new or old
            if change.kind is ChangeKind.DELETED and not expected and pod is not None:
                self._strayed(pod)
            if pod is not None and (state := self.states.get(self._owner_of(pod))) is not None:
                urgency = state.urgency_of(change)
        ours = (child for child in (old, new) if child and (not child.owner or child.owner.kind == self.framework.kind))
        for key in dict.fromkeys(key for child in ours for key in job_keys(child)):
            self._enqueue(key, urgency)

    def _strayed(self, pod: PodView) -> None:
        """Keep a pod that is no longer selected, or is deleted: then our finalizer was removed by us, or others.

        The last state of a deleted pod has its finalizers, too. A request for each that others have released is the price.
        """
        for key in job_keys(pod):
            ours = pod.owner is not None and pod.owner.uid in self.orphans.get(key, {})
            if FINALIZER in pod.finalizers and not (ours and pod.deletion_time is not None):
                self.strays.setdefault(key, {})[pod.uid] = structs.replace(pod, owner=None)
                self.queue.add(key)

    def _observe_expected(self, resource: str, change: Change[Any]) -> bool:
        """Lower the expectations. Returns whether a deletion was expected."""
        new, old, expected = change.new, change.old, False
        if new is not None and change.kind is ChangeKind.ADDED:
            self.expectations.lower(self._owner_of(new), Creation(resource, new.name))
        marked = new is not None and new.deletion_time is not None and not _still_held(old, new)
        if change.kind is ChangeKind.DELETED or marked:
            for child in (old, new):
                if child is not None:
                    expected |= self.expectations.lower(self._owner_of(child), Deletion(child.uid))
        return expected

    def _owner_of(self, child: PodView | ObjectView) -> str:
        """The UID of the job that it belongs to; "" if none of its namespace does."""
        job = self._jobs.get(child.namespace, child.owner.name) if child.owner is not None else None
        return job.uid if job is not None and child.owner is not None and child.owner.uid == job.uid else ""

    def _enqueue(self, key: JobKey, urgency: Urgency) -> None:
        """Queue a job at once, or for the time at which its events of that urgency are due."""
        state, level = self._state_and_level(key)
        if state is not None and (when := state.not_before(urgency)):
            self.queue.add_at(key, when)
        else:
            self.queue.add(key, level)

    # -- a plan for the next key ------------------------------------------------------------------------------------------

    def begin(self, moment: Moment) -> Work | None:
        """The plan for the next key, with its expectations raised; None if no key is ready, or the ready one must wait.

        Every Work must be passed to `finish`. If this raises, the key has been requeued with back-off already.
        """
        if not self.synced or self.withheld:
            return None
        self._notice_missing()
        while (key := self.queue.get(moment.monotonic)) is not None:
            try:
                work = self._work(key, moment)
            except Exception:
                self.queue.done(key)
                self.queue.add_rate_limited(key, moment.monotonic)
                raise
            if work is not None:
                return work
            self.queue.done(key)
        return None

    def _notice_missing(self) -> None:
        """Queue every job when a definition, of jobs or what they wait for, appears or disappears."""
        missing = (self.caches.is_missing(self.jobs), self.caches.missing)
        if missing != self._missing:
            self._missing = missing
            self.resync()

    def _work(self, key: JobKey, moment: Moment) -> Work | None:
        # Without the definition there are no jobs, whatever the cache contains: their pods are orphans.
        cached = None if self.caches.is_missing(self.jobs) else self._jobs.get(*key)
        named = self.caches.pods_of(key)
        left = left_behind(self.framework.kind, named, cached.uid if cached is not None else "")
        left += [pod for uid, pod in self.strays.get(key, {}).items() if uid not in {pod.uid for pod in named}]
        if (orphans := self._orphans_due(key, left, moment)) is not None:
            return orphans
        if cached is None:
            self.queue.forget(key)
            return None
        return None if self._must_wait(key, cached.uid, moment) else self._plan(cached, named, moment)

    def _orphans_due(self, key: JobKey, left: Iterable[PodView], moment: Moment) -> Work | None:
        """Work on the orphans of one deleted job that need not wait. Their next event queues the key again.

        Those that wait do not hold up the job that has the name now (rule R16).
        """
        orphans = orphans_by_owner(left)
        states = {uid: state for uid, state in self.orphans.pop(key, {}).items() if uid in orphans}
        if states:
            self.orphans[key] = states
        waiting = {uid: state.until for uid, state in states.items() if moment.monotonic < state.until}
        for until in waiting.values():
            self.queue.add_at(key, until)
        uid = next((uid for uid in orphans if uid not in waiting), None)
        return Work(*key, uid, plan_for_orphans(orphans[uid]), orphans_of=uid) if uid is not None else None

    def _state_and_level(self, key: JobKey) -> tuple[JobState | None, int]:
        cached = self._jobs.get(*key)
        if cached is None:
            return None, QueueLevel.RUNNING
        state = self.states.get(cached.uid)
        return state, QueueLevel.AWAITED if state is None else state.level

    def _must_wait(self, key: JobKey, uid: str, moment: Moment) -> bool:
        """Whether the caches do not show our own writes yet, or a Retry-After of the server still runs (rule R18).

        Must be called before anything is read from the caches (rule R5).
        """
        if (state := self.states.get(uid)) is not None and moment.monotonic < state.asked_until:
            self.queue.add_at(key, state.asked_until)
            return True
        if lapsed := self.expectations.lapsed(uid, moment.monotonic):
            self.on_lapsed(key, lapsed)
        if (expiry := self.expectations.next_expiry(uid)) is not None:
            self.queue.add_at(key, expiry)
            return True
        versions = self.caches.versions
        if not self.barrier.behind(uid, versions):
            return False
        for resource in self.barrier.stalled(uid, versions, moment.monotonic):
            self.informers[resource].relist()
        self.queue.add_after(key, WATCH_CHECK_SECONDS, moment.monotonic)
        return True

    def _plan(self, cached: ObjectView, named: Sequence[PodView], moment: Moment) -> Work:
        key = (cached.namespace, cached.name)
        state = self.states.setdefault(cached.uid, JobState())
        try:
            framework, job = state.read(self.framework, cached, self.caches.related_to)
            plan = decide(framework, job, self.observe(cached, named, state, moment), moment.wall)
        except Exception as error:  # a framework's function failed: this job waits, the others go on (rule R14)
            event = Event(WARNING, reasons.INTERNAL_ERROR, said(error)[:1024])
            plan = Plan(events=(event,), reason=reasons.INTERNAL_ERROR)
            return Work(*key, cached.uid, plan, error=error)
        if (due := state.decided(plan, moment.monotonic)) is not None:
            self.queue.add_at(key, due)
            return Work(*key, cached.uid, plan, job, deferred=True)
        terminating = {pod.uid for pod in named if pod.deletion_time is not None} if plan.actions else ()
        for action in plan.actions:
            if isinstance(action, Create) and action.plural in self.informers:
                self.expectations.expect(cached.uid, Creation(action.plural, action.name), moment.monotonic)
            elif isinstance(action, Delete) and action.force:
                pass  # The pod is terminating already, so no watch shows that this one took effect; repeated, it has none.
            elif isinstance(action, Delete) and action.plural in self.informers and action.plural != self.jobs:
                self.expectations.expect(cached.uid, Deletion(action.uid), moment.monotonic)
            elif isinstance(action, RemoveFinalizer) and action.uid in terminating:
                # Removing the last finalizer deletes the pod; until the cache shows that, the removal would be repeated.
                self.expectations.expect(cached.uid, Deletion(action.uid), moment.monotonic)
        raw = state.raw if plan.status is not None else None
        return Work(*key, cached.uid, plan, job, raw, active_pods=state.active_pods)

    def observe(self, cached: ObjectView, named: Sequence[PodView], state: JobState, moment: Moment) -> Observed:
        """The decision's input: the job's children and the cluster as cached. `named`: pods whose owner has the job's name."""
        pods = [pod for pod in named if pod.owner and pod.owner.uid == cached.uid]
        left = left_behind(self.framework.kind, named, cached.uid) if len(pods) < len(named) else []
        known = state.observed(pods, frozenset(pod.name for pod in left), self._unwatched, moment.monotonic)
        since = self.reachable_since(cached.namespace, cached.name)
        reachable = moment.monotonic - since if since is not None else None
        return self.caches.observed(cached, known, refusal=self.unstored.text or known.refusal, reachable_for=reachable)

    # -- results ---------------------------------------------------------------------------------------------------------------

    def finish(self, work: Work, result: Result, moment: Moment, cost: float = 0.0) -> Telemetry:
        """Record what was written, requeue the key if needed, and return the events and counts to publish.

        `cost`: the seconds that `begin` took for the plan.
        """
        key = (work.namespace, work.name)
        if (state := self.states.get(work.uid)) is not None:
            state.planned(cost, moment.monotonic)
        if not work.deferred:
            self._settle(work, result, moment)
            self._requeue(key, work, result, moment)
        self.queue.done(key, state.cooldown_until if state is not None else None)
        current = self._jobs.get(*key)
        if current is None or current.uid != work.uid:
            self._forget(work.uid)
        kept = self.states.get(work.uid) if work.orphans_of is None else self.orphans[key][work.uid]
        emitted = kept.emitted if kept is not None else {}
        return telemetry(self.framework, work, result, emitted, moment.wall)

    def _settle(self, work: Work, result: Result, moment: Moment) -> None:
        key = (work.namespace, work.name)
        tried = {id(outcome.action) for outcome in result.outcomes}
        skipped = [ActionResult(a, Effect.SKIPPED) for a in work.plan.actions if id(a) not in tried]
        for outcome in (*result.outcomes, *skipped):
            action, wrote = outcome.action, outcome.effect in (Effect.APPLIED, Effect.ALREADY_EXISTS)
            if isinstance(action, Create) and (outcome.resource_version or not wrote):
                # From here on the barrier covers the object. Without a version to compare, the expectation stays.
                self.expectations.lower(work.uid, Creation(action.plural, action.name))
            elif isinstance(action, Delete | RemoveFinalizer) and not wrote:
                self.expectations.lower(work.uid, Deletion(action.uid))
            strays = self.strays.get(key, {})
            if isinstance(action, RemoveFinalizer) and action.uid in strays and answer_of(outcome) is Answer.DONE:
                # No event follows, and the job needs another pod.
                self.queue.add(key)
                del strays[action.uid]
                if not strays:
                    del self.strays[key]
            if outcome.strayed is not None:
                self._strayed(outcome.strayed)
            # No cache ever shows the write of another resource.
            cached = action.plural in self.informers
            if wrote and outcome.resource_version and cached and not isinstance(action, Delete):
                self.barrier.wrote(work.uid, action.plural, outcome.resource_version, moment.monotonic)
        self.unstored.record(work, result)
        if result.status_version is not None:
            self.barrier.wrote(work.uid, self.jobs, result.status_version, moment.monotonic)

    def _requeue(self, key: JobKey, work: Work, result: Result, moment: Moment) -> None:
        if work.orphans_of is not None:
            orphans = self.orphans.setdefault(key, {}).setdefault(work.orphans_of, OrphanState())
            if orphans.finish(work, result, moment, self.random):
                self.queue.add(key)
            return
        state = self.states.setdefault(work.uid, JobState()) if work.job is not None else JobState()
        again = state.finish(work, result, moment, self._unwatched)
        if again.at_once:
            self.queue.add(key)
        if again.failed:
            self.queue.add_rate_limited(key, moment.monotonic)
        else:
            self.queue.forget(key)
        if again.at is not None:
            self.queue.add_at(key, again.at)
        if work.plan.wake_at is not None:
            self.queue.add_after(key, min(max(work.plan.wake_at - moment.wall, 0.0), MAX_WAKE) + 0.001, moment.monotonic)

    def _forget(self, uid: str) -> None:
        self.expectations.forget(uid)
        self.barrier.forget(uid)
        self.states.pop(uid, None)


def _still_held(old: PodView | ObjectView | None, new: PodView | ObjectView) -> bool:
    """Whether a terminating pod has changed and still has our finalizer, whose removal may be under way."""
    return isinstance(new, PodView) and FINALIZER in new.finalizers and old is not None and old.deletion_time is not None
