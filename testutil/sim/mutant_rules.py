"""Each of the rules R1-R19 (docs/rules.md) taken out. R20 is held by the linter and by every replay."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from jobcommon.api.status import JobStatus
from jobcommon.api.timestamp import format_time
from jobcommon.api.view import Identity
from jobcommon.cache.delta import Key, Removed, Upserted
from jobcommon.cache.store import Change, ChangeKind, Store
from jobcommon.client import objects, transport
from jobcommon.client.errors import StatusError, TransportError
from jobcommon.client.request import JSON_PATCH, Request
from jobcommon.controller import job_controller as controller
from jobcommon.controller import refusals, workqueue
from jobcommon.controller.barrier import Barrier
from jobcommon.controller.expectations import Expectations
from jobcommon.controller.job_controller import JobController, Moment
from jobcommon.controller.job_state import JobState
from jobcommon.controller.orphans import left_behind
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.framework import Job
from jobcommon.reconcile import accounting, cleanup, compose, decision, retirement, slots
from jobcommon.reconcile.slots import Slots
from jobcommon.runtime import executor
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.leader import LeaderElector
from jobcommon.runtime.manager import Manager
from jobcommon.runtime.recheck import Recheck
from jobcommon.runtime.term import Term
from jobcommon.runtime.writes import status_write
from jobcommon.testutil.sim.election import RETURN, SCENARIO
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.mutation import Mutant


def _nothing(*_: Any, **__: Any) -> tuple[()]:
    return ()


def _no_expiry(*_: Any) -> None:
    return


async def _yes(*_: Any) -> bool:
    return True


_execute = Executor.execute


async def _without_a_live_read(self: Executor, work: Work) -> Result:
    return await _execute(self, replace(work, plan=replace(work.plan, verify_live=False)))


NO_BARRIER = ((Barrier, "behind", _nothing),)
NO_EXPECTATIONS = ((Expectations, "next_expiry", _no_expiry),)
NO_SECOND_LOOK = (
    (Executor, "execute", _without_a_live_read),
    (Recheck, "recent", _yes),
    (Recheck, "now", _yes),
)
ASKED_TWICE = (*NO_BARRIER, *NO_EXPECTATIONS)


def _by_name(path: str, *_: object) -> Request:
    return Request("DELETE", path, body=msgspec.json.encode({"propagationPolicy": "Background"}))


def blind_status_write(raw: Mapping[str, Any], plural: str, status: Mapping[str, Any]) -> Request:
    """A patch without preconditions, of whatever has the name now."""
    patch = [{"op": "add", "path": "/status", "value": status}]
    return Request("PATCH", status_write(raw, plural, status).path, body=msgspec.json.encode(patch), content_type=JSON_PATCH)


_observe = JobController.observe


def _owned_by_name(self: JobController, cached: Any, named: Any, state: Any, moment: Any) -> Any:
    """Pods are ours when their owner has our name."""
    seen = _observe(self, cached, named, state, moment)
    old = left_behind(self.framework.kind, named, cached.uid)
    return replace(seen, pods=(*seen.pods, *old), predecessors=frozenset())


async def _in_its_own_time(_clock: Clock, what: Any, _until: float) -> None:
    await what


def _always(*_: object) -> bool:
    return True


_make_drivers = Manager.make_drivers


async def _with_old_caches(self: Manager) -> list[Driver]:
    drivers = await _make_drivers(self)
    old: dict[tuple[str, str], Any] = vars(self).setdefault("stores", {})
    for driver in drivers:
        controller = driver.controller
        for name, informer in controller.informers.items():
            key = controller.framework.name, name
            for cached in old[key].all() if key in old else ():
                informer.store.apply(Upserted(cached))
            old[key] = informer.store
        controller.resync()
    return drivers


async def _without_a_wait(self: Term, *_: object) -> None:
    self.drained = True


NO_FENCE = ((LeaderElector, "held", _always), (Clock, "bounded", _in_its_own_time))


_retire = retirement.retire_recorded


def _not_recorded_first(job: Job, slots: Slots, now: float, blocked: Any) -> Any:
    """Ended pods are deleted in the reconcile that observes them, at the same time as they are recorded."""
    gone = accounting.account_for_pods(job, slots).entries
    actions, delays = _retire(job, slots, now, blocked)
    return [*cleanup.stop_pods(gone, "to be replaced"), *actions], delays


def _none_succeeded(job: Job) -> dict[str, frozenset[int]]:
    return dict.fromkeys(job.replica_specs, frozenset())


async def _no_answer_is_a_success(self: Executor, work: Work) -> Result:
    result = await _execute(self, work)
    if isinstance(result.status_error, TransportError):
        result = replace(result, status_version="0", status_error=None)
    return replace(result, outcomes=tuple(map(_applied_if_without_answer, result.outcomes)))


def _applied_if_without_answer(outcome: ActionResult) -> ActionResult:
    return ActionResult(outcome.action, Effect.APPLIED) if isinstance(outcome.error, TransportError) else outcome


_apply = Store.apply


def _same_name_same_object(self: Store[Any], delta: Any) -> list[Change[Any]]:
    """The deletion of an object and the creation of its successor become one update."""
    changes: list[Change[Any]] = []
    for change in _apply(self, delta):
        before = changes[-1] if changes else None
        if before is not None and before.kind is ChangeKind.DELETED and _key(before.old) == _key(change.new):
            changes[-1] = Change(ChangeKind.UPDATED, before.old, change.new)
        else:
            changes.append(change)
    return changes


def _key(known: Any) -> Key | None:
    return (known.namespace, known.name) if known is not None else None


async def _no_status_after_a_failure(self: Executor, work: Work) -> Any:
    """The first failing create ends everything, the other replica types and the status write."""
    first, *others = _types(work)
    del others
    found = await _execute(self, replace(work, plan=replace(work.plan, actions=first, status=None)))
    if found.stale or any(o.effect in (Effect.REFUSED, Effect.NAME_CONFLICT, Effect.SKIPPED) for o in found.outcomes):
        return found
    left = tuple(action for action in work.plan.actions if action not in first)
    rest = await _execute(self, replace(work, plan=replace(work.plan, actions=left, verify_live=False)))
    return replace(rest, outcomes=(*found.outcomes, *rest.outcomes))


def _types(work: Work) -> tuple[tuple[Any, ...], ...]:
    actions = work.plan.actions
    return actions[:2], actions[2:]


_begin = JobController.begin


def _cache_is_changed(self: JobController, moment: Moment) -> Work | None:
    """What was decided is put into the cached object before it is written, and is not seen to be missing afterwards."""
    work = _begin(self, moment)
    if work is not None and work.plan.status is not None and work.raw is not None:
        store = self.informers[self.jobs].store
        cached = store.get(work.namespace, work.name)
        assert cached is not None
        changed = msgspec.json.encode({**work.raw, "status": work.plan.status.to_json()})
        store.apply(Removed(Identity(cached.namespace, cached.name, cached.uid, cached.resource_version), None))
        store.apply(Upserted(msgspec.structs.replace(cached, data=changed)))
    return work


def _at_once(*_: object) -> float:
    return 0.0


if_changed = compose.if_changed


def _by_code(*codes: int) -> Callable[[StatusError], bool]:
    return lambda error: error.code in codes


def _whenever_it_was(_state: JobState, outcome: ActionResult) -> bool:
    return refusals.answer_of(outcome) is refusals.Answer.INVALID


def _time_moves(job: Job, status: JobStatus) -> JobStatus | None:
    count = int((job.resource_version or "0")[-6:])
    return status.model_copy(update={"last_reconcile_time": format_time(1_700_000_000 + count)})


_LAGS = ("watch-lag", "coalesced", "missed-deletes", "pause", "reply-lost", "old-list")

RULES = (
    Mutant(
        "R1-delete-by-name",
        "A deletion hits whatever has the name now: a successor's pod, or one that has just succeeded.",
        ((objects, "delete", _by_name),),
        where=("*/X-ends-while-it-is-deleted",),
        faults=(),
    ),
    Mutant(
        "R2-status-without-precondition",
        "A status is merged into whatever the job is now: one that is decided on an old view takes back what was recorded.",
        ((executor, "status_write", blind_status_write),),
        where=("*/X-recreated-at-its-end",),
        faults=("watch-lag",),
    ),
    Mutant(
        "R3-no-barrier",
        "A job is decided on before the cache has our own last writes, and they are made again.",
        NO_BARRIER,
    ),
    Mutant(
        "R4-no-expectations",
        "A pod that we have deleted, and that the cache still shows, is deleted again.",
        NO_EXPECTATIONS,
        where=("*/L8-*", "*/L9-*", "*/L12-*", "*/L2-*"),
    ),
    Mutant(
        "R5-listed-first",
        "The cache is read before it is known whether it has our own writes, so both guards guard nothing.",
        ASKED_TWICE,
        pair="Asking and reading are one call without a turn of the loop between; so the mutant asks not at all.",
    ),
    Mutant(
        "R6-owned-by-name",
        "The pods of a deleted job of the same name count for its successor, which may end by what they did.",
        ((JobController, "observe", _owned_by_name),),
        where=("*/L11-*",),
    ),
    Mutant(
        "R7-no-second-look",
        "Pods are created on an old view of a job that is further on, and run what is done.",
        (*NO_SECOND_LOOK, *ASKED_TWICE),
        where=("*/L12-pod-gc-after-success", "*/L7a-*", "*/L8-*", "*/L10-*"),
        faults=("watch-lag", "two-operators", "reply-lost", "pause", "coalesced"),
        by=("rerun-after-success", "pod-for-finished-job", "run-count", "two-live-pods", "summary"),
        pair="One operator's own writes are held back by the barrier as well (R3, R4).",
    ),
    Mutant(
        "R8-no-fence",
        "A leader that stood still or was cut off goes on to write when another leads.",
        NO_FENCE,
        where=(SCENARIO,),
        elects=("partition", "pause"),
    ),
    Mutant(
        "R8-old-caches",
        "A leader that comes back decides on what it cached in its term before, as if nothing had happened since.",
        ((Manager, "make_drivers", _with_old_caches), (JobController, "synced", property(_always)), *NO_SECOND_LOOK),
        where=("mpi/L2-*", "mpi/L12-*", "mpi/L1-*"),
        elects=(RETURN,),
        pair="The live read of the job before a create finds most of it (R7); so that is taken out, too.",
    ),
    Mutant(
        "R8-released-in-mid-write",
        "The lease is released while writes are in flight, and they are stored when another replica leads.",
        ((Term, "drain", _without_a_wait),),
        where=(SCENARIO,),
        elects=("graceful",),
        always=(Fault("slow-writes", at=0.0, seconds=60.0, value="6"),),
    ),
    Mutant(
        "R9-act-then-record",
        "A failed pod is deleted before its failure is on record; when the record fails, the run was for free.",
        ((decision, "retire_recorded", _not_recorded_first),),
        where=("*/L2-*", "*/L4-*", "*/L12-*"),
    ),
    Mutant(
        "R10-success-forgotten",
        "That a slot has succeeded is known by its pod alone, so it runs again when the pod is gone.",
        ((accounting, "recorded_success", _none_succeeded), (slots, "recorded_success", _none_succeeded)),
        where=("*/all-workers", "*/workers-only", "*/worker-1-first"),
        faults=(),
        always=(Fault("pod-gc", at=0.5, seconds=120.0),),
        pair="A pod whose success is not on record keeps our finalizer (R9) and cannot vanish; here the finalizer is removed.",
    ),
    Mutant(
        "R11-the-end-is-not-final",
        "A finished job is decided on like any other, so it may begin again.",
        ((JobStatus, "finished", property(lambda _: False)),),
        where=("*/L7*", "*/L3-*", "*/L1-*", "*/L5-*"),
    ),
    Mutant(
        "R12-no-answer-is-a-success",
        "A write without an answer is assumed to be done; if it never arrived, it is not repeated.",
        ((Executor, "execute", _no_answer_is_a_success),),
        faults=("partition",),
    ),
    Mutant(
        "R13-one-update-for-two-objects",
        "A job or pod that was deleted and created again between two reconciles is treated as one and the same.",
        ((Store, "apply", _same_name_same_object),),
        where=("*/L11-*", "*/L10-*"),
        faults=("coalesced", "missed-deletes"),
    ),
    Mutant(
        "R14-back-off-without-a-cap",
        "The back-off grows to a thousand seconds, so after an outage a job waits for a quarter of an hour.",
        ((controller, "WorkQueue", lambda random, **more: workqueue.WorkQueue(random, max_delay=1000.0, **more)),),
        where=("*/L8-*", "*/L2-*", "*/L9-*"),
        faults=(),
        always=(Fault("forbidden", write=6, seconds=900.0),),
    ),
    Mutant(
        "R15-first-error-ends-all",
        "One refused create keeps the other replica types and the status from being written.",
        ((Executor, "execute", _no_status_after_a_failure),),
        where=("*/X-name-taken",),
    ),
    Mutant(
        "R16-a-full-quota-fails-the-job",
        "403 is taken for the spec's fault, so a job fails because the platform has no room at the moment.",
        ((refusals, "is_own_fault", _by_code(400, 403, 413, 422)),),
        where=("*/L15-*",),
    ),
    Mutant(
        "R16-admission-fails-the-job",
        "422 is taken for the spec's fault whatever its source, so a policy that refuses a pod for a moment fails the job.",
        ((refusals, "is_own_fault", _by_code(400, 413, 422)),),
        where=("*/L1-*",),
        faults=(),
        always=(Fault("admission-refused", write=0, seconds=20.0, value="422"),),
    ),
    Mutant(
        "R16-a-refused-replacement-fails-the-job",
        "A job whose pods were accepted before is failed because the one that replaces a pod is refused for a moment.",
        ((refusals, "is_own_fault", _by_code(400, 413, 422)), (JobState, "is_final", _whenever_it_was)),
        where=("*/L2-retryable-exit",),
        faults=(),
        always=(Fault("admission-refused", at=5.0, seconds=30.0, value="400"),),
    ),
    Mutant(
        "R17-cache-changed-in-place",
        "The decision is put into the cached object; when its write fails, the loss is not noticed.",
        ((JobController, "begin", _cache_is_changed),),
        where=("*/L2-retryable-exit", "*/L2-worker-retryable"),
        faults=("conflict", "server-error"),
    ),
    Mutant(
        "R18-retry-after-ignored",
        "A server that answers Retry-After gets all requests again at once, which overloads it further.",
        ((transport, "retry_after", _at_once),),
        faults=("throttled",),
    ),
    Mutant(
        "R19-written-when-nothing-changed",
        "Every reconcile of a job changes a time in its status, which causes the next reconcile: a hot loop.",
        ((compose, "if_changed", _time_moves),),
        where=("*/X-runs-on",),
        faults=(),
    ),
)
