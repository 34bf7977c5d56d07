"""The simulator's event loop: one thread, virtual time, the same order in every run.

Callbacks run one after the other in the order in which they became ready, as asyncio documents it, so that every schedule
here can happen in production; only the durations are random. When nothing is ready the clock jumps to the next
timer. Timers for the same moment run in the order in which they were set: asyncio's own heap does not promise that, and
watch events that overtook each other looked like faults of the controller.

A callback belongs to the operator process in whose context it was scheduled (`PROCESS`). The callbacks of a frozen process
are deferred until it is thawed, as in a paused virtual machine.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from typing import Any, TypeVarTuple, Unpack
from weakref import WeakValueDictionary

from jobcommon.runtime.clock import Clock, Timer
from jobcommon.testutil.builders import START

Ts = TypeVarTuple("Ts")

PROCESS: ContextVar[str] = ContextVar("simulated process", default="")
"""Which operator process a task belongs to; "" for the rest of the cluster."""


class DeadlockError(Exception):
    """Nothing is ready and no timer is set, but what was to be run has not ended."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop on virtual seconds, which begin at 0."""

    def __init__(self) -> None:
        super().__init__()
        self._ready: deque[asyncio.Handle] = deque()
        self._stopping = False
        self._now = 0.0
        self._order = 0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._frozen: dict[str, deque[asyncio.Handle]] = {}
        self._tasks: dict[str, WeakValueDictionary[int, asyncio.Task[Any]]] = {}
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self._now

    def tasks_of(self, process: str) -> list[asyncio.Task[Any]]:
        """The tasks of a process that have not ended, oldest first."""
        return [task for task in self._tasks.get(process, {}).values() if not task.done()]

    def freeze(self, process: str) -> None:
        """Let nothing of `process` run until `thaw`."""
        self._frozen.setdefault(process, deque())

    def thaw(self, process: str) -> None:
        """Let it run again; what became ready meanwhile runs first, in its order."""
        self._ready.extend(self._frozen.pop(process, ()))

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """See `asyncio.loop.call_at`. Timers for the same moment run in the order of these calls."""
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._order += 1
        heappush(self._timers, (when, self._order, handle))
        return handle

    def _timer_handle_cancelled(self, _handle: asyncio.TimerHandle) -> None:
        """Nothing: cancelled timers are skipped when their time comes."""

    def _run_once(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not ready:
            if not timers:
                raise DeadlockError(f"nothing will ever happen after {self._now:.3f} s")
            self._now = max(self._now, timers[0][0])
            while timers and timers[0][0] <= self._now:
                timer = heappop(timers)[2]
                if not timer.cancelled():
                    ready.append(timer)
        while ready:
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle.cancelled() or (self._frozen and self._keep_back(handle)):
                    continue
                handle._run()
            # `stop` takes effect here; otherwise another round would only be scheduled again.
            if self._stopping:
                break

    def _keep_back(self, handle: asyncio.Handle) -> bool:
        context: Context = handle._context  # type: ignore[attr-defined]
        kept = self._frozen.get(context.get(PROCESS, ""))
        if kept is not None:
            kept.append(handle)
        return kept is not None

    def _make_task(self, loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None) -> asyncio.Task[Any]:
        task = asyncio.Task(coro, loop=loop, context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS, "")
        if process:
            self._order += 1
            known = self._tasks.get(process)
            if known is None:
                known = self._tasks[process] = WeakValueDictionary()
            known[self._order] = task
        return task

    def run(self, main: Coroutine[Any, Any, Any]) -> Any:
        """Run `main` to its end and close the loop. Raises DeadlockError and whatever `main` raises."""
        try:
            return self.run_until_complete(main)
        finally:
            self.close()

    def _process_events(self, event_list: list[Any]) -> None:
        """There are none: no file is watched."""

    def _write_to_self(self) -> None:
        """Nothing: a simulation has one thread, which does not sleep while it calls call_soon_threadsafe."""


class SimClock(Clock):
    """Follows `loop`, at whose zero it is `START`."""

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop

    def monotonic(self) -> float:
        """See `Clock.monotonic`."""
        return self.loop.time()

    def wall(self) -> float:
        """See `Clock.wall`."""
        return START + self.loop.time()

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """See `Clock.call_at`."""
        return self.loop.call_at(when, callback)
