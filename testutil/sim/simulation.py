"""One simulated run: `simulate(scenario, seed, faults)`.

A run is over when nothing has changed for a while, nothing is due, and the last fault has been over for long enough to have
been recovered from; then the operators are asked to end.
"""

import hashlib
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec

from jobcommon.api.observed import Observed
from jobcommon.api.status import read_status
from jobcommon.controller import job_controller
from jobcommon.controller.workqueue import WorkQueue
from jobcommon.framework import Framework, Job
from jobcommon.reconcile import plan
from jobcommon.reconcile.ending import STOPPED
from jobcommon.reconcile.plan import Plan
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.builders import START
from jobcommon.testutil.invariants import check_deeds, check_plan
from jobcommon.testutil.oracles import Oracles
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.loop import PROCESS, DeadlockError, SimLoop
from jobcommon.testutil.sim.network import Links, Write
from jobcommon.testutil.sim.nodes import Nodes
from jobcommon.testutil.sim.processes import Process
from jobcommon.testutil.sim.scenario import Scenario, User
from localcluster import ApiServer, Controllers, Env
from localcluster.model import Change, Obj, Resource, resources_of

QUIET_SECONDS = 65.0
"""A run is at rest after this time without a change and with nothing due: a cache that failed to list retries in a minute."""
RECOVERY_SECONDS = 155.0
"""After the last fault: the bound on liveness with a margin."""
HOLD_SECONDS = 60.0
STOP_SECONDS = 60.0
MOST_PLANS = 300
"""How often a process may come to one job in a minute: the most seen without a defect is 95."""
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


@dataclass
class Run:
    """A run and its results. Times are virtual seconds since its start."""

    faults: tuple[Fault, ...]
    history: str = ""
    """The SHA-256 of all changes of the store, keys in Secrets left out."""
    end: dict[str, str] = field(default_factory=dict)
    """What has come of each job and pod, by its name; of other objects of jobs that they are there.

    Of a pod it is the phase and how often its containers were restarted: less often if it was made anew instead of kept.
    """
    trace: list[Write] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    """The starts of the main program by pod name."""
    keys: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """How often a process came to a job in a minute."""
    settled_at: float = 0.0
    """The last change, except of leases and events."""
    recovered_at: float = 0.0
    """When the last fault was over; 0 without one."""
    writes_at_rest: int = 0
    violations: list[str] = field(default_factory=list)
    """Broken promises, by job."""
    errors: list[str] = field(default_factory=list)
    leaked: list[str] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)


