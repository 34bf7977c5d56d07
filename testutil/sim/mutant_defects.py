"""The reference operators' defects D1-D14, in our terms."""

from dataclasses import replace
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.job import MAX_REPLICAS
from jobcommon.api.observed import Observed
from jobcommon.api.pod import PodView
from jobcommon.api.replica import Replica
from jobcommon.cache.informer import Informer
from jobcommon.cache.store import Batch, ChangeKind
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Response
from jobcommon.controller import job_controller as controller
from jobcommon.controller.expectations import Expectations
from jobcommon.controller.job_controller import JobController, Moment
from jobcommon.controller.result import Result, Work
from jobcommon.controller.workqueue import WorkQueue
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import decision, ending, finished, limits, situation, slots
from jobcommon.reconcile.ending import Ending, Verdict
from jobcommon.reconcile.plan import Create, Plan
from jobcommon.runtime.executor import Executor
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.mutation import Mutant

_NO_EXIT_CODE = 0xBEEF


def _any_one_will_do(method: Any) -> Any:
    def observe(self: Expectations, uid: str, *child: str) -> bool:
        expected: bool = method(self, uid, *child)
        if expected:
            self.forget(uid)
        return expected

    return observe


_OBSERVED = ("observe_created", "observe_deleted")
_BY_JOB = ("expect_creation", "expect_deletion", *_OBSERVED, "creation_failed", "next_expiry", "lapsed")


def _names_only(method: Any) -> Any:
    """The expectations of all incarnations of a job are one."""
    return lambda self, _uid, *more: method(self, "", *more)


_take = JobController.take


def _reads_a_tombstone(self: JobController, resource: str, batch: Batch[Any]) -> None:
    for change in batch.changes:
        if change.kind is ChangeKind.DELETED and resource != self.jobs:
            assert change.new.owner is not None  # type: ignore[union-attr]
    _take(self, resource, batch)


def _no_services(self: JobController, resource: str, batch: Batch[Any]) -> None:
    if resource == "services":
        batch = replace(batch, changes=tuple(change for change in batch.changes if change.kind is ChangeKind.ADDED))
    _take(self, resource, batch)


async def _raises(self: Executor, work: Work) -> Result:
    result = await _execute(self, work)
    for outcome in result.outcomes:
        if isinstance(outcome.error, StatusError) and outcome.error.code != 404 and not isinstance(outcome.action, Create):
            raise AttributeError("'NoneType' object has no attribute 'resource_version'")
    return result


_execute = Executor.execute
_clean_up_finished = finished.clean_up_finished


def _nothing_without_pods(framework: Framework, job: Job, observed: Observed, found: slots.Slots, *more: Any) -> Any:
    return _clean_up_finished(framework, job, observed, found, *more) if found.ours else ([], None)


def _magic_number(pod: PodView, main: str, policy: Any) -> Ending | None:
    found = _ending_of(pod, main, policy)
    if found is None or found.exit_code is not None or found.deleted:
        return found
    return replace(found, verdict=Verdict.RETRYABLE, exit_code=_NO_EXIT_CODE)


_ending_of = ending.ending_of


def _not_at(*_: object) -> None:
    return


def _running_only(job: Job, books: Any) -> bool:
    limit = job.run_policy.backoff_limit
    return limit is not None and books.in_place > limit


_decide = decision.plan


