"""The manager: the operators of several frameworks in one process.

One transport, one bound on concurrency, one recorder and one set of metrics serve all of them; each framework has its own
controller and driver in each namespace, or for all together: a kind that is not installed, or a namespace without rights, does
not block the others. With leader election everything but the health
server waits for the lease, and each term starts with fresh caches.
"""

import asyncio
import random as chance
import signal
import socket
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from jobcommon.api.gang import candidates
from jobcommon.client.limiter import LimitedTransport, TokenBucket
from jobcommon.client.request import Transport
from jobcommon.client.transport import ELECTION_TIMEOUTS, LEADER_TIMEOUTS, Endpoint, HttpTransport, Timeouts
from jobcommon.controller.job_controller import JobController
from jobcommon.framework import Framework, Options, ProgressServer
from jobcommon.runtime import logging
from jobcommon.runtime.clock import Clock, SystemClock, cancelled
from jobcommon.runtime.discovery import find_gang_scheduler, refuse_to_queue_twice
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.flow_control import BackgroundTransport, FlowController
from jobcommon.runtime.health import serve_health
from jobcommon.runtime.leader import FencedTransport, LeaderElector, LeaseSettings, holder_identity
from jobcommon.runtime.logging import Log, log_start
from jobcommon.runtime.metrics import MeteredTransport, Metrics, Readings
from jobcommon.runtime.recorder import Recorder
from jobcommon.runtime.reports.account_tokens import AccountTokens
from jobcommon.runtime.reports.server import ReportedJob, certificate_in, serve_reports
from jobcommon.runtime.reports.writer import ReportWriter
from jobcommon.runtime.settings import Settings, is_loopback
from jobcommon.runtime.term import Term, free_pods_if_terminating
from jobcommon.runtime.writes import together

# The seconds, after the last plan, for each of the last steps: pods of a namespace that is being deleted, reports with events,
# the lease.
CLOSING_SECONDS = 3.0
# The jobs of which it is known when a report was not taken.
MAX_REFUSED = 10_000


