"""A term: the operators' work from the acquisition of the lease, or without leader election from the start, to its end."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from jobcommon.api.pod import pod_view
from jobcommon.cache.wire import page
from jobcommon.client import objects
from jobcommon.client.errors import ClientError
from jobcommon.client.request import Request, Transport
from jobcommon.client.responses import response_error
from jobcommon.controller.caches import PODS
from jobcommon.controller.orphans import is_made_by
from jobcommon.controller.result import Effect, Work
from jobcommon.reconcile import plan_for_orphans
from jobcommon.runtime.clock import Clock, cancelled
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.executor import Executor
from jobcommon.runtime.logging import Log


class Term:
    """Runs drivers of its own, so that no decision is made on what was cached in an earlier term.

    `make_drivers` is called once; `drain_seconds` is the time for the writes in flight at the end.
    """

    def __init__(
        self, make_drivers: Callable[[], Awaitable[list[Driver]]], drain_seconds: float, clock: Clock, log: Log
    ) -> None:
        self.drivers: list[Driver] = []
        self.drained = True
        """Whether all writes have ended. If not, the server may still process them, and the lease must expire by itself."""
        self._make_drivers = make_drivers
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._log = log

    @property
    def ready(self) -> bool:
        """Whether the caches have synced."""
        return bool(self.drivers) and all(driver.ready for driver in self.drivers)

    async def run(self, stopped: asyncio.Task[Any], holding: asyncio.Task[None] | None) -> None:
        """Run until `stopped` ends, then wait for the writes in flight; or until `holding`, the lease, ends, and cancel them.

        Raises what a driver raises.
        """
        others = [stopped, holding] if holding is not None else [stopped]
        making = asyncio.ensure_future(self._make_drivers())
        try:
            await asyncio.wait((making, *others), return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                return
            self.drivers = making.result()
        finally:
            await cancelled(making)
        self.drained = False
        running = [asyncio.create_task(d.run(), name=f"driver {d.controller.framework.name}") for d in self.drivers]
        try:
            await asyncio.wait((*running, *others), return_when=asyncio.FIRST_COMPLETED)
            if stopped.done():
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


TERMINATING = b"NamespaceTerminating"


async def free_pods_if_terminating(namespace: str, transport: Transport, executors: Sequence[Executor], log: Log) -> None:
    """Remove our finalizer from all pods of the executors' operators if `namespace` is terminating.

    `transport` and `executors` have no fence: the lease may be deleted already, and another process could only do the same.
    """
    try:
        if not await _is_terminating(namespace, transport):
            return
        for executor in executors:
            count = await _remove(namespace, transport, executor)
            operator = executor.framework.operator_name
            log.info("the namespace is being deleted: released pods", namespace=namespace, operator=operator, pods=count)
    except (ClientError, msgspec.DecodeError) as error:
        log.warning("cannot release the pods of a namespace that is being deleted", namespace=namespace, error=str(error))


async def _remove(namespace: str, transport: Transport, executor: Executor) -> int:
    response = await transport.send(objects.get(objects.collection_path("v1", PODS, namespace)))
    if response.status != 200:
        raise response_error(response)
    # Others may have taken away the labels.
    pods = [pod for item in page(response.body).items or () if is_made_by([executor.framework], pod := pod_view(bytes(item)))]
    result = await executor.execute(Work(namespace, "", "", plan_for_orphans(pods)))
    return sum(outcome.effect is Effect.APPLIED for outcome in result.outcomes)


async def _is_terminating(namespace: str, transport: Transport) -> bool:
    """Determined by a dry run of an event: we may write events, but a Role need not allow reads of namespaces."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "jobcommon-", "namespace": namespace},
        "involvedObject": {"apiVersion": "v1", "kind": "Namespace", "name": namespace, "namespace": namespace},
        "reason": "Stopping",
        "type": "Normal",
    }
    request = objects.create(objects.collection_path("v1", "events", namespace), manifest)
    response = await transport.send(Request(request.method, request.path, (("dryRun", "All"),), request.body))
    # The cause is in the details of the Status.
    return response.status == 403 and TERMINATING in response.body
