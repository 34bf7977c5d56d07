"""One operator process as a function: the real JobController and the real Executor, made anew from data for each step.

What the process keeps in memory is `Memory`: all that `JobController` keeps of a job, but for what is an optimisation only (the
parsed job), what affects events alone (which were emitted), and what depends on real time: the number of failures in a row, and
how long a plan took. A key in back-off is ready at once. An expectation lasts as long as when it began, until a timer fires.

A plan that is being carried out is a `Flight`: the caches and the memory from which it was made, and the answers so far. The
executor's coroutine runs anew with these answers up to its next request. It has one seat (`Settings.concurrency`), so one
request at a time is in flight.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from jobcommon.cache.wire import INITIAL_EVENTS_END
from jobcommon.client.errors import TransportError
from jobcommon.client.request import Request, Response
from jobcommon.controller import JobController, Moment, Result, Work
from jobcommon.controller.expectations import TIMEOUT, Creation, Expected
from jobcommon.controller.job_controller import BEHIND_SECONDS
from jobcommon.controller.job_state import COUNTS_DELAY, JobState
from jobcommon.controller.refusals import Refusals
from jobcommon.controller.workqueue import BASE_DELAY
from jobcommon.reconcile.plan import Create
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.flow_control import FlowController
from jobcommon.testutil.builders import START
from jobcommon.testutil.exhaust.objects import FRAMEWORK, NAMESPACE, RESOURCES, Content, cached_version, pending_version
from jobcommon.testutil.exhaust.objects import JOB as JOBS
from jobcommon.testutil.exhaust.server import Answer
from jobcommon.testutil.sim.clock import SimClock
from jobcommon.testutil.sim.job_templates import JOB
from jobcommon.testutil.sim.loop import SimLoop

KEY = (NAMESPACE, JOB)
UID = "uid-job"
LAPSE = TIMEOUT
NOT_BEHIND = (0, 0, 0)
_MOST = 40
_FIELDS = ("generation", "begun", "finished", "running", "active_pods", "counts_since", "cooldown_until", "asked_until")
_TIMES = ("counts_since", "cooldown_until", "asked_until")

Cached = tuple[tuple[Content, ...], ...]
Versioned = tuple[tuple[tuple[Content, int], ...], ...]


@dataclass(frozen=True)
class Memory:
    """What an operator process has in memory beside its caches. Times are seconds after START, where time stands still.

    `ready`: the job waits in the queue, or is to be queued again when it is `busy` no more. `due`: when a timer queues it,
    at most `LAPSE`. A timer shows its time to the plan that it causes, and then it is START again.
    `behind`: for each resource, which of the pending events the cache must have before the next plan; 0 for none.
    """

    ready: bool
    due: float | None = None
    busy: bool = False
    expected: tuple[Expected, ...] = ()
    behind: tuple[int, ...] = NOT_BEHIND
    state: tuple[Any, ...] = ()
    refusals: str = ""


@dataclass(frozen=True)
class Flight:
    """A plan that is being carried out."""

    cached: Versioned
    memory: Memory
    now: float
    answers: tuple[Answer | None, ...] = ()
    """Those so far; None for an answer that was lost."""

    @property
    def begun(self) -> tuple[Any, ...]:
        """From what the plan was made."""
        return self.cached, self.memory, self.now

    def renumbered(self, resource: int, renamed: Mapping[int, int]) -> "Flight":
        """With new numbers for the versions of a resource; one that is no longer in use stays older than those that are."""
        mine = [version for _, version in self.cached[resource]]
        mine += [answer.version for answer in self.answers if answer is not None and answer.resource == resource]
        dead = sorted({version for version in mine if version and version not in renamed})
        numbers = {0: 0, **renamed, **{version: 1000 + 30 * resource + i for i, version in enumerate(dead)}}
        cached = list(self.cached)
        cached[resource] = tuple((content, numbers[version]) for content, version in self.cached[resource])
        answers = tuple(
            replace(a, version=numbers[a.version]) if a is not None and a.resource == resource else a for a in self.answers
        )
        return Flight(tuple(cached), self.memory, self.now, answers)


class _Script:
    """A transport that gives the known answers, then reports the next request and never answers."""

    def __init__(self, answers: Sequence[Answer | None], asked: "asyncio.Future[Request]") -> None:
        self._answers = list(answers)
        self._asked = asked

    async def send(self, request: Request) -> Response:
        if not self._answers:
            self._asked.set_result(request)
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if answer is None:
            raise TransportError("no answer")
        body = answer.body.replace(b'"resourceVersion":"0"', b'"resourceVersion":"%d"' % answer.version, 1)
        return Response(answer.status, body, {"content-type": "application/json"})

    def stream(self, request: Request) -> Any:
        raise NotImplementedError(request)

    async def close(self) -> None:
        return


class Operator:
    """The steps of an operator process. Equal questions are answered from memory."""

    def __init__(self) -> None:
        self._loop = SimLoop()
        self._refusals: dict[str, Refusals] = {}
        self._plans: dict[Any, Work] = {}
        self._texts: dict[Any, tuple[Any, ...]] = {}
        self._requests: dict[Any, Request | Result] = {}
        self._took: dict[tuple[Cached, Memory, tuple[str, Content]], Memory] = {}
        self.lapsed: list[str] = []
        """Expectations that lapsed in the last step."""

    def close(self) -> None:
        """Release the event loop."""
        self._loop.close()

    # -- steps ----------------------------------------------------------------------------------------------------------

    def started(self, cached: Cached) -> Memory:
        """A new process has listed everything."""
        controller = _controller()
        for index, objects in enumerate(_versioned(cached)):
            _list(controller, index, objects, told=True)
        return self._memory(controller, 0.0)

    def took(self, cached: Cached, memory: Memory, event: tuple[str, Content]) -> Memory:
        """A watch has delivered an event."""
        resource = event[1].resource
        behind = tuple(number - (number > 0 and index == resource) for index, number in enumerate(memory.behind))
        key = (cached, replace(memory, behind=NOT_BEHIND), event)
        if (known := self._took.get(key)) is None:
            known = self._took[key] = self._take(*key)
        return replace(known, behind=behind)

    def _take(self, cached: Cached, memory: Memory, event: tuple[str, Content]) -> Memory:
        kind, content = event
        resource = content.resource
        controller = self._restored(_versioned(cached), memory)
        informer = controller.informers[RESOURCES[resource]]
        informer.next(0.0)
        line = b'{"type":"%s","object":%s}' % (kind.encode(), content.at(pending_version(resource, 0)))
        controller.take(RESOURCES[resource], informer.line(line, 0.0))
        return self._memory(controller, 0.0, busy=memory.busy)

    def planned(self, cached: Cached, memory: Memory) -> tuple[Memory, Flight | None]:
        """The next plan is made, at the time of the timer unless the job is ready. None: there is nothing to carry out."""
        now = 0.0 if memory.ready else memory.due or 0.0
        controller = self._restored(_versioned(cached), memory)
        self.lapsed = []
        controller.on_lapsed = lambda _, lapsed: self.lapsed.extend(map(str, lapsed))
        moment = Moment(now, START + now)
        work = controller.begin(moment)
        if work is None:
            return self._memory(controller, now), None
        if work.deferred:
            controller.finish(work, Result(), moment)
            return self._memory(controller, now), None
        flight = Flight(_versioned(cached), memory, now)
        self._plans[flight.begun] = work
        if isinstance(found := self.next(flight), Result):
            controller.finish(work, found, moment)
            return self._memory(controller, now), None
        return self._memory(controller, now, busy=True), flight

    def next(self, flight: Flight) -> Request | Result:
        """What the executor asks next, or its result."""
        key = (flight.begun, flight.answers)
        found = self._requests.get(key)
        if found is None:
            found = self._requests[key] = self._loop.run_until_complete(self._run(self._work(flight), flight.answers))
        return found

    def finished(self, cached: Cached, memory: Memory, flight: Flight) -> Memory:
        """The result has reached the controller."""
        result = self.next(flight)
        assert isinstance(result, Result)
        controller = self._restored(_versioned(cached), memory)
        controller.finish(self._work(flight), result, Moment(0.0, START))
        return self._memory(controller, 0.0)

    def plan(self, flight: Flight) -> str:
        """The plan as text."""
        work = self._work(flight)
        return "; ".join([work.plan.reason, *map(str, work.plan.actions), *(["status"] if work.plan.status else [])])

    def essence(self, flight: Flight) -> tuple[Any, ...]:
        """All of a flight that its future depends on.

        Of the caches that is the plan with its manifests, and the versions that its requests name; of the answer to a write
        its version if the caches do not have it yet. Once the plan is carried out, it is what `JobController.finish` reads.
        """
        work, found = self._work(flight), self.next(flight)
        plan = work.plan
        if (texts := self._texts.get(flight.begun)) is None:
            manifests = tuple(msgspec.json.encode(action.manifest) for action in plan.actions if isinstance(action, Create))
            texts = self._texts[flight.begun] = (repr(plan), *manifests), (repr(plan.actions), *manifests)
        if isinstance(found, Result):
            outcomes = tuple((o.effect, _awaited(o.resource_version), repr(o.error)) for o in found.outcomes)
            status = _awaited(found.status_version), repr(found.status_error), found.stale
            ends = plan.status is not None and plan.status.finished
            return work.job is None, texts[1], ends, plan.status is None, plan.wake_at, plan.reason, outcomes, status
        version = work.job.resource_version if work.job is not None else ""
        return version, texts[0], work.orphans_of, tuple(map(_essence_of, flight.answers))

    # -- carrying out -----------------------------------------------------------------------------------------------------

    def _work(self, flight: Flight) -> Work:
        found = self._plans.get(flight.begun)
        if found is None:
            controller = self._restored(flight.cached, flight.memory)
            work = controller.begin(Moment(flight.now, START + flight.now))
            assert work is not None
            found = self._plans[flight.begun] = work
        return found

    async def _run(self, work: Work, answers: Sequence[Answer | None]) -> Request | Result:
        asked: asyncio.Future[Request] = self._loop.create_future()
        clock = SimClock(self._loop, START)
        executor = Executor(FRAMEWORK, _Script(answers, asked), FlowController(1), clock=clock)
        task = asyncio.ensure_future(executor.execute(work))
        await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait((task,))
        return asked.result()

    # -- from data and back -------------------------------------------------------------------------------------------------

    def _restored(self, cached: Versioned, memory: Memory) -> JobController:
        controller = _controller()
        for index, objects in enumerate(cached):
            _list(controller, index, objects, told=False)
        queue, expectations = controller.queue, controller.expectations
        if memory.state:
            refusals = deepcopy(self._refusals[memory.refusals]) if memory.refusals else Refusals()
            state = JobState(**dict(zip(_FIELDS, memory.state, strict=True)), refusals=refusals)
            controller.states[UID] = state
        if memory.busy:
            queue.add(KEY)
            queue.get(0.0)
        if memory.ready:
            queue.add(KEY)
        if memory.due is not None:
            queue.add_at(KEY, memory.due)
        for one in memory.expected:
            if isinstance(one, Creation):
                expectations.expect_creation(UID, one.resource, one.name, 0.0)
            else:
                expectations.expect_deletion(UID, one.uid, 0.0)
        for resource, event in enumerate(memory.behind):
            if event:
                controller.barrier.wrote(UID, RESOURCES[resource], str(pending_version(resource, event - 1)), 0.0)
        return controller

    def _memory(self, controller: JobController, now: float, *, busy: bool = False) -> Memory:
        """What is to be kept of a controller at `now`. Takes it apart."""
        behind = tuple(_behind(controller, resource) for resource in range(len(RESOURCES)))
        queue = controller.queue
        due = queue.next_wakeup()
        if busy:
            # Ready again at once, if it was queued meanwhile.
            queue.done(KEY)
        fields: tuple[Any, ...] = ()
        refusals = ""
        if (state := controller.states.get(UID)) is not None:
            fields = tuple(_passed(getattr(state, f), now) if f in _TIMES else getattr(state, f) for f in _FIELDS)
            kept = replace(state.refusals, until=max(state.refusals.until - now, 0.0))
            if kept != Refusals():
                refusals = repr(kept)
                self._refusals[refusals] = kept
        backing_off = due is not None and due - now <= BASE_DELAY
        if due is not None and round(due - now, 6) == BEHIND_SECONDS:
            due = BEHIND_SECONDS  # a wait for the caches that is checked again and again is one and the same
        due = None if due is None or backing_off else round(min(due, LAPSE), 6)
        expected = controller.expectations.lapsed(UID, math.inf)
        return Memory(len(queue) > 0 or backing_off, due, busy, expected, behind, fields, refusals)


def _controller() -> JobController:
    """A controller without jobs; of the kinds that are not modelled there are no objects."""
    controller = JobController(FRAMEWORK, lambda: 0.5)
    for resource in controller.informers:
        if resource not in RESOURCES:
            controller.informers[resource].next(0.0)
            controller.informers[resource].line(_bookmark(1), 0.0)
    return controller


def _list(controller: JobController, resource: int, objects: tuple[tuple[Content, int], ...], *, told: bool) -> None:
    """Fill a cache; if `told`, the controller handles the list as it does after its start."""
    informer = controller.informers[RESOURCES[resource]]
    informer.next(0.0)
    for content, number in objects:
        informer.line(b'{"type":"ADDED","object":%s}' % content.at(number), 0.0)
    batch = informer.line(_bookmark(pending_version(resource, -1)), 0.0)
    if told:
        controller.take(RESOURCES[resource], batch)


def _bookmark(version: int) -> bytes:
    metadata = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
    return msgspec.json.encode({"type": "BOOKMARK", "object": {"metadata": metadata}})


def _versioned(cached: Cached) -> Versioned:
    return tuple(
        tuple((content, cached_version(resource, index)) for index, content in enumerate(contents))
        for resource, contents in enumerate(cached)
    )


def _behind(controller: JobController, resource: int) -> int:
    """Which of the events that are to come the cache must have before the next plan, counted from 1; 0 for none."""
    for index in range(_MOST):
        if not controller.barrier.behind(UID, {RESOURCES[resource]: str(pending_version(resource, index - 1))}):
            return index
    return _MOST


def _essence_of(answer: Answer | None) -> object:
    """What the rest of a plan depends on. Only the version of the job is compared with the one that the plan was made from."""
    if answer is None or answer.status >= 300:
        return answer
    awaited = _awaited(str(answer.version))
    if answer.written:
        return awaited, b"deletionTimestamp" in answer.body
    return answer.body, str(answer.version) if answer.resource == JOBS else awaited


def _awaited(version: str | None) -> str | None:
    """A version that may still be ahead of the caches; "" for another one."""
    return version if version is None or (version.isdecimal() and int(version) % 100 >= 50 and int(version) >= 1100) else ""


def _passed(time: float | None, now: float) -> float | None:
    return time if time is None else round(max(time - now, -COUNTS_DELAY) if time else 0.0, 6)
