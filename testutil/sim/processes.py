"""Operator processes in the simulation: the real Manager with its own clock, chance and connections.

A crash cuts the connections first and then cancels the tasks, so that nothing the dying code does can reach the cluster; its
memory is gone with it.
"""

import asyncio
import traceback
from collections.abc import Callable, MutableMapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from random import Random
from typing import Any, NoReturn, cast

import structlog

from jobcommon.client.transport import ELECTION_TIMEOUTS, LEADER_TIMEOUTS, Timeouts
from jobcommon.framework import Framework
from jobcommon.runtime.logging import Log
from jobcommon.runtime.manager import Env, Manager
from jobcommon.runtime.settings import Settings
from jobcommon.testutil.sim.loop import PROCESS, SimClock, SimLoop
from jobcommon.testutil.sim.network import Links, SimTransport


@dataclass(eq=False)
class Process:
    """One run of the operator from its start to its end. `complain` is called with a line for each violation."""

    name: str
    frameworks: Sequence[Framework]
    settings: Settings
    links: Links
    random: Random
    complain: Callable[[str], None]
    alive: bool = True
    manager: Manager | None = None

    def __post_init__(self) -> None:
        self.loop: SimLoop = self.links.loop
        self.clock = SimClock(self.loop)
        timeouts = LEADER_TIMEOUTS if self.settings.leader_elect else Timeouts()
        self.transport = SimTransport(self.links, self.name, timeouts)
        self.election = SimTransport(self.links, self.name, ELECTION_TIMEOUTS)
        self._env = Env(self.clock, self.random.random, identity=f"{self.name}_{self.random.getrandbits(32):08x}")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to run."""
        self._inside(self._start)

    def _start(self) -> None:
        log = complaining(self.complain)
        self.manager = Manager(
            self.transport, self.frameworks, self.settings, election_transport=self.election, env=self._env, log=log
        )
        self._task = self.loop.create_task(self.manager.run())
        self._task.add_done_callback(self._ended)

    def stop(self) -> None:
        """Ask it to end, as SIGTERM does."""
        if self.manager is not None and self.alive:
            self._inside(self.manager.stop)

    def _inside(self, do: Callable[[], None]) -> None:
        """Have what `do` schedules belong to this process."""
        context = copy_context()
        context.run(PROCESS.set, self.name)
        context.run(do)

    def crash(self) -> None:
        """End it here and now."""
        if not self.alive:
            return
        self.alive = False
        self.transport.die()
        self.election.die()
        self.loop.thaw(self.name)
        for task in self.loop.tasks_of(self.name):
            task.cancel()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not self.alive:
            return
        self.alive = False
        if task.cancelled():
            self.complain("the operator was cancelled by itself")
        elif (error := task.exception()) is not None:
            self.complain("the operator ended with\n" + "".join(traceback.format_exception(error)))


def complaining(complain: Callable[[str], None]) -> Log:
    """A log of which only errors are kept: none is to be expected, whatever the faults."""

    def keep(_logger: object, _method: str, line: MutableMapping[str, Any]) -> NoReturn:
        raised = line.pop("exception", "")
        complain(f"{line.pop('event', '')} {dict(line)}\n{raised}".rstrip())
        raise structlog.DropEvent

    only_errors = structlog.make_filtering_bound_logger(40)
    return cast(Log, structlog.wrap_logger(None, [structlog.processors.format_exc_info, keep], only_errors))