class Simulation:
    """The parts of one run, put together."""

    def __init__(self, scenario: Scenario, seed: int, faults: Sequence[Fault]) -> None:
        self.scenario = scenario
        self.run, self.seed = Run(tuple(faults)), seed
        self.loop = SimLoop()
        now: Callable[[], float] = lambda: START + self.loop.time()  # noqa: E731
        self.server = ApiServer(Env.seeded(seed, now), history=_HISTORY, compiled=_resources)
        self.links = Links(self, faults, self.loop, self.server, seed)
        self.links.request_seconds, self.links.watch_seconds = _PROFILES[seed % len(_PROFILES)]
        self._hash = hashlib.sha256()
        self._feed: deque[Change] = self.server.storage.feed()
        self.server.storage.listeners.add(self._see)
        self._judged = {job["metadata"]["name"] for job in scenario.jobs}
        self._oracles: dict[str, Oracles] = {}
        self.nodes = Nodes(self.server, scenario, seed)
        # The kinds of the frameworks and the jobs are created by the user as its first steps.
        self.user = User(self.server, scenario, self.nodes.jobs.values)
        self.controllers = Controllers(self.server, more=(self.nodes, self.user))
        self.controllers.wake = self.wake
        self._stepping = False
        self._awake = False
        self._timer = self.loop.call_at(0.0, self._step, context=self.links.world)
        self.processes: list[Process] = []
        # With leader election when a fault is about it, or makes two operators of one.
        elects = any(fault.kind in ("lease-lost", "upgrade") for fault in faults)
        self.settings = replace(scenario.settings, leader_elect=True) if elects else scenario.settings

    # -- the cluster ----------------------------------------------------------------------------------------------------

    def _see(self) -> None:
        at, writer = self.loop.time(), self.links.writer
        while self._feed:
            change = self._feed.popleft()
            item, before = change.item, change.old
            body = b"" if change.table == "secrets" else item.body
            self._hash.update(f"\n{at:.6f} {change.type} {change.table} {item.namespace}/{item.name} {item.rv} ".encode())
            self._hash.update(body)
            if change.table not in _UNSEEN:
                self.run.settled_at = at
                self.run.writes_at_rest += writer != "world"
            if change.table == "pods" and before is not None and writer == "world":
                self.nodes.others_ended(before, item)

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
        self._judge()
        if due is not None and not self._awake:
            # Unix seconds are rounded; slightly later it is certainly due.
            when = max(due - START, self.loop.time()) + 1e-6
            self._timer = self.loop.call_at(when, self._step, context=self.links.world)

    # -- what must hold -------------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        """The promises of the jobs that the scenario begins with."""
        for uid, job in self.nodes.jobs.items():
            if (name := job.manifest["metadata"]["name"]) in self._judged:
                if uid not in self._oracles:
                    self._oracles[uid] = Oracles(job)
                self._say(name, *self._oracles[uid].safe())

    def _say(self, name: str, *problems: str) -> None:
        self.run.violations += [f"{problem} [{name} at {self.loop.time():.2f}]" for problem in problems]

    def _plan(self, framework: Framework, job: Job, observed: Observed, now: float) -> Plan:
        """The decision, and what must hold of it. One with actions is made twice more, to show that it is deterministic."""
        decided = plan(framework, job, observed, now)
        try:
            if decided.actions:
                check_plan(framework, job, observed, now, decided)
            else:
                check_deeds(job, observed, now, decided)
        except AssertionError as error:
            rule = traceback.extract_tb(error.__traceback__)[-1].name
            self._say(job.name, f"{rule}: {error}")
        return decided

    def _counted(self, done: Callable[..., None]) -> Callable[..., None]:
        """`WorkQueue.done`, which counts how often a process came to a job."""

        def count(queue: Any, key: Any, *args: Any, **more: Any) -> None:
            self.run.keys[PROCESS.get(), "/".join(key), int(self.loop.time() // 60)] += 1
            done(queue, key, *args, **more)

        return count

    # -- the operators --------------------------------------------------------------------------------------------------

    def start(self, settings: Settings | None = None) -> None:
        """Start another operator process."""
        name = f"operator-{len(self.processes)}"
        random = Random(f"{self.seed}/{name}")  # noqa: S311
        frameworks, complain = self.scenario.frameworks, self.run.errors.append
        self.processes.append(Process(name, frameworks, settings or self.settings, self.links, random, complain))
        self.processes[-1].start()

    @property
    def alive(self) -> list[Process]:
        """The processes that run."""
        return [process for process in self.processes if process.alive]

    # -- the run --------------------------------------------------------------------------------------------------------

    async def main(self) -> None:
        """From the start to the end."""
        self.start()
        while not self._at_rest() and self.loop.time() < self._horizon:
            await self.sleep(_POLL)
        self.run.writes_at_rest = 0
        for driver in self._drivers:
            # At rest there is nothing to do for any job, also for those that had no cause to be reconciled.
            driver.controller.resync()
        await self.sleep(HOLD_SECONDS)
        self.run.end = dict(self._end())
        self._look_for_leaks()
        await self._stop()

    async def sleep(self, seconds: float) -> None:
        future = self.loop.create_future()
        self.loop.call_later(seconds, future.set_result, None)
        await future

    @property
    def _drivers(self) -> list[Driver]:
        return [driver for process in self.alive if process.manager is not None for driver in process.manager.drivers]

    def _at_rest(self) -> bool:
        now, recovered_at = self.loop.time(), self.links.recovered_at
        if now < self.run.settled_at + QUIET_SECONDS or self.links.pending:
            return False
        if recovered_at and now < recovered_at + RECOVERY_SECONDS:
            return False
        queues = [driver.controller.queue for driver in self._drivers]
        dues = [at - START for at in (self.nodes.due, self.user.due) if at is not None]
        dues += [at for queue in queues if (at := queue.next_wakeup()) is not None]
        idle = not any(map(len, queues)) and not any(driver.busy for driver in self._drivers)
        return idle and self.user.done and not any(due < self._horizon for due in dues)

    def _end(self) -> Iterator[tuple[str, str]]:
        """What has come of the scenario's jobs. How others ended that were stopped with a failed one is a matter of chance."""
        jobs = {f"{framework.plural}.{framework.group}": framework for framework in self.scenario.frameworks}
        for table in self.server.storage.tables:
            for item in self.server.storage.table(table).items():
                name = f"{table}/{item.name}"
                if table in jobs:
                    job = read_status(item.obj.get("status"))
                    held = [(one.type, one.reason) for one in job.conditions if one.is_true]
                    failed = sorted((f.replica, f.exit_code) for f in job.failures if f.reason != STOPPED)
                    counts = job.restarts, job.disruptions, job.attempt, job.attempt_replicas
                    yield name, str((held, counts, failed, job.replica_statuses))
                elif item.obj["metadata"].get("ownerReferences") and table not in _UNSEEN:
                    status = item.obj.get("status") or {}
                    restarts = sum(one["restartCount"] for one in status.get("containerStatuses") or ())
                    yield name, f"{status.get('phase', '')} {restarts}"

    def _look_for_leaks(self) -> None:
        """Expectations that cannot be met any more, and what is still backed off from."""
        for driver in self._drivers:
            controller = driver.controller
            jobs = len(controller.informers[controller.jobs].store)
            allowed = 0 if self.loop.time() < self._horizon else jobs
            for what, size, most in (
                ("expectations", len(controller.expectations), 0),
                ("strays", len(controller.strays), 0),
                ("back-off", controller.queue.failing, allowed),
            ):
                if size > most:
                    self.run.leaked.append(f"{controller.framework.name}: {what} of {size}, {jobs} jobs")

    @property
    def _horizon(self) -> float:
        return self.scenario.horizon + self.links.recovered_at

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
        with patch.object(job_controller, "decide", self._plan), patch.object(WorkQueue, "done", self._counted(WorkQueue.done)):
            try:
                self.loop.run(self.main())
            except DeadlockError as error:
                run.errors.append(f"deadlock: {error}")
        run.recovered_at = self.links.recovered_at
        run.history = self._hash.hexdigest()
        run.trace, run.fired = self.links.trace, self.links.fired
        hot = ((*key, count) for key, count in run.keys.items() if count > MOST_PLANS)
        run.violations += [f"hot-loop: {process} came {n} times to {job} in minute {at}" for process, job, at, n in hot]
        for job in self.nodes.jobs.values():
            run.runs.update(job.runs)
        return run


def simulate(scenario: Scenario, seed: int, faults: Sequence[Fault] = ()) -> Run:
    """Run `scenario` once, by `seed`, with `faults`. The same arguments give the same `history`."""
    return Simulation(scenario, seed, faults).result()
