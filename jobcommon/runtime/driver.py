"""The driver: runs one JobController on asyncio.

A task per informer sends its requests; one dispatcher hands plans to at most `workers` tasks. Nothing polls: the
dispatcher sleeps until a cache, a worker or the queue's next timer wakes it. An exception in a worker costs its own key a
back-off and does not affect other keys (rule R14).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any

from structlog.contextvars import bound_contextvars

from jobcommon.api import reasons
from jobcommon.cache.informer import Informer
from jobcommon.cache.step import Fetch, Sleep, Stream
from jobcommon.cache.store import Batch
from jobcommon.client.errors import ClientError, ForeignAnswerError, ManifestError, StatusError, TransportError
from jobcommon.client.request import Request, Transport
from jobcommon.controller.expectations import Expected
from jobcommon.controller.job_controller import JobController, JobKey
from jobcommon.controller.refusals import Answer, answer_of, is_of_the_platform
from jobcommon.controller.result import Result, Work
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.discovery import holder_of
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.recorder import Recorder, Reference

# After this many lines of one watch the other tasks get a turn; a burst of buffered lines would starve them.
LINES_PER_TURN = 100
# Plans that take longer (seconds) are logged: a slow function of a framework blocks the event loop, and with it every cache.
SLOW_PLAN = 0.1
# The pause (seconds) after an exception of our own, not an error of the server, in a cache's task.
MISHAP_DELAY = 1.0
# The interval (seconds) at which a lasting state such as a missing CRD is logged again.
REPEAT_AFTER = 600.0
# The interval (seconds) at which the lease of another controller of the kind is read. Such leases last 15 s.
RIVAL_SECONDS = 10.0


class Driver:
    """Feeds `controller` from `transport` and has its plans carried out by `execute`, at most `workers` at a time.

    What happens is published by `metrics` and, as events, by `recorder`.
    """

    def __init__(
        self,
        controller: JobController,
        transport: Transport,
        execute: Callable[[Work], Awaitable[Result]],
        clock: Clock,
        metrics: Metrics,
        recorder: Recorder,
        log: Log,
        *,
        workers: int = 128,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self.controller = controller
        self._transport = transport
        self._execute = execute
        self._clock = clock
        self._metrics = metrics
        self._recorder = recorder
        self._name = controller.framework.name
        self._log = log.bind(framework=self._name)
        self._workers = workers
        self._wake = asyncio.Event()
        self._pokes = {name: asyncio.Event() for name in controller.informers}
        self._running: set[asyncio.Task[None]] = set()
        self._reconciles = 0
        self._logged: dict[str, tuple[str, float]] = {}
        self._stopped = asyncio.Event()
        self._ready_since: dict[JobKey, float] = {}
        self._heard_at = dict.fromkeys(controller.informers, clock.monotonic())
        if controller.framework.rival:
            controller.withheld = "it is not known yet whether another controller of the kind acts"
        controller.on_unstored = self._log_unstored
        controller.on_lapsed = self._lapsed
        controller.queue.on_ready = self._ready
        controller.queue.on_timer = self._wake.set

    @property
    def crd_missing(self) -> bool:
        """Whether the API server does not serve the kind; the caches keep retrying, at most a minute apart."""
        error = self.controller.informers[self.controller.jobs].last_error
        return isinstance(error, StatusError) and error.code == 404

    @property
    def ready(self) -> bool:
        """Whether all caches have synced, or the kind is not installed, which this process cannot change.

        Not ready while the API server drops status fields: nothing can be recorded then.
        """
        return (self.controller.synced or self.crd_missing) and not self.controller.unstored.fields

    @property
    def busy(self) -> int:
        """The number of plans being carried out."""
        return len(self._running)

    @property
    def cache_ages(self) -> dict[str, float]:
        """Seconds since the API server last sent something for each cache that it serves. Thread-safe."""
        now, is_missing = self._clock.monotonic(), self.controller.caches.is_missing
        return {name: max(now - heard, 0.0) for name, heard in self._heard_at.items() if not is_missing(name)}

    async def run(self) -> None:
        """Run until `stop`; then return once the plans in progress are carried out. Cancelling it aborts them."""
        async with asyncio.TaskGroup() as tasks:
            followers = [tasks.create_task(self._follow(name), name=f"informer {name}") for name in self._pokes]
            if self.controller.framework.rival:
                followers.append(tasks.create_task(self._heed_rival(), name="rival"))
            try:
                await self._dispatch()
                while self._running:
                    await asyncio.wait(self._running)
            finally:
                left = (*followers, *self._running)
                for task in left:
                    task.cancel()
                await asyncio.gather(*left, return_exceptions=True)

    def stop(self) -> None:
        """Start no further plan."""
        self._stopped.set()
        self.controller.queue.shutdown()
        self._wake.set()

    # -- plans -------------------------------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        while not self._stopped.is_set():
            self._wake.clear()
            try:
                while len(self._running) < self._workers:
                    moment = self._clock.moment()
                    work = self.controller.begin(moment)
                    cost = self._measure(work, moment.monotonic)
                    if work is None:
                        break
                    if work.sends_nothing:
                        self._finish(work, Result(), cost, moment.monotonic)
                    else:
                        self._reconciles += 1
                        name = f"reconcile {work.namespace}/{work.name}"
                        task = asyncio.create_task(self._reconcile(work, self._reconciles, cost), name=name)
                        self._running.add(task)
                        task.add_done_callback(self._done)
                    # A plan is the longest stretch without an await; yield to the other tasks between plans.
                    await asyncio.sleep(0)
            except Exception:
                self._log.exception("could not plan")
                self._metrics.reconcile_failed(self._name)
                continue
            if not len(self.controller.queue):
                # Keys that had to wait for the caches leave stale entries.
                self._ready_since.clear()
            self._close_unwanted_streams()
            # Without a free worker or with incomplete caches a due timer could not be served anyway.
            acting = self.controller.synced and not self.controller.withheld
            serving = len(self._running) < self._workers and acting
            await self._clock.wait(self._wake, self.controller.queue.next_wakeup() if serving else None)

    def _measure(self, work: Work | None, started: float) -> float:
        seconds = self._clock.monotonic() - started
        if seconds > SLOW_PLAN:
            self._log.warning("slow plan blocked the event loop", seconds=round(seconds, 3))
        if work is not None:
            self._metrics.waited(self._name, started - self._ready_since.pop((work.namespace, work.name), started))
        return seconds

    def _ready(self, key: JobKey) -> None:
        self._ready_since[key] = self._clock.monotonic()
        self._wake.set()

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._wake.set()

    async def _reconcile(self, work: Work, number: int, cost: float) -> None:
        started = self._clock.monotonic()
        with bound_contextvars(job=f"{work.namespace}/{work.name}", reconcile_id=number):
            self._log.debug("reconcile", reason=work.plan.reason, actions=work.plan.actions)
            try:
                result = await self._execute(work)
            except Exception:
                # The plan is half done, so the key is requeued.
                self._log.exception("could not carry out the plan")
                self._metrics.reconcile_failed(self._name)
                result = Result(stale=True)
            self._finish(work, result, cost, started)

    def _finish(self, work: Work, result: Result, cost: float, started: float) -> None:
        try:
            moment = self._clock.moment()
            telemetry = self.controller.finish(work, result, moment, cost)
            if work.deferred:
                return
            self._tell(work, result)
            self._metrics.reconciled(self._name, moment.monotonic - started)
            self._metrics.published(self._name, work.namespace, telemetry)
            framework = self.controller.framework
            for event in telemetry.events:
                about = Reference(framework.api_version, framework.kind, work.namespace, work.name, work.uid)
                self._recorder.emit(framework.operator_name, about, event)
        except Exception:
            self.controller.queue.done(key := (work.namespace, work.name))
            self.controller.queue.add_rate_limited(key, self._clock.monotonic())
            self._log.exception("reconcile failed", failures=self.controller.queue.requeues(key))
            self._metrics.reconcile_failed(self._name)

    def _lapsed(self, key: JobKey, lapsed: Sequence[Expected]) -> None:
        """Log expectations that lapsed: a missed watch event, or an object that was created and deleted between two lists."""
        names = [str(expected) for expected in lapsed[:12]]
        self._log.warning("expectations lapsed", job="/".join(key), count=len(lapsed), expected=names)
        self._metrics.lapsed(self._name, len(lapsed))

    def _tell(self, work: Work, result: Result) -> None:
        if work.plan.reason == reasons.INTERNAL_ERROR:
            error = work.plan.events[0].message if work.plan.events else ""
            self._log.error("planning failed", error=error, exc_info=work.error)
            self._metrics.reconcile_failed(self._name)
        for outcome in result.outcomes:
            if isinstance(outcome.error, ManifestError):
                self._log.error("no manifest", action=str(outcome.action), exc_info=outcome.error.__cause__)
            if isinstance(outcome.error, ForeignAnswerError):
                self._log.warning("the outcome of a write is unknown", action=str(outcome.action), error=str(outcome.error))
            elif outcome.error is not None:
                log = self._log.info if answer_of(outcome) is Answer.REFUSED else self._log.debug
                log("write", action=str(outcome.action), effect=outcome.effect.value, error=str(outcome.error))
        if result.read_error is not None:
            refused = is_of_the_platform(result.read_error)
            log = self._log.warning if refused else self._log.info
            log("nothing done: a live read failed", error=str(result.read_error))
        elif result.stale:
            self._log.debug("stale: the job has changed since the decision")
        elif result.status_error is not None:
            self._log.info("status not written", error=str(result.status_error))
        elif result.status_version is not None and work.plan.status is not None and work.job is not None:
            before, after = work.job.status.conditions, work.plan.status.conditions
            if after and (not before or (before[-1].type, before[-1].reason) != (after[-1].type, after[-1].reason)):
                self._log.info("transition", to=after[-1].type, reason=after[-1].reason, message=after[-1].message)

    async def _heed_rival(self) -> None:
        """Let the controller act only while no other one holds the lease of the framework's rival."""
        controller = self.controller
        while True:
            try:
                found = await holder_of(self._transport, controller.framework.rival, self._clock.wall())
            except ClientError as error:
                found = controller.withheld
                if self._is_news("lease", str(error)):
                    self._log.warning("cannot find out whether another controller of the kind acts", error=str(error))
            if self._is_news("rival", found):
                text = f"{found}: this one does not act; stop that one to switch over" if found else "the kind is ours again"
                self._log.warning(text, kind=controller.framework.kind)
            controller.withheld = found
            self._wake.set()
            await self._clock.sleep(RIVAL_SECONDS)

    # -- caches ------------------------------------------------------------------------------------------------------

    async def _follow(self, name: str) -> None:
        informer = self.controller.informers[name]
        while True:
            try:
                match informer.next(self._clock.monotonic()):
                    case Sleep(until):
                        await self._clock.sleep_until(until)
                    case Fetch(request):
                        await self._fetch(name, informer, request)
                    case Stream(request):
                        await self._stream(name, informer, request)
            except Exception as error:
                # The relist repairs the store; queueing every job makes up for events lost after the store.
                self._log.exception("watch failed; relisting", resource=name)
                informer.failed(TransportError(str(error)), self._clock.monotonic())
                informer.relist()
                await self._clock.sleep(MISHAP_DELAY)
                self.controller.resync()
            self._log_cache_error(name, informer)

    async def _fetch(self, name: str, informer: Informer[Any], request: Request) -> None:
        try:
            response = await self._transport.send(request)
        except ClientError as error:
            informer.failed(error, self._clock.monotonic())
        else:
            batch = informer.received(response, now := self._clock.monotonic())
            self._take(name, batch)
            if batch.relisted is not None:
                self._heard_at[name] = now

    async def _stream(self, name: str, informer: Informer[Any], request: Request) -> None:
        """Read the stream in a task of its own, so that a silent stream can be closed."""
        poke = self._pokes[name]
        reader = asyncio.create_task(self._read(name, informer, request), name=f"watch {name}")
        reader.add_done_callback(lambda _: poke.set())
        try:
            while informer.streaming and not reader.done():
                poke.clear()
                await self._clock.wait(poke, informer.deadline)
                informer.timed_out(self._clock.monotonic())
        finally:
            if reader.done():
                await reader
            else:
                reader.cancel()
                await asyncio.wait((reader,))

    async def _read(self, name: str, informer: Informer[Any], request: Request) -> None:
        try:
            async with aclosing(self._transport.stream(request)) as lines:
                count = 0
                async for line in lines:
                    self._take(name, informer.line(line, now := self._clock.monotonic()))
                    if not informer.streaming:
                        return
                    self._heard_at[name] = now
                    count += 1
                    if count % LINES_PER_TURN == 0:
                        await asyncio.sleep(0)
        except ClientError as error:
            informer.failed(error, self._clock.monotonic())
        else:
            informer.ended(self._clock.monotonic())

    def _take(self, name: str, batch: Batch[Any]) -> None:
        for unreadable in batch.unreadable:
            self._log.warning("unreadable object skipped", resource=name, object=unreadable.identity, error=unreadable.error)
        self.controller.take(name, batch)
        if batch.relisted is not None:
            self._wake.set()

    def _close_unwanted_streams(self) -> None:
        """Close the watches that `begin` wants replaced by a list, because they stalled."""
        for name, informer in self.controller.informers.items():
            if not informer.streaming:
                self._pokes[name].set()

    def _log_unstored(self) -> None:
        unstored = self.controller.unstored
        if not self._is_news("schema", unstored.text):
            return
        if unstored.text:
            self._log.warning(unstored.text)
        else:
            self._log.info(f"the CustomResourceDefinition {unstored.definition} keeps the whole status again")

    def _is_news(self, what: str, text: str) -> bool:
        """Whether to log a state: each new text at once, the same one every `REPEAT_AFTER` seconds; "" only after another."""
        now = self._clock.monotonic()
        last, logged_at = self._logged.get(what, ("", 0.0))
        if text == last and (not text or now - logged_at < REPEAT_AFTER):
            return False
        self._logged[what] = (text, now)
        return True

    def _log_cache_error(self, name: str, informer: Informer[Any]) -> None:
        """Log why a cache is not up to date."""
        text = str(informer.last_error or "")
        if not self._is_news(name, text):
            return
        # The resource may be optional: then its error completes the sync.
        self._wake.set()
        if not text:
            self._log.info("cache is up to date again", resource=name)
        elif name == self.controller.jobs and self.crd_missing:
            kind, group = self.controller.framework.kind, self.controller.framework.api_version
            self._log.warning(
                f"{kind} ({group}) is not installed; waiting for it. Install it: jobcommon crds | kubectl apply -f -"
            )
        elif off := self.controller.caches.missing.get(name):
            self._log.warning(f"jobs go on without {name}: {off}")
        else:
            self._log.warning("cache is not up to date", resource=name, error=text)
