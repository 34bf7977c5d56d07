"""One simulated run: `simulate(scenario, seed, faults)`.

A run is over when nothing has changed for a while, nothing is due, and the last fault has been over for long enough to have
been recovered from; then the operators are asked to end.
"""

import hashlib
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.canonical import end_state
from jobcommon.testutil.sim.fault_scheduler import FaultScheduler
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.faulty_network import FaultyNetwork
from jobcommon.testutil.sim.kubelet import Kubelet, Scheduler, drawing
from jobcommon.testutil.sim.loop import DeadlockError, SimLoop
from jobcommon.testutil.sim.network import Links, Write
from jobcommon.testutil.sim.oracles import Watchdog
from jobcommon.testutil.sim.processes import Deployment, Process
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.user import User
from localcluster import ApiServer, Controllers, Env
from localcluster.model import Change, Controller, Obj, Resource, resources_of

QUIET_SECONDS = 65.0
"""A run is at rest after this time without a change and with nothing due: a cache that failed to list retries in a minute."""
RECOVERY_SECONDS = 155.0
"""After the last fault: the liveness bound (oracle O4) with a margin."""
HOLD_SECONDS = 60.0
STOP_SECONDS = 60.0
MOST_PLANS = 300
"""How often a process may come to plan one job in a minute: the most seen without a defect is 95."""
_POLL = 5.0
_HISTORY = 4096
_UNSEEN = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")
#: Latencies of requests and watches, by seed: a fast network, a slow one, a very slow one.
_PROFILES = (((0.0005, 0.005), (0.001, 0.02)), ((0.0005, 0.05), (0.001, 0.2)), ((0.005, 0.5), (0.01, 2.0)))


_compiled: dict[bytes, list[Resource]] = {}


def _resources(definition: Obj) -> list[Resource]:
    """What a definition serves, which follows from its spec alone: compiled once for all servers of a process."""
    spec = msgspec.json.encode(definition["spec"])
    if spec not in _compiled:
        _compiled[spec] = resources_of(definition)
    return _compiled[spec]


def is_slow(seed: int) -> bool:
    """Whether a request takes up to a second by this seed, and a watch two."""
    return seed % len(_PROFILES) == len(_PROFILES) - 1


@dataclass
class Run:
    """A run and its results. Times are virtual seconds since its start."""

    seed: int
    faults: tuple[Fault, ...]
    history: str = ""
    """The SHA-256 of all changes of the store, keys in Secrets left out."""
    end: bytes = b""
    trace: list[Write] = field(default_factory=list)
    summary: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    runs: Mapping[str, int] = field(default_factory=dict)
    settled_at: float = 0.0
    """The last change, except of leases and events."""
    recovered_at: float = 0.0
    """When the last fault was over; 0 without one."""
    writes_at_rest: int = 0
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)


class _Actor:
    """An actor with the time of its next step."""

    def __init__(self, actor: Controller) -> None:
        self.actor = actor
        self.due: float | None = None

    def step(self) -> float | None:
        self.due = self.actor.step()
        return self.due


