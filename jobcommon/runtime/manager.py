"""The manager: the operators of several frameworks in one process.

One transport, one bound on concurrency, one recorder and one set of metrics serve all of them; each framework has its own
controller and driver, so a kind that is not installed does not block the others. With leader election everything but the health
server waits for the lease, and each term starts with fresh caches. With shards there is a lease for each, and one that all
replicas with the same number of shards hold together: while they do, no replica with another number acts.
"""

import asyncio
import random as chance
import signal
import socket
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

from jobcommon.api.gang import AUTO
from jobcommon.api.shard import OF_CANDIDATE, OF_SHARD, Shard
from jobcommon.client.limiter import LimitedTransport, TokenBucket
from jobcommon.client.request import Transport
from jobcommon.client.transport import ELECTION_TIMEOUTS, LEADER_TIMEOUTS, Endpoint, HttpTransport, Timeouts
from jobcommon.controller.job_controller import JobController
from jobcommon.controller.report import Report
from jobcommon.controller.result import Work
from jobcommon.framework import Framework
from jobcommon.runtime import logging
from jobcommon.runtime.clock import Clock, SystemClock
from jobcommon.runtime.competition import Competition
from jobcommon.runtime.discovery import find_gang_scheduler
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.fence import AllFences, AnyFence, Fence, FencedTransport
from jobcommon.runtime.flow_control import BackgroundTransport, FlowController
from jobcommon.runtime.health import serve_health
from jobcommon.runtime.leader import LeaderElector, LeaseSettings, identity
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metered import MeteredTransport
from jobcommon.runtime.metrics import Metrics
from jobcommon.runtime.recorder import Recorder, Reference
from jobcommon.runtime.settings import Settings
from jobcommon.runtime.shard_operator import ShardOperator, cancelled, readings
from jobcommon.runtime.stalls import event_loop_watchdog
from jobcommon.runtime.start_line import log_start
from jobcommon.runtime.terminating_namespace import release_if_terminating

# The seconds, after the last write, for each of the last steps: pods of a namespace that is being deleted, events, the lease.
CLOSING_SECONDS = 3.0


@dataclass
class Env:
    """The sources of time, random numbers and names (rule R20)."""

    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = chance.random
    identity: str = field(default_factory=lambda: identity(socket.gethostname(), uuid.uuid4().hex))


@dataclass
class _Reporter:
    """Forwards a driver's reports: counts to the metrics, events to the recorder."""

    framework: Framework
    metrics: Metrics
    recorder: Recorder

    def waited(self, seconds: float) -> None:
        self.metrics.waited(self.framework.name, seconds)

    def finished(self, work: Work, report: Report, seconds: float) -> None:
        self.metrics.reconciled(self.framework.name, seconds)
        self.metrics.reported(self.framework.name, work.namespace, report)
        kind, version = self.framework.kind, self.framework.api_version
        for event in report.events:
            about = Reference(version, kind, work.namespace, work.name, work.uid)
            self.recorder.emit(self.framework.operator_name, about, event)

    def failed(self) -> None:
        self.metrics.reconcile_failed(self.framework.name)

    def lapsed(self, count: int) -> None:
        self.metrics.lapsed(self.framework.name, count)