@dataclass
class Env:
    """The sources of time, random numbers and names (rule R20)."""

    clock: Clock = field(default_factory=SystemClock)
    random: Callable[[], float] = chance.random
    identity: str = field(default_factory=lambda: holder_identity(socket.gethostname(), uuid.uuid4().hex))


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
        self.elector = self._make_elector(election_transport or transport) if settings.leader_elect else None
        self.unfenced = MeteredTransport(transport, self.metrics, clock)
        fenced = FencedTransport(self.unfenced, self.elector.held) if self.elector is not None else self.unfenced
        self._transport = self._limited(fenced)
        self.progress_server: ProgressServer | None = None
        self.reports: ReportWriter | None = None
        self._report_server = AsyncExitStack()
        # Since when reports can be taken, and by job the last one that was not.
        self._reachable_since: float | None = None
        self._refused: dict[tuple[str, ...], float] = {}
        self._term = self._new_term()
        self.flow_controller = FlowController(self._seats)
        events = BackgroundTransport(self._transport, self.flow_controller, "", "events")
        self.recorder = Recorder(events, clock, self.log, instance=self.env.identity)
        self._stop = asyncio.Event()
        self._report_leading(leads=False)

    @property
    def drivers(self) -> list[Driver]:
        """The drivers of this term, for each framework one in each namespace of the settings; empty without the lease."""
        return self._term.drivers

    @property
    def leads(self) -> bool:
        """Whether this process may write."""
        return self.elector is None or self.elector.held()

    @property
    def ready(self) -> bool:
        """Whether the caches have synced, or another process leads and this one is on standby."""
        return self._term.ready if self.leads or self.elector is None else bool(self.elector.leader)

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
                    self.env.clock,
                    self.log,
                    host=settings.metrics_host,
                    port=settings.metrics_port,
                    token=settings.metrics_token,
                )
                port = await stack.enter_async_context(server)
                self.log.info("serving /metrics, /healthz and /readyz", host=settings.metrics_host, port=port)
            if settings.progress_port is not None:
                await self.take_reports(stack, settings.progress_port)
            names = [framework.name for framework in self._frameworks]
            started = asyncio.create_task(log_start(self._transport, names, self.log), name="start line")
            recording = asyncio.create_task(self.recorder.run(), name="events")
            try:
                while not self._stop.is_set():
                    await self._lead()
                clock = self.env.clock
                executors = [self._executor(framework, self.unfenced) for framework in self._frameworks]
                leaving = (free_pods_if_terminating(one, self.unfenced, executors, self.log) for one in settings.namespaces)
                await clock.bounded(together(leaving), clock.monotonic() + CLOSING_SECONDS)
                # Not bounded: a server that is interrupted while it closes leaves its socket open.
                await self._report_server.aclose()
                until = clock.monotonic() + CLOSING_SECONDS
                finishing = [clock.bounded(self.reports.finish(), until)] if self.reports is not None else []
                await asyncio.gather(*finishing, self.recorder.flush(until))
                # The server may still process cancelled writes: then the lease must expire by itself.
                if self.elector is not None and self._term.drained:
                    await clock.bounded(self.elector.release(), clock.monotonic() + CLOSING_SECONDS)
            finally:
                await cancelled(started)
                await cancelled(recording)
        self.log.info("stopped")

    async def take_reports(self, stack: AsyncExitStack, port: int) -> None:
        """Serve programs that report their progress. Every replica does, whether it leads or not."""
        settings, clock = self.settings, self.env.clock
        tokens, writer = AccountTokens(self.unfenced, clock, self.log), self.report_writer()
        self.reports = writer
        for work, name in ((tokens.run(), "keys"), (writer.run(), "reports")):
            stack.push_async_callback(cancelled, asyncio.create_task(work, name=name))
        # What a job wants may depend on whether reports are taken.
        taking = replace(settings.options, progress=ProgressServer("", ""))
        host, directory = settings.report_host, Path(settings.progress_tls)
        server = serve_reports(
            [replace(one, options=taking) for one in self._frameworks], tokens.pod_of, tokens.refresh, writer.take, self.log,
            host=host, port=port, directory=directory, refused=self._report_refused,
        )  # fmt: skip
        await stack.enter_async_context(self._report_server)
        port = await self._report_server.enter_async_context(server)
        self._reachable_since = clock.monotonic()
        where = f"[{host}]" if ":" in host else host
        url = settings.progress_url or f"https://{where}:{port}"
        self.progress_server = ProgressServer(url, certificate_in(directory))
        self.log.info("taking reports of progress", host=host, port=port, url=url)
        if is_loopback(host) and not settings.reports_are_local:
            self.log.warning("pods reach the loopback interface only through a proxy beside the operators", host=host, url=url)

    def _report_refused(self, job: ReportedJob | None) -> None:
        """In any thread. No stall is concluded from reports that were not taken: of the job, or of all without one."""
        now = self.env.clock.monotonic()
        self.metrics.report_refused(job.framework.name if job is not None else "")
        if job is None:
            self._reachable_since = now
            return
        if job.key not in self._refused and len(self._refused) >= MAX_REFUSED:
            # Tokens may name jobs that do not exist.
            self._refused.pop(next(iter(self._refused)), None)
        self._refused[job.key] = now

    def reachable_since(self, *job: str) -> float | None:
        """Since when (monotonic seconds) this process has taken every report of a job: of its plural, namespace and name."""
        known = (since for since in (self._reachable_since, self._refused.get(job)) if since is not None)
        return max(known, default=None)

    def report_writer(self) -> ReportWriter:
        """A writer of the reports that reach this replica. It needs no lease."""
        return ReportWriter(
            self.unfenced, partial(self._executor, transport=self.unfenced), self.env.clock, self.log, self.metrics
        )

    async def _lead(self) -> None:
        """Lead for one term: from acquiring the lease, if there is one, to losing it or being stopped."""
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        holding = None
        try:
            if self.elector is not None:
                acquiring = asyncio.create_task(self.elector.acquire(), name="election")
                await asyncio.wait((acquiring, stopped), return_when=asyncio.FIRST_COMPLETED)
                if not acquiring.done():
                    await cancelled(acquiring)
                    return
                acquiring.result()
                holding = asyncio.create_task(self.elector.hold(), name="lease")
            self._term = self._new_term()
            self._report_leading(leads=True)
            await self._term.run(stopped, holding)
        finally:
            self._report_leading(leads=False)
            # Without the lease caches are out of date.
            self.metrics.watch({})
            for task in (stopped, holding):
                if task is not None:
                    await cancelled(task)

    def _report_leading(self, *, leads: bool) -> None:
        if self.elector is not None:
            self.metrics.leading(self.settings.lease_name, leads)

    def _new_term(self) -> Term:
        return Term(self.make_drivers, self.settings.shutdown_seconds, self.env.clock, self.log)

    async def make_drivers(self) -> list[Driver]:
        """New drivers of all frameworks, for one term. The gauges are read from them.

        Raises ValueError if the operators own the Workloads of a kind that Kueue queues itself.
        """
        options = replace(self.settings.options, progress=self.progress_server)
        if options.kueue:
            queued = [framework for framework in self._frameworks if not framework.queued_by_kueue]
            await refuse_to_queue_twice(self._transport, self.env.clock, self.log, queued)
        if asked := [s for s in candidates(self.settings.gang_scheduler_name) if not (s.native and options.kueue)]:
            gang = await find_gang_scheduler(self._transport, self.env.clock, self.log, asked)
            options = replace(options, gang=gang or options.gang)
        drivers = {
            framework.name: [self._driver(_with_options(framework, options), of) for of in self._watched]
            for framework in self._frameworks
        }
        self.metrics.watch({name: partial(_readings, found) for name, found in drivers.items()})
        return [driver for found in drivers.values() for driver in found]

    @property
    def _watched(self) -> tuple[str | None, ...]:
        """The namespace of each driver of a framework; None for all."""
        return self.settings.namespaces or (None,)

    def _driver(self, framework: Framework, namespace: str | None) -> Driver:
        settings, clock, transport = self.settings, self.env.clock, self._transport
        controller = JobController(framework, self.env.random, namespace)
        controller.reachable_since = partial(self.reachable_since, framework.plural)
        execute = self._executor(framework, transport).execute
        log = self.log if namespace is None else self.log.bind(namespace=namespace)
        return Driver(controller, transport, execute, clock, self.metrics, self.recorder, log, workers=settings.workers)

    def _executor(self, framework: Framework, transport: Transport) -> Executor:
        return Executor(framework, transport, self.flow_controller, self.settings.slow_start_cap, self.env.clock)

    def _limited(self, transport: Transport) -> Transport:
        settings, clock = self.settings, self.env.clock
        if settings.qps is None:
            return transport
        bucket = TokenBucket(settings.qps, settings.burst or max(settings.qps, 1.0), clock.monotonic, clock.sleep_until)
        return LimitedTransport(transport, bucket.take)

    @property
    def _seats(self) -> int:
        """The maximum of requests in flight.

        With a rate limit, at most the number that it admits in a second: it serves requests in order of arrival, which would
        undo the fairness between jobs.
        """
        settings = self.settings
        return settings.concurrency if settings.qps is None else min(settings.concurrency, max(int(settings.qps), 1))

    def _make_elector(self, transport: Transport) -> LeaderElector:
        settings = self.settings
        lease = LeaseSettings(
            settings.lease_namespace or "default",
            settings.lease_name,
            self.env.identity,
            settings.lease_duration,
            settings.renew_deadline,
            settings.retry_period,
        )
        return LeaderElector(transport, lease, self.env.clock, self.env.random, self.log)


def _with_options(framework: Framework, options: Options) -> Framework:
    return replace(framework, options=replace(options, kueue=options.kueue and not framework.queued_by_kueue))


def _readings(drivers: Sequence[Driver]) -> Readings:
    """Of the drivers of one framework. Thread-safe."""
    controllers = [driver.controller for driver in drivers]
    oldest: dict[str, float] = {}
    for driver in drivers:
        oldest |= {name: max(age, oldest.get(name, 0.0)) for name, age in driver.cache_ages.items()}
    return Readings(
        depth=sum(len(one.queue) for one in controllers),
        jobs=sum((one.conditions for one in controllers), Counter()),
        cache_ages=oldest,
        unstored=max(len(one.unstored.fields) for one in controllers),
    )


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
    sense, or that Kueue's configuration contradicts, and OSError when the metrics port is in use. The transports stay open.
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
    timeouts = LEADER_TIMEOUTS if settings.leader_elect else Timeouts()
    transport = HttpTransport(endpoint, timeouts=timeouts, concurrency=settings.concurrency)
    election = HttpTransport(endpoint, timeouts=ELECTION_TIMEOUTS, concurrency=2)
    try:
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
