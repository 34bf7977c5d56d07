"""The executor: carries out one plan against the API server and reports the outcomes.

The order is the plan's promise: live reads that the plan asks for; logs that are to be kept, and then those live reads again;
deletions, removals of finalizers and updates; creates of other objects than pods, and reads of objects that pods need; pods
with slow start; the status, exactly once, also if a write before it failed (rule R15); then the background writes. The
transport refuses writes without the lease (rule R8). No write that may have taken effect is repeated here: the unknown outcome
of a create or of the status is resolved by a live read (rule R12), and a failed write is retried by requeueing.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

import msgspec

from jobcommon.api import labels
from jobcommon.api.pod import PodView, pod_view
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, ManifestError, StatusError, TransportError
from jobcommon.client.request import Request, Response, Transport
from jobcommon.client.responses import answered
from jobcommon.controller.caches import PODS
from jobcommon.controller.result import ActionResult, Effect, Result, Work
from jobcommon.controller.status_size import is_status_too_large, shortened_status
from jobcommon.controller.unstored import check_stored
from jobcommon.framework import FINALIZER, Framework
from jobcommon.reconcile.plan import Action, Create, Delete, Get, RemoveFinalizer, SetImage, Update, Urgency
from jobcommon.runtime.clock import Clock, SystemClock
from jobcommon.runtime.failed_logs import keep_logs
from jobcommon.runtime.flow_control import BackgroundTransport, FlowController, PriorityLevel, Seat
from jobcommon.runtime.leader import FencedError
from jobcommon.runtime.writes import Recheck, path_of, request_for, slow_start, status_write, together

SLOW_START_CAP = 64
BULK_ACTIONS = 64
"""A plan with more requests than this is bulk: a delay of one request does not matter to the user who waits for the job."""
# Users wait for the final status, which is one request; they do not wait for new counts.
_STATUS_LEVELS = {Urgency.TERMINAL: PriorityLevel.INTERACTIVE, Urgency.COUNTS: PriorityLevel.BACKGROUND}


@dataclass
class Executor:
    """Carries out the plans of one framework's jobs.

    `flow_controller` bounds the requests in flight and is shared by all frameworks; `slow_start_cap` is the maximum of pods of
    one type that are created at once. `clock` measures the age of the last live read of a job.
    """

    framework: Framework
    transport: Transport
    flow_controller: FlowController
    slow_start_cap: int = SLOW_START_CAP
    clock: Clock = field(default_factory=SystemClock)

    def __post_init__(self) -> None:
        self._unwatched = {kind.plural for kind in self.framework.companion_kinds if not kind.watched}

    async def execute(self, work: Work) -> Result:
        """Carry out `work.plan`. Errors of the API server are part of the Result and never raised.

        No request is in flight any more when this returns or raises.
        """
        plan, recheck = work.plan, Recheck(lambda: self._unchanged(work, seated=True), self.clock)
        try:
            if not await self._still_holds(work):
                return Result(stale=True)
            # A stale plan must not keep logs: a pod's successor has its name. And while they are read, the job may change.
            log_error = await keep_logs(self.framework, self._in_background(work), work) if plan.logs else None
            if plan.logs and not await self._still_holds(work):
                return Result(stale=True)
        except ClientError as unread:
            return Result(stale=True, read_error=unread)
        done: dict[int, ActionResult] = {}
        background = set(map(id, plan.background))
        last = [i for i, action in enumerate(plan.actions) if id(action) in background]
        if len(last) < len(plan.actions):
            await self._delete_and_update(work, done, background)
            await self._create(work, recheck, done)
        version, error = await self._write_status(work)
        if shorten := plan.status is not None and is_status_too_large(error):
            version, error = await self._write_status(replace(work, plan=replace(plan, status=shortened_status(plan.status))))
        if last:
            level = PriorityLevel.BACKGROUND
            removed = await together(self._carry_out(work, plan.actions[i], level=level) for i in last)
            done.update(zip(last, removed, strict=True))
        outcomes = tuple(done[i] for i in range(len(plan.actions)))
        return Result(outcomes, version, error, shortened=shorten, log_error=log_error)

    # -- the steps ---------------------------------------------------------------------------------------------------

    async def _delete_and_update(self, work: Work, done: dict[int, ActionResult], background: Collection[int]) -> None:
        """Deletions, removals of finalizers and updates, concurrently; those of one object in order, the finalizer first."""
        chains: dict[tuple[str, str], list[int]] = {}
        for i, action in enumerate(work.plan.actions):
            if not isinstance(action, Create | Get) and id(action) not in background:
                chains.setdefault((action.plural, action.name), []).append(i)

        async def run(chain: list[int]) -> None:
            for i in sorted(chain, key=lambda i: not isinstance(work.plan.actions[i], RemoveFinalizer)):
                done[i] = await self._carry_out(work, work.plan.actions[i])

        await together(run(chain) for chain in chains.values())

    async def _create(self, work: Work, recheck: Recheck, done: dict[int, ActionResult]) -> None:
        """Create the objects that pods need, then the pods; replica types do not wait for each other (rule R15).

        If a needed object is missing, no pods are created: they would fail, or mount another owner's Secret of that name.
        """
        others: list[tuple[int, Create | Get]] = []
        types: dict[str, list[tuple[int, Create]]] = {}
        for i, action in enumerate(work.plan.actions):
            if isinstance(action, Get) or (isinstance(action, Create) and action.plural != PODS):
                others.append((i, action))
            elif isinstance(action, Create):
                types.setdefault(action.replica_type, []).append((i, action))
        first = [(i, action) for i, action in others if isinstance(action, Get) or action.after is None]
        outcomes = await together(self._carry_out(work, action, recheck) for _, action in first)
        done.update((i, outcome) for (i, _), outcome in zip(first, outcomes, strict=True))
        failed = {(action.plural, action.name) for i, action in first if not _is_made(done[i])}
        for i, action in others:
            if isinstance(action, Create) and action.after is not None:
                late = ActionResult(action, Effect.SKIPPED) if action.after in failed else None
                done[i] = late or await self._carry_out(work, action, recheck)
        if any(action.required and not _is_made(done[i]) for i, action in others):
            done.update((i, ActionResult(action, Effect.SKIPPED)) for pods in types.values() for i, action in pods)
            return
        await together(self._slow_start(work, pods, recheck, done) for pods in types.values())

    async def _slow_start(
        self, work: Work, pods: list[tuple[int, Create]], recheck: Recheck, done: dict[int, ActionResult]
    ) -> None:
        """Create pods with slow start; stop at the first error (R16).

        A name conflict concerns one slot only. But the object may have been created by another operator that has progressed
        further, so a live read must show the job unchanged before the next pod (rule R7).
        """
        left = len(pods)

        async def one(pod: tuple[int, Create]) -> bool:
            nonlocal left
            i, action = pod
            left -= 1
            outcome = done[i] = await self._carry_out(work, action, recheck)
            if outcome.effect is Effect.SKIPPED or (outcome.effect is Effect.REFUSED and not _name_in_use(outcome)):
                return False
            if outcome.effect is not Effect.APPLIED and left:
                async with self._seat(work):
                    await recheck.now()
            return not recheck.changed

        not_begun = await slow_start(pods, one, self.slow_start_cap)
        done.update((i, ActionResult(action, Effect.SKIPPED)) for i, action in not_begun)

    async def _write_status(self, work: Work) -> tuple[str | None, ClientError | None]:
        if work.raw is None or work.plan.status is None:
            return None, None
        status = work.plan.status.to_json()
        try:
            # The response must be complete: the server answers 200 also if it drops unknown fields.
            request = status_write(work.raw, self.framework.plural, status)
            response = await self._send_seated(work, request, _STATUS_LEVELS.get(work.plan.urgency))
            check_stored(status, response.body)
        except TransportError as error:
            return await self._find_status(work, status, error)
        except ClientError as error:
            return None, error
        return objects.written(response.body).resource_version, None

    async def _find_status(
        self, work: Work, status: Mapping[str, Any], error: TransportError
    ) -> tuple[str | None, ClientError | None]:
        """Whether a status whose write got no response was stored (rule R12)."""
        try:
            job = answered(await self._send_seated(work, self._job_request(work)))
        except ClientError:
            return None, error
        metadata = job.get("metadata") or {}
        if metadata.get("uid") == work.uid and job.get("status") == status:
            return str(metadata.get("resourceVersion", "")), None
        return None, error

    # -- one action --------------------------------------------------------------------------------------------------

    async def _carry_out(
        self, work: Work, action: Action, recheck: Recheck | None = None, level: PriorityLevel | None = None
    ) -> ActionResult:
        try:
            match action:
                case Create():
                    return await self._create_one(work, action, recheck)
                case Get():
                    return await self._get(work, action)
                case Delete():
                    return await self._change(work, action, gone=(404, 409))
                case RemoveFinalizer():
                    return await self._release(work, action, level)
                case SetImage():
                    return await self._set_image(work, action)
                case Update():
                    return await self._change(work, action, gone=(404,))
        except FencedError as error:
            return ActionResult(action, Effect.SKIPPED, error=error)

    async def _create_one(self, work: Work, action: Create, recheck: Recheck | None) -> ActionResult:
        """Create an object, unless the job has changed since the plan was made.

        Many creates take long, and a process that was suspended has missed what other replicas did meanwhile (rule R7).
        """
        try:
            request = self._request(_generated(action), work)
        except Exception as error:  # a framework's function failed for this replica (rule R14)
            refusal = ManifestError(f"{type(error).__name__}: {error}")
            refusal.__cause__ = error
            return ActionResult(action, Effect.REFUSED, error=refusal)
        try:
            async with self._seat(work):
                if recheck is not None and not await recheck.recent():
                    return ActionResult(action, Effect.SKIPPED)
                response = await self._send(request)
        except StatusError as error:
            if error.code == 409 and error.reason in ("AlreadyExists", ""):
                return await self._look_up(work, action, error)
            return ActionResult(action, Effect.REFUSED, error=error)
        except TransportError as error:
            return await self._look_up(work, action, error)
        return self._seen(action, Effect.APPLIED, response.body)

    async def _get(self, work: Work, action: Get) -> ActionResult:
        """Read the object. A terminating one counts as absent."""
        try:
            body = (await self._send_seated(work, request_for(action, work.namespace))).body
        except ClientError as error:
            absent = isinstance(error, StatusError) and error.code == 404
            return ActionResult(action, Effect.NOT_FOUND if absent else Effect.REFUSED, error=error)
        found = objects.written(body)
        if found.controller_uid != work.uid and not action.kept:
            return ActionResult(action, Effect.NAME_CONFLICT)
        return ActionResult(action, Effect.NOT_FOUND) if found.deletion_timestamp else self._seen(action, Effect.APPLIED, body)

    async def _look_up(self, work: Work, action: Create, error: ClientError) -> ActionResult:
        """Read the object under the name of one whose create failed or got no response (rule R12).

        A terminating object is a predecessor whose deletion must be awaited, regardless of its owner. So is the object of an
        earlier job of this name, which the garbage collector has not reached yet, where another name would be taken.
        """
        try:
            body = (await self._send_seated(work, objects.get(path_of(action, work.namespace)))).body
        except ClientError:
            return ActionResult(action, Effect.REFUSED, error=error)
        found = objects.written(body)
        earlier = action.otherwise and found.controller_uid != work.uid and found.controlled_by(self.framework.kind, work.name)
        if found.deletion_timestamp is not None or earlier:
            conflict = StatusError(409, "AlreadyExists", f"{action.plural} {action.name} is being deleted")
            return ActionResult(action, Effect.REFUSED, error=conflict)
        if action.kept or (found.controller_uid == work.uid and self._is_watched_for(found, action)):
            return self._seen(action, Effect.ALREADY_EXISTS, body)
        strayed = pod_view(body) if found.controller_uid == work.uid and action.plural == PODS else None
        return ActionResult(action, Effect.NAME_CONFLICT, error=error, strayed=strayed)

    def _is_watched_for(self, found: objects.WrittenMetadata, action: Create) -> bool:
        """Whether the caches will show it. They select by our label, which another client may have removed (attack case S6)."""
        wanted = (action.manifest.get("metadata", {}).get("labels") or {}).get(labels.OPERATOR_NAME)
        if action.plural in self._unwatched or wanted is None:
            return True
        return (found.labels or {}).get(labels.OPERATOR_NAME) in (wanted, *self.framework.former_controllers)

    async def _change(
        self, work: Work, action: Action, gone: tuple[int, ...], level: PriorityLevel | None = None
    ) -> ActionResult:
        """A write on an existing object. The codes in `gone` mean that the object of the decision was deleted or has changed;
        then the watch event of that change queues the key.
        """
        try:
            response = await self._send_seated(work, self._request(action, work), level)
        except FencedError:
            raise
        except ClientError as error:
            absent = isinstance(error, StatusError) and error.code in gone
            return ActionResult(action, Effect.NOT_FOUND if absent else Effect.REFUSED, error=error)
        found = objects.written(response.body)
        if isinstance(action, Update):
            return self._seen(action, Effect.APPLIED, response.body)
        # The version at which the last finalizer of a terminating object is removed is not the version of its deletion.
        return ActionResult(action, Effect.APPLIED, "" if found.deletion_timestamp else found.resource_version)

    async def _release(self, work: Work, action: RemoveFinalizer, level: PriorityLevel | None) -> ActionResult:
        """Remove the finalizer, also if others have changed the finalizers meanwhile, which no watch need show."""
        outcome = await self._change(work, action, gone=(404, 422), level=level)
        # A test of the patch failed: it is another incarnation, or another client changed the finalizers.
        pod = await self._pod_after_422(work, outcome, level) if work.orphans_of is not None else None
        if pod is None:
            return outcome
        if pod.uid != action.uid or FINALIZER not in pod.finalizers:
            return ActionResult(action, Effect.NOT_FOUND)
        changed = replace(action, finalizers=pod.finalizers)
        return replace(await self._change(work, changed, gone=(404, 422), level=level), action=action)

    async def _set_image(self, work: Work, action: SetImage) -> ActionResult:
        """Change the image of a container, unless the pod has changed since: then a test of the patch fails.

        That is answered as the denial by a policy is, with 422, so the pod itself must say which it was.
        """
        outcome = await self._change(work, action, gone=(404,))
        pod = await self._pod_after_422(work, outcome)
        if pod is None:
            return outcome
        image = next((one.image for one in pod.containers if one.name == action.container), "")
        now = (pod.uid, pod.annotations.get(labels.ATTEMPT), image)
        return outcome if now == (action.uid, action.attempt, action.before) else replace(outcome, effect=Effect.NOT_FOUND)

    async def _pod_after_422(self, work: Work, outcome: ActionResult, level: PriorityLevel | None = None) -> PodView | None:
        """The pod as it is, if a patch of it was answered with 422 and it can be read."""
        if getattr(outcome.error, "code", 0) != HTTPStatus.UNPROCESSABLE_ENTITY:
            return None
        try:
            return pod_view((await self._send_seated(work, objects.get(path_of(outcome.action, work.namespace)), level)).body)
        except (ClientError, msgspec.DecodeError):
            return None

    def _seen(self, action: Create | Update | Get, effect: Effect, body: bytes) -> ActionResult:
        """The outcome, with the object itself if its kind is not watched. Generated fields are not kept: one may be a key."""
        version = objects.written(body).resource_version
        if action.plural not in self._unwatched:
            return ActionResult(action, effect, version)
        fields = action.fields if isinstance(action, Get) else action.manifest
        return ActionResult(action, effect, version, seen=objects.reduced_to(body, fields))

    def _request(self, action: Action, work: Work) -> Request:
        """The write of an action. For objects in the caches the response need not be complete."""
        request = request_for(action, work.namespace)
        return request if action.plural in self._unwatched else objects.metadata_only(request)

    # -- live reads --------------------------------------------------------------------------------------------------

    def _job_request(self, work: Work) -> Request:
        path = objects.object_path(self.framework.api_version, self.framework.plural, work.namespace, work.name)
        return objects.get(path)

    async def _still_holds(self, work: Work) -> bool:
        """Whether the live reads that the plan asks for show what it was made for. Raises ClientError."""
        plan = work.plan
        if (plan.verify_live and not await self._unchanged(work)) or (work.orphans_of and not await self._orphaned(work)):
            return False
        if not all(await together(self._is_there(work, *witness) for witness in plan.must_exist)):
            return False
        return plan.as_cached is None or await self._is_as_cached(work, *plan.as_cached)

    async def _find(self, work: Work, request: Request, *, seated: bool = False) -> objects.WrittenMetadata | None:
        """The metadata of an object, None without it. `seated`: the caller holds a seat already. Raises ClientError."""
        brief = objects.metadata_only(request)
        try:
            return objects.written((await (self._send(brief) if seated else self._send_seated(work, brief))).body)
        except StatusError as error:
            if error.code != HTTPStatus.NOT_FOUND:
                raise
            return None

    async def _unchanged(self, work: Work, *, seated: bool = False) -> bool:
        """Whether the job is still the object the plan was made for (rule R7). `seated`: the caller holds a seat already."""
        version = work.job.resource_version if work.job is not None else ""
        found = await self._find(work, self._job_request(work), seated=seated)
        return found is not None and found.uid == work.uid and found.resource_version == version

    async def _is_there(self, work: Work, pod: str, uid: str) -> bool:
        """Whether the pod still exists."""
        found = await self._find(work, objects.get(objects.object_path("v1", PODS, work.namespace, pod)))
        return found is not None and found.uid == uid

    async def _is_as_cached(self, work: Work, get: Get, version: str) -> bool:
        """Whether the object has that resourceVersion, or is absent if it is ""."""
        found = await self._find(work, objects.get(path_of(get, work.namespace)))
        return (found.resource_version if found is not None else "") == version

    async def _orphaned(self, work: Work) -> bool:
        """Whether no job of that UID exists."""
        found = await self._find(work, self._job_request(work))
        return found is None or found.uid != work.orphans_of

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _send_seated(self, work: Work, request: Request, level: PriorityLevel | None = None) -> Response:
        async with self._seat(work, level):
            return await self._send(request)

    def _seat(self, work: Work, level: PriorityLevel | None = None) -> Seat:
        """A seat at `level`, or at that of the job."""
        return self.flow_controller.seat(work.namespace, work.uid, level=_level_of(work) if level is None else level)

    def _in_background(self, work: Work) -> Transport:
        return BackgroundTransport(self.transport, self.flow_controller, work.namespace, work.uid)

    async def _send(self, request: Request) -> Response:
        return await objects.sent(self.transport, request)


def _level_of(work: Work) -> PriorityLevel:
    """The priority level of a job's requests. A finished job only needs cleaning up."""
    if work.job is not None and work.job.status.finished:
        return PriorityLevel.BACKGROUND
    return PriorityLevel.BULK if len(work.plan.actions) > BULK_ACTIONS else PriorityLevel.INTERACTIVE


def _is_made(outcome: ActionResult) -> bool:
    return outcome.effect in (Effect.APPLIED, Effect.ALREADY_EXISTS)


def _name_in_use(outcome: ActionResult) -> bool:
    return isinstance(outcome.error, StatusError) and outcome.error.code == 409


def _generated(action: Create) -> Create:
    """The create with its generated fields, such as a key."""
    return replace(action, content={**action.manifest, **action.generate()}) if action.generate is not None else action
