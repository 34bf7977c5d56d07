"""The operators of one shard of the jobs, or of all: one term from the acquisition of the lease to its loss or release."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from jobcommon.api.shard import Shard
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.fence import Fence
from jobcommon.runtime.leader import LeaderElector
from jobcommon.runtime.logging import Log
from jobcommon.runtime.metrics import Metrics, Readings

# For the release of a lease in a handover; what takes longer is left to the lease's expiry.
RELEASE_SECONDS = 3.0

MakeDrivers = Callable[["ShardOperator"], Awaitable[list[Driver]]]


class ShardOperator:
    """Runs new drivers for each term, so that no decision is made on what was cached in an earlier one.

    `shard` None means all jobs. `fence` is whether writes may be sent for it. `make_drivers` is called once a term,
    and `on_change` when `drivers` changes; `drain_seconds` is the time for the writes in flight at its end.
    """

    def __init__(
        self,
        shard: Shard | None,
        elector: LeaderElector | None,
        fence: Fence,
        make_drivers: MakeDrivers,
        on_change: Callable[[], None],
        drain_seconds: float,
        clock: Clock,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.shard = shard
        self.elector = elector
        self.fence = fence
        self.drivers: list[Driver] = []
        self.drained = True
        """Whether all writes of the last term have ended. If not, the server may still process them."""
        self._make_drivers = make_drivers
        self._on_change = on_change
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._metrics = metrics
        self._log = log
        self._handover = asyncio.Event()
        self._report(leads=False)

    @property
    def ready(self) -> bool:
        """Whether the caches have synced."""
        return bool(self.drivers) and all(driver.ready for driver in self.drivers)

    def hand_over(self) -> None:
        """End the term, and release the lease after the last write in flight."""
        self._handover.set()

    @property
    def leaving(self) -> bool:
        """Whether the term is to end in a handover."""
        return self._handover.is_set()

    async def term(self, stop: asyncio.Event) -> None:
        """Run until `stop` or `hand_over`, then wait for the writes in flight; or until the lease is lost, and cancel them.

        To be called with the lease acquired. After `stop` the lease is still held, and to be released by the caller.
        """
        self._handover.clear()
        ends = [asyncio.create_task(event.wait(), name="stop") for event in (stop, self._handover)]
        holding = asyncio.create_task(self.elector.hold(), name="lease") if self.elector is not None else None
        self._report(leads=True)
        try:
            await self._operate(ends, holding)
            if self.elector is not None and self.leaving and not stop.is_set() and self.drained:
                await self._clock.bounded(self.elector.release(), self._clock.monotonic() + RELEASE_SECONDS)
        finally:
            self._report(leads=False)
            for task in (*ends, holding):
                if task is not None:
                    await cancelled(task)

    async def _operate(self, ends: Sequence[asyncio.Task[Any]], holding: asyncio.Task[None] | None) -> None:
        others = [*ends, holding] if holding is not None else [*ends]
        self.drained = True
        making = asyncio.ensure_future(self._make_drivers(self))
        try:
            await asyncio.wait((making, *others), return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                return
            self.drivers = making.result()
            self._on_change()
        finally:
            await cancelled(making)
        self.drained = False
        running = [asyncio.create_task(d.run(), name=f"driver {d.controller.framework.name}") for d in self.drivers]
        try:
            await asyncio.wait((*running, *others), return_when=asyncio.FIRST_COMPLETED)
            if any(end.done() for end in ends):
                for driver in self.drivers:
                    driver.stop()
                await self.drain(running, holding)
            for task in running:
                if task.done():
                    task.result()
        finally:
            for task in running:
                await cancelled(task)
            self.drivers = []
            self._on_change()

    async def drain(self, running: Sequence[asyncio.Task[None]], holding: asyncio.Task[None] | None) -> None:
        """Wait for the writes in flight, at most until the lease or the time for it ends. Sets `drained`."""
        over = asyncio.Event()
        left = asyncio.gather(*running, return_exceptions=True)
        left.add_done_callback(lambda _: over.set())
        if holding is not None:
            holding.add_done_callback(lambda _: over.set())
        self.drained = await self._clock.wait(over, self._clock.monotonic() + self._drain_seconds)
        if not self.drained:
            busy = sum(driver.busy for driver in self.drivers)
            self._log.warning("cancelled in-flight writes", reconciles=busy)

    def _report(self, *, leads: bool) -> None:
        if self.elector is not None:
            self._metrics.leading(self.elector.name, leads)


def readings(drivers: Sequence[Driver]) -> Readings:
    """What the metrics read of the drivers of one framework, one for each shard that is held."""
    controllers = [driver.controller for driver in drivers]

    def cache_ages() -> Mapping[str, float]:
        found = [driver.cache_ages for driver in drivers]
        return {name: max(ages.get(name, 0.0) for ages in found) for name in {name: None for ages in found for name in ages}}

    return Readings(
        depth=lambda: sum(len(controller.queue) for controller in controllers),
        jobs=lambda: sum((controller.conditions for controller in controllers), Counter[str]()),
        cache_ages=cache_ages,
        unstored=lambda: max(len(controller.pruned.fields) for controller in controllers),
    )


async def cancelled(task: "asyncio.Future[Any]") -> None:
    """Cancel the task and wait for its end. Its exception is ignored: the task's owner has handled it before."""
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):
        await task