class Manager:
    """Runs `frameworks` against `transport` until stopped.

    `election_transport` carries nothing but the lease, so that load cannot lose it.
    """

    def __init__(
        self,
        transport: Transport,
        frameworks: Sequence[Framework],
        settings: Settings,
        *,
        election_transport: Transport | None = None,
        env: Env | None = None,
        log: Log | None = None,
    ) -> None:
        if not frameworks:
            raise ValueError("no framework to run; name at least one")
        self.settings = settings
        self.env = env or Env()
        self.log = log or logging.setup(settings.log_format, settings.log_level)
        self.metrics = Metrics()
        clock = self.env.clock
        self._frameworks = list(frameworks)
        self._unfenced = MeteredTransport(transport, self.metrics, clock)
        self._bucket = None
        if settings.qps is not None:
            burst = settings.burst or max(settings.qps, 1.0)
            self._bucket = TokenBucket(settings.qps, burst, clock.monotonic, clock.sleep_until)
        self.elector: LeaderElector | None = None
        """Of the lease of the leader, or with shards of the one that all replicas hold together."""
        self._competition: Competition | None = None
        self.shards = self._make_shards(election_transport or transport)
        self._transport = self._fenced(AnyFence([operator.fence for operator in self.shards]))
        self._schema_turn = asyncio.Lock()
        self.flow_controller = FlowController(self._seats)
        events = BackgroundTransport(self._transport, self.flow_controller, "", "events")
        self.recorder = Recorder(events, clock, self.log, instance=self.env.identity)
        self._stop = asyncio.Event()

    @property
    def drivers(self) -> list[Driver]:
        """The drivers of all shards that this process holds."""
        return [driver for operator in self.shards for driver in operator.drivers]

    @property
    def leads(self) -> bool:
        """Whether this process may write for any job."""
        return any(operator.fence.held() for operator in self.shards)

    @property
    def ready(self) -> bool:
        """Whether the caches have synced, or other processes lead and this one is on standby."""
        if self.elector is not None and not self.leads:
            return bool(self.elector.leader)
        return all(operator.ready for operator in self.shards if operator.fence.held())

    def stop(self) -> None:
        """Start no new work, finish the writes in flight, release the lease; `run` then returns."""
        if not self._stop.is_set():
            self.log.info("stopping")
        self._stop.set()

    async def run(self) -> None:
        """Run until `stop`. Cancelling it cancels the writes in flight."""
        settings = self.settings
        async with AsyncExitStack() as stack:
            if settings.metrics_port is not None:
                server = serve_health(
                    self.metrics,
                    lambda: self.ready,
                    host=settings.metrics_host,
                    port=settings.metrics_port,
                    token=settings.metrics_token,
                )
                port = await stack.enter_async_context(server)
                self.log.info("serving /metrics, /healthz and /readyz", host=settings.metrics_host, port=port)
            names = [framework.name for framework in self._frameworks]
            started = asyncio.create_task(log_start(self._transport, names, self.log), name="start line")
            recording = asyncio.create_task(self.recorder.run(), name="events")
            try:
                while not self._stop.is_set():
                    await self._term()
                clock = self.env.clock
                if settings.namespace is not None:
                    operators = [framework.operator_name for framework in self._frameworks]
                    leaving = release_if_terminating(settings.namespace, operators, self._unfenced, self.log)
                    await clock.bounded(leaving, clock.monotonic() + CLOSING_SECONDS)
                await self.recorder.flush(clock.monotonic() + CLOSING_SECONDS)
                await clock.bounded(self._release(), clock.monotonic() + CLOSING_SECONDS)
            finally:
                await cancelled(started)
                await cancelled(recording)
        self.log.info("stopped")

    async def _term(self) -> None:
        """One term: from acquiring the lease, if there is one, to losing it or being stopped."""
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            if self.elector is not None:
                acquiring = asyncio.create_task(self.elector.acquire(), name="election")
                await asyncio.wait((acquiring, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not acquiring.done():
                    await cancelled(acquiring)
                    return
                acquiring.result()
            if self._competition is None or self.elector is None:
                await self.shards[0].term(self._stop)
            else:
                await self._compete(self._competition, self.elector)
        finally:
            await cancelled(stopped)

    async def _compete(self, competition: Competition, group: LeaderElector) -> None:
        """Compete for shards while the lease of all replicas with as many shards is held."""
        holding = asyncio.create_task(group.hold(), name="lease")
        competing = asyncio.create_task(competition.run(self._stop), name="competition")
        try:
            await asyncio.wait((competing, holding), return_when=asyncio.FIRST_COMPLETED)
            if competing.done():
                competing.result()
        finally:
            await cancelled(competing)
            await cancelled(holding)

    async def _release(self) -> None:
        """Release the leases whose writes have ended. The server may still process cancelled ones; those leases must expire."""
        if self._competition is not None:
            await self._competition.release()
        elif self.elector is not None and self.shards[0].drained:
            await self.elector.release()

    async def drivers_for(self, operator: ShardOperator) -> list[Driver]:
        """New drivers of all frameworks, for one term."""
        options = self.settings.options
        if self.settings.gang_scheduler_name == AUTO:
            gang = await find_gang_scheduler(self._transport, self.env.clock, self.log)
            options = replace(options, gang=gang)
        return [self._driver(replace(framework, options=options), operator) for framework in self._frameworks]

    def _driver(self, framework: Framework, operator: ShardOperator) -> Driver:
        settings, clock, fence = self.settings, self.env.clock, operator.fence
        transport = self._fenced(fence)
        controller = JobController(framework, self.env.random, settings.namespace, operator.shard)
        executor = Executor(framework, transport, self.flow_controller, fence, settings.slow_start_cap, clock)
        reporter = _Reporter(framework, self.metrics, self.recorder)
        turn, workers = self._schema_turn, settings.workers
        return Driver(controller, transport, executor, clock, reporter, self.log, workers=workers, schema_turn=turn)

    def _watch(self) -> None:
        """Read the gauges from the drivers that there are now. Without the lease caches are out of date."""
        by_name: dict[str, list[Driver]] = {}
        for driver in self.drivers:
            by_name.setdefault(driver.controller.framework.name, []).append(driver)
        self.metrics.watch({name: readings(drivers) for name, drivers in by_name.items()})

    def _fenced(self, fence: Fence) -> Transport:
        transport = FencedTransport(self._unfenced, fence)
        return LimitedTransport(transport, self._bucket.take) if self._bucket is not None else transport

    def _make_shards(self, election: Transport) -> list[ShardOperator]:
        settings, env, number = self.settings, self.env, self.settings.shards
        if not settings.elects:
            return [self._shard_operator(None, None)]
        if number == 1:
            self.elector = self._elector(election)
            return [self._shard_operator(None, self.elector, self.elector)]
        self.elector = group = self._elector(election, group=f"{number} shards")
        electors = [self._elector(election, f"{OF_SHARD}{index}") for index in range(number)]
        operators = [
            self._shard_operator(Shard(index, number), elector, group, elector) for index, elector in enumerate(electors)
        ]
        self._competition = Competition(
            list(zip(operators, electors, strict=True)),
            self._elector(election, OF_CANDIDATE),
            env.identity,
            settings.retry_period,
            env.clock,
            env.random,
        )
        return operators

    @property
    def _seats(self) -> int:
        """The maximum of requests in flight.

        With a rate limit, at most the number that it admits in a second: it serves requests in order of arrival, which would
        undo the fairness between jobs.
        """
        settings = self.settings
        return settings.concurrency if settings.qps is None else min(settings.concurrency, max(int(settings.qps), 1))

    def _shard_operator(self, shard: Shard | None, elector: LeaderElector | None, *fences: Fence) -> ShardOperator:
        settings, env = self.settings, self.env
        fence = AllFences(fences)
        return ShardOperator(
            shard, elector, fence, self.drivers_for, self._watch, settings.shutdown_seconds, env.clock, self.metrics, self.log
        )

    def _elector(self, transport: Transport, suffix: str = "", group: str = "") -> LeaderElector:
        """Of the lease with that suffix; the identity is that of the `group` if there is one."""
        settings = self.settings
        lease = LeaseSettings(
            settings.lease_namespace or "default",
            settings.lease_name + suffix,
            group or self.env.identity,
            settings.lease_duration,
            settings.renew_deadline,
            settings.retry_period,
            shared=bool(group),
        )
        return LeaderElector(transport, lease, self.env.clock, self.env.random, self.log)


async def run_operators(
    transport: Transport,
    frameworks: Sequence[Framework],
    settings: Settings,
    *,
    election_transport: Transport | None = None,
    stop: asyncio.Event | None = None,
    handle_signals: bool = False,
    env: Env | None = None,
    log: Log | None = None,
) -> None:
    """Run the operators of `frameworks` against the API server behind `transport`.

    Returns after `stop` is set or, with `handle_signals`, after SIGTERM or SIGINT, once the writes in flight are done, at
    most 30 seconds later. A second signal, or cancelling, aborts at once. Raises ValueError for settings that make no
    sense and OSError when the metrics port is in use. The transports stay open.
    """
    manager = Manager(transport, frameworks, settings, election_transport=election_transport, env=env, log=log)
    running = asyncio.create_task(manager.run(), name="manager")
    watching = asyncio.create_task(_stop_with(stop, manager), name="stop signal") if stop is not None else None
    try:
        with _signals(manager, running) if handle_signals else nullcontext():
            await running
    finally:
        if watching is not None:
            await cancelled(watching)
        await cancelled(running)


async def run_against(
    endpoint: Endpoint,
    frameworks: Sequence[Framework],
    settings: Settings,
    *,
    stop: asyncio.Event | None = None,
    handle_signals: bool = False,
) -> None:
    """`run_operators` over HTTP, with connections and timeouts as the settings need them.

    The lease has connections of its own. With leader election no write is sent once the lease could have gone to another
    process (rule R8).
    """
    settings = replace(settings, lease_namespace=settings.lease_namespace or endpoint.namespace)
    timeouts = LEADER_TIMEOUTS if settings.elects else Timeouts()
    transport = HttpTransport(endpoint, timeouts=timeouts, concurrency=settings.concurrency)
    election = HttpTransport(endpoint, timeouts=ELECTION_TIMEOUTS, concurrency=1 + settings.shards)
    try:
        async with event_loop_watchdog():
            await run_operators(
                transport, frameworks, settings, election_transport=election, stop=stop, handle_signals=handle_signals
            )
    finally:
        await transport.close()
        await election.close()


async def _stop_with(stop: asyncio.Event, manager: Manager) -> None:
    await stop.wait()
    manager.stop()


@contextmanager
def _signals(manager: Manager, running: asyncio.Task[None]) -> Iterator[None]:
    """SIGTERM and SIGINT stop the manager; the second one does not wait any more."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    received = 0

    def on_signal() -> None:
        nonlocal received
        received += 1
        if received == 1:
            manager.stop()
        else:
            running.cancel()

    for number in numbers:
        loop.add_signal_handler(number, on_signal)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