def _no_completion_time(framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
    plan = _decide(framework, job, observed, now)
    return replace(plan, status=plan.status.model_copy(update={"completion_time": None}) if plan.status else None)


def _by_index(framework: Framework, job: Job, pods: tuple[PodView, ...], *more: Any) -> slots.Slots:
    for pod in pods:
        if int(pod.labels.get(labels.REPLICA_INDEX, "0")) > MAX_REPLICAS:
            raise MemoryError("a slice of that length")
    return _arrange(framework, job, pods, *more)


_arrange = slots.arrange
_begin = JobController.begin


def _created_in_the_cache_only(self: JobController, moment: Moment) -> Work | None:
    """Created is set once, in the cached object, and assumed to be written."""
    work = _begin(self, moment)
    status = work.plan.status if work is not None else None
    if work is not None and status is not None and {c.type for c in status.conditions} <= {"Created"}:
        return replace(work, plan=replace(work.plan, status=None))
    return work


def _last_worker_too_many(framework: Framework, job: Job, *more: Any) -> slots.Slots:
    found = _arrange(framework, job, *more)
    last = Replica("Worker", job.count("Worker") - 1)
    if not getattr(job.spec, "run_launcher_as_worker", False):
        return found
    kept = {replica: slot for replica, slot in found.wanted.items() if replica != last}
    surplus = [msgspec.structs.replace(slot, state=slots.SURPLUS) for replica, slot in found.wanted.items() if replica == last]
    vacant = tuple(replica for replica in found.vacant if replica != last)
    return replace(found, wanted=kept, surplus=(*found.surplus, *surplus), vacant=vacant)


_observe = JobController.observe


def _by_labels(self: JobController, cached: Any, named: Any, state: Any, moment: Any) -> Observed:
    """Pods are ours by their labels."""
    labelled = {labels.JOB_NAME: cached.name}
    pods = [p for p in self.informers["pods"].store.all(cached.namespace) if labelled.items() <= dict(p.labels).items()]
    return replace(_observe(self, cached, named, state, moment), pods=tuple(pods))


_failed = Informer.failed


def _fatal(self: Informer[Any], error: ClientError, now: float) -> None:
    if isinstance(error, StatusError) and error.code in (401, 403):
        raise SystemError("Fatal: failed to watch")
    _failed(self, error, now)


_received = Informer.received


def _give_up(self: Informer[Any], response: Response, now: float) -> Any:
    if response.status in (401, 403):
        raise SystemError("Fatal: failed to watch")
    return _received(self, response, now)


async def _repeated_on_a_conflict(self: Executor, work: Work) -> Result:
    result = await _execute(self, work)
    if not isinstance(result.status_error, StatusError) or result.status_error.code != 409:
        return result
    path = objects.object_path(self.framework.api_version, self.framework.plural, work.namespace, work.name)
    live = await self.transport.send(objects.get(path))
    if live.status != 200:
        return result
    status_alone = replace(work.plan, actions=(), verify_live=False, must_exist=())
    again = await _execute(self, replace(work, raw=msgspec.json.decode(live.body), plan=status_alone))
    return replace(result, status_version=again.status_version, status_error=again.status_error)


def _keep_when_refused(*_: object) -> None:
    return


DEFECTS = (
    Mutant(
        "D1-expectations-or",
        "One expectation met counts as all of them, so a job is reconciled on a cache that lacks others of its writes.",
        tuple((Expectations, name, _any_one_will_do(getattr(Expectations, name))) for name in _OBSERVED),
        where=("*/L8-*", "*/L9-*", "*/L5-*", "*/L7a-*"),
    ),
    Mutant(
        "D2-expectations-by-name",
        "A job inherits the expectations of a deleted one of its name, and waits for events that never come.",
        (
            *((Expectations, name, _names_only(getattr(Expectations, name))) for name in _BY_JOB),
            (Expectations, "forget", _keep_when_refused),
            (Expectations, "deletion_failed", _keep_when_refused),
        ),
        where=("*/X-again-after-a-conflict",),
        faults=(),
        pair="Every expectation of ours is lowered by what the watch or the answer shows; so one must get lost, too (D4).",
    ),
    Mutant(
        "D3-tombstone",
        "The handler of deletions reads the object's new state, which a deleted one has not; every deletion costs the cache.",
        ((JobController, "take", _reads_a_tombstone),),
        where=("pytorch/L8-*", "pytorch/L12-*"),
    ),
    Mutant(
        "D4-expectation-after-nothing",
        "A deletion that found nothing leaves its expectation behind, and the job stands still for five minutes.",
        ((Expectations, "deletion_failed", _keep_when_refused),),
        where=("*/L8-*", "*/L9-*", "*/L13-*", "*/L12-*"),
        faults=("timeout-after", "reply-lost", "crash-after", "watch-lag", "server-error", "forbidden"),
    ),
    Mutant(
        "D5-raises-on-error-paths",
        "What answers an error is read as if it were an object; the results of the whole plan are lost.",
        ((Executor, "execute", _raises),),
        where=("pytorch/L8-*", "pytorch/L2-*"),
        faults=("server-error", "conflict", "throttled", "forbidden"),
    ),
    Mutant(
        "D6-no-pods-no-clean-up",
        "A finished job whose pods are gone is not cleaned up, and its Services are never deleted.",
        ((finished, "clean_up_finished", _nothing_without_pods),),
        where=("*/X-nothing-ran",),
        faults=(),
    ),
    Mutant(
        "D7-magic-exit-code",
        "No exit code is taken for 0xbeef, so an eviction is a retryable failure and is charged to backoffLimit.",
        ((slots, "ending_of", _magic_number),),
        where=("*/L12-*",),
    ),
    Mutant(
        "D8-timers-do-nothing",
        "A key that is to come back at a time does not, so deadlines and times to live are never acted on.",
        ((WorkQueue, "add_at", _not_at),),
        where=("*/L5-*", "*/L6-*", "*/L2-*"),
    ),
    Mutant(
        "D8-backoff-counts-running-pods",
        "backoffLimit counts restarts of containers in running pods only, so an always failing pod is replaced without end.",
        ((limits, "backoff_exceeded", _running_only),),
        where=("*/L4-*",),
    ),
    Mutant(
        "D9-no-completion-time",
        "A job ends without completionTime, so nothing that counts from it ever comes.",
        ((controller, "decide", _no_completion_time),),
        where=("*/L3-*", "*/L6-*"),
    ),
    Mutant(
        "D10-index-label-trusted",
        "An index in a label sizes a list, and the job of a pod with a huge one cannot be reconciled any more.",
        ((situation, "arrange", _by_index),),
        faults=(),
        always=(Fault("label-edited", at=6.0, value="1"),),
    ),
    Mutant(
        "D11-service-events-ignored",
        "Changes of Services are not observed, so one that a user has deleted is not created again.",
        ((JobController, "take", _no_services),),
        where=("*/L13-service-deleted",),
    ),
    Mutant(
        "D12-created-in-the-cache-only",
        "Created is set in the cached object and never written, so a job that waits shows no state.",
        ((JobController, "begin", _created_in_the_cache_only),),
        where=("*/X-name-taken", "*/X-never-allowed", "*/L1-*"),
    ),
    Mutant(
        "D13-no-uid-in-status-writes",
        "A refused status write is repeated on whatever has the name now, so a job gets the status of its predecessor.",
        ((Executor, "execute", _repeated_on_a_conflict),),
        where=("*/X-recreated-at-its-end",),
        faults=("watch-lag",),
        pair="With the decision's resourceVersion a wrong uid is refused anyway (409); so the live one is sent.",
    ),
    Mutant(
        "D14-owned-by-labels",
        "Pods are ours by their labels, so a scale-down deletes other people's.",
        ((JobController, "observe", _by_labels),),
        where=("*/X-stranger-with-labels",),
    ),
    Mutant(
        "D14-launcher-as-worker-off-by-one",
        "With the launcher as a worker one worker is counted too many, and a valid one deleted.",
        ((situation, "arrange", _last_worker_too_many),),
        where=("mpi/launcher-as-worker",),
    ),
    Mutant(
        "D14-watch-refused-is-fatal",
        "A watch or list that is answered 401 or 403 ends the process, for all jobs.",
        ((Informer, "received", _give_up), (Informer, "failed", _fatal)),
        faults=("unauthorized",),
        always=(Fault("forbidden", at=4.0, seconds=30.0), Fault("watch-closed", at=5.0)),
    ),
)