class Simulation:
    """The parts of one run, put together."""

    def __init__(self, scenario: Scenario, seed: int, faults: Sequence[Fault]) -> None:
        self.scenario = scenario
        self.run = Run(seed, tuple(faults))
        self.loop = SimLoop()
        self.random = Random(f"{seed}/engine")  # noqa: S311 - reproducibility is the point
        now: Callable[[], float] = lambda: START + self.loop.time()  # noqa: E731
        self.server = ApiServer(Env.seeded(seed, now), history=_HISTORY, compiled=_resources)
        self.network = FaultyNetwork(self, faults)
        self.links = Links(self.loop, self.server, Random(f"{seed}/network"), self.network, START)  # noqa: S311
        self.network.links = self.links
        self.links.request_seconds, self.links.watch_seconds = _PROFILES[seed % len(_PROFILES)]
        self.watchdog = Watchdog(scenario)
        self._hash = hashlib.sha256()
        self._feed: deque[Change] = self.server.storage.feed()
        self.server.storage.listeners.add(self._see)
        draw = drawing(Random(f"{seed}/world").getrandbits(64))  # noqa: S311
        self.kubelet = Kubelet(self.server, scenario, draw)
        # The kinds of the frameworks and the jobs are created by the user as its first steps.
        self.actors = [_Actor(a) for a in (User(self.server, scenario), Scheduler(self.server, draw), self.kubelet)]
        self.controllers = Controllers(self.server, more=tuple(self.actors))
        self.controllers.wake = self.wake
        self._stepping = False
        self._awake = False
        self._timer = self.loop.call_at(0.0, self._step, context=self.links.world)
        self.processes: list[Process] = []
        self.deployment = Deployment(scenario.frameworks, _settings(scenario, faults))
        self.fault_scheduler = FaultScheduler(self, faults)

    # -- the cluster ----------------------------------------------------------------------------------------------------

    def _see(self) -> None:
        at, writer = self.loop.time(), self.links.writer
        while self._feed:
            change = self._feed.popleft()
            item = change.item
            body = b"" if change.table == "secrets" else item.body
            self._hash.update(f"\n{at:.6f} {change.type} {change.table} {item.namespace}/{item.name} {item.rv} ".encode())
            self._hash.update(body)
            if change.table not in _UNSEEN:
                self.run.settled_at = at
                if writer != "world":
                    self.run.writes_at_rest += 1
            self.watchdog.see(at, change, writer)

    def wake(self) -> None:
        """Have the actors step soon."""
        if not self._awake and not self._stepping:
            self._awake = True
            self._timer.cancel()
            self._timer = self.links.later((0.001, 0.02), self._step)

    def _step(self) -> None:
        self._awake, self._stepping = False, True
        try:
            due = self.controllers.step()
        finally:
            self._stepping = False
        if due is not None and not self._awake:
            # Unix seconds are rounded; slightly later it is certainly due.
            when = max(due - START, self.loop.time()) + 1e-6
            self._timer = self.loop.call_at(when, self._step, context=self.links.world)

    # -- the operators --------------------------------------------------------------------------------------------------

    def start(self, deployment: Deployment | None = None) -> Process:
        """Start another operator process."""
        number = len(self.processes)
        random = Random(f"{self.run.seed}/operator-{number}")  # noqa: S311
        process = Process(
            f"operator-{number}", deployment or self.deployment, self.links, random, START, self.run.errors.append
        )
        self.processes.append(process)
        process.start()
        return process

    @property
    def alive(self) -> list[Process]:
        """The processes that run."""
        return [process for process in self.processes if process.alive]

    def crash(self, process: str) -> None:
        """Kill it; another one replaces it shortly after."""
        for one in self.alive:
            if one.name == process:
                one.crash()
                self.fault_scheduler.recovers_by(self.loop.time() + 3.0)
                self.fault_scheduler.restart_after(self.random.uniform(0.5, 3.0))

    def inject(self, fault: Fault, process: str) -> None:
        """See `FaultTarget.inject`."""
        self.fault_scheduler.inject(fault, process)

    # -- the run --------------------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """From the start to the end."""
        self.start()
        while not self._at_rest():
            if self.loop.time() >= self._horizon:
                break
            await self.sleep(_POLL)
        self.run.writes_at_rest = 0
        self._look_at_all()
        await self.sleep(HOLD_SECONDS)
        self.run.end = end_state(self.server)
        self._look_for_leaks()
        await self._stop()

    async def sleep(self, seconds: float) -> None:
        future = self.loop.create_future()
        self.loop.call_later(seconds, future.set_result, None)
        await future

    def _at_rest(self) -> bool:
        now, recovered_at = self.loop.time(), self.fault_scheduler.recovered_at
        if now < self.run.settled_at + QUIET_SECONDS or self.fault_scheduler.pending:
            return False
        if recovered_at and now < recovered_at + RECOVERY_SECONDS:
            return False
        dues = [a.due - START for a in self.actors if a.due is not None]
        dues += [due for process in self.alive if (due := process.next_due) is not None]
        if any(due < self._horizon for due in dues):
            return False
        return all(process.idle for process in self.alive) and all(
            a.actor.done for a in self.actors if isinstance(a.actor, User)
        )

    def _look_at_all(self) -> None:
        """At rest there is nothing to do for any job, also for those that had no cause to be reconciled."""
        for process in self.alive:
            for driver in process.manager.drivers if process.manager is not None else ():
                driver.controller.resync()

    def _look_for_leaks(self) -> None:
        """State that operators keep of deleted jobs, and expectations that cannot be met any more (oracles O6, O7)."""
        leaked = self.run.leaked
        for process in self.alive:
            for driver in process.manager.drivers if process.manager is not None else ():
                controller = driver.controller
                jobs = len(controller.informers[controller.jobs].store)
                for what, size, allowed in (
                    ("expectations", len(controller.expectations), 0),
                    ("barrier", len(controller.barrier), jobs),
                    ("memory", len(controller.states), jobs),
                    ("orphans", len(controller.orphans), 0),
                    ("strays", len(controller.strays), 0),
                    ("back-off", controller.queue.failing, 0 if process.leads and self.loop.time() < self._horizon else jobs),
                ):
                    if size > allowed:
                        leaked.append(f"{process.name} {controller.framework.name}: {what} of {size}, {jobs} jobs")

    def _hot_loops(self) -> Iterator[str]:
        """Jobs that were planned over and over: what was seen changes less often, and what fails is backed off from."""
        for process in self.processes:
            for (key, minute), count in process.queued.items():
                if count > MOST_PLANS:
                    yield f"hot-loop at {60 * minute:.2f}: {process.name} came {count} times to {'/'.join(key)} in a minute"

    @property
    def _horizon(self) -> float:
        return self.scenario.horizon + self.fault_scheduler.recovered_at

    async def _stop(self) -> None:
        for process in self.alive:
            process.stop()
        until = self.loop.time() + STOP_SECONDS
        while self.alive and self.loop.time() < until:
            await self.sleep(0.5)
        for process in self.alive:
            self.run.leaked.append(f"{process.name} did not end within {STOP_SECONDS:.0f} s")
            process.crash()
        await self.sleep(0.01)
        for process in self.processes:
            left = [task.get_name() + repr(task.get_coro()) for task in self.loop.tasks_of(process.name)]
            self.run.leaked += [f"{process.name}: task {name}" for name in left]

    def result(self) -> Run:
        """Run it."""
        run = self.run
        self.loop.set_exception_handler(lambda _, context: run.errors.append(str(context)))
        try:
            self.loop.run(self.main())
        except DeadlockError as error:
            run.errors.append(f"deadlock: {error}")
        run.recovered_at = self.fault_scheduler.recovered_at
        run.history = self._hash.hexdigest()
        run.trace, run.fired = self.network.trace, self.network.fired
        run.violations = [*self.watchdog.violations, *self._hot_loops()]
        run.summary = self.watchdog.summary
        run.runs = dict(self.kubelet.runs)
        return run


def simulate(scenario: Scenario, seed: int, faults: Sequence[Fault] = ()) -> Run:
    """Run `scenario` once, by `seed`, with `faults`. The same arguments give the same `history`.

    Raises OutsideWorldError when something in it reaches for sockets, threads, processes or real time.
    """
    return Simulation(scenario, seed, faults).result()


def _settings(scenario: Scenario, faults: Sequence[Fault]) -> Settings:
    """With leader election when a fault is about it, or makes two operators of one."""
    about_leases = any(fault.kind in ("lease-lost", "upgrade") for fault in faults)
    return replace(scenario.settings, leader_elect=True) if about_leases else scenario.settings
