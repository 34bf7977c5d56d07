"""All controllers of one server, stepped together."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from localcluster.apiserver.server import ApiServer
from localcluster.controllers.access import Access
from localcluster.controllers.cleanup import DefinitionController, EventTtl, NamespaceController
from localcluster.controllers.garbage_collector import GarbageCollector


class Controller(Protocol):
    """One level-triggered loop body."""

    def step(self) -> float | None:
        """Do what is due; returns the time (Unix seconds) when something is due again without a change."""
        ...


def _no_wake() -> None:
    """Replaced by the shell or the simulator."""


class Controllers:
    """The embedded cluster's own controllers; `more` are stepped with them.

    `wake` is called when the store has changed and `step` is due; a simulator assigns its own. `root_ca` is the PEM text that
    pods find in the config map ``kube-root-ca.crt``.
    """

    def __init__(self, server: ApiServer, *, root_ca: str = "", more: tuple[Controller, ...] = ()) -> None:
        self._server = server
        self._seen = -1
        self.wake: Callable[[], None] = _no_wake
        self._controllers: tuple[Controller, ...] = (
            GarbageCollector(Access(server, "generic-garbage-collector")),
            DefinitionController(Access(server, "crd-finalizer")),
            NamespaceController(Access(server, "namespace-controller"), root_ca),
            EventTtl(Access(server, "event-ttl")),
            *more,
        )
        server.storage.listeners.add(self._changed)

    def _changed(self) -> None:
        self.wake()

    def step(self) -> float | None:
        """Run every controller until none of them writes; returns the time of the next timer, if there is one."""
        storage = self._server.storage
        while True:
            self._seen = storage.rv
            timers = [controller.step() for controller in self._controllers]
            if self._seen == storage.rv:
                break
        due = [timer for timer in timers if timer is not None]
        return min(due) if due else None

    async def run(self) -> None:
        """Step whenever the store changed or a timer is due, until cancelled."""
        changed = asyncio.Event()
        self.wake = changed.set
        while True:
            changed.clear()
            due = self.step()
            if changed.is_set():
                # Only our own writes, which `step` has processed. Other tasks get a turn first.
                await asyncio.sleep(0)
                changed.clear()
                if self._seen != self._server.storage.rv:
                    continue
            seconds = None if due is None else max(due - self._server.env.now(), 0.0)
            try:
                async with asyncio.timeout(seconds):
                    await changed.wait()
            except TimeoutError:
                continue
