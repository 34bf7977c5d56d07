"""The event recorder: core/v1 Events about jobs, off the path of reconciles.

`emit` never blocks and never raises. Equal events are one Event object with a count; each object may have 25
events at once and one more every five minutes (client-go's limits); at most 1,000 wait to be
sent, further ones are dropped and counted.

As with client-go, an event that the server answers with an error is given up, unless the answer is 429 or 5xx with
Retry-After; one without an answer is sent again. Each namespace has a queue and a sender of its own: a webhook or a policy that
rejects or delays the events of one namespace delays no others. When too many events wait, the namespace with the most loses
its newest.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from jobcommon.api.timestamp import format_time
from jobcommon.client import objects
from jobcommon.client.errors import ClientError, StatusError
from jobcommon.client.request import Transport
from jobcommon.client.responses import response_error
from jobcommon.reconcile.plan import Event
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log

WINDOW = 600.0
BURST = 25
REFILL_SECONDS = 300.0
QUEUE_LIMIT = 1000
MEMORY_LIMIT = 4096
TRIES = 12
RETRY_DELAY = 10.0
MAX_EVENT_MESSAGE = 1024
_MAX_NAME = 253


@dataclass(frozen=True, slots=True)
class Reference:
    """The object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


_Key = tuple[str, str, Reference, str, str, str]


@dataclass(slots=True)
class _Entry:
    """An Event object: its name on the server, its count and whether the server has it."""

    name: str
    count: int
    first: float
    last: float
    heard: float
    stored: bool = False


@dataclass(slots=True)
class _Allowance:
    tokens: float
    at: float


class Recorder:
    """Sends events by `transport`. One recorder serves all frameworks; `run` it in a task."""

    def __init__(self, transport: Transport, clock: Clock, log: Log, *, instance: str = "") -> None:
        self._transport = transport
        self._clock = clock
        self._log = log
        self._instance = instance
        self._entries: OrderedDict[_Key, _Entry] = OrderedDict()
        self._allowances: OrderedDict[tuple[str, str], _Allowance] = OrderedDict()
        # By namespace; a queue is there as long as its sender.
        self._queues: dict[str, OrderedDict[_Key, None]] = {}
        self._new: list[str] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._number = 0
        self.dropped = 0
        """The number of events that were not sent: too many about one object, too many waiting, or refused."""

    def emit(self, component: str, about: Reference, event: Event) -> None:
        """Record `event` about `about`, with `component` as its source."""
        now, wall = self._clock.monotonic(), self._clock.wall()
        if not self._allowed((component, about.uid), now):
            self.dropped += 1
            return
        message = event.message if len(event.message) <= MAX_EVENT_MESSAGE else event.message[: MAX_EVENT_MESSAGE - 3] + "..."
        key = (component, self._instance, about, event.type, event.reason, message)
        entry = self._entries.get(key)
        if entry is None or now - entry.heard > WINDOW:
            self._entries[key] = _Entry(self._name(about, wall), 1, wall, wall, now)
        else:
            entry.count, entry.last, entry.heard = entry.count + 1, wall, now
        self._entries.move_to_end(key)
        while len(self._entries) > MEMORY_LIMIT:
            self._entries.popitem(last=False)
        self._enqueue(about.namespace, key)

    def _enqueue(self, namespace: str, key: _Key) -> None:
        if namespace not in self._queues:
            self._queues[namespace] = OrderedDict()
            self._new.append(namespace)
            self._idle.clear()
            self._wake.set()
        self._queues[namespace][key] = None
        if sum(map(len, self._queues.values())) > QUEUE_LIMIT:
            max(self._queues.values(), key=len).popitem()
            self.dropped += 1

    async def run(self) -> None:
        """Send what is emitted, until cancelled."""
        async with asyncio.TaskGroup() as senders:
            while True:
                while self._new:
                    senders.create_task(self._send_all(self._new.pop()))
                self._wake.clear()
                await self._wake.wait()

    async def _send_all(self, namespace: str) -> None:
        queue = self._queues[namespace]
        while queue:
            key, _ = queue.popitem(last=False)
            entry = self._entries.get(key)
            if entry is None:
                self.dropped += 1
                continue
            try:
                await self._send(key, entry)
            except Exception:
                self.dropped += 1
                self._log.exception("event not recorded")
        del self._queues[namespace]
        if not self._queues:
            self._idle.set()

    async def flush(self, until: float) -> None:
        """Wait until everything emitted is sent, at the longest until `until` (monotonic seconds)."""
        await self._clock.wait(self._idle, until)

    def _name(self, about: Reference, wall: float) -> str:
        self._number += 1
        suffix = f".{int(wall * 1e6):x}{self._number:04x}"
        return about.name[: _MAX_NAME - len(suffix)].rstrip(".-") + suffix

    def _allowed(self, source: tuple[str, str], now: float) -> bool:
        allowance = self._allowances.setdefault(source, _Allowance(BURST, now))
        self._allowances.move_to_end(source)
        while len(self._allowances) > MEMORY_LIMIT:
            self._allowances.popitem(last=False)
        allowance.tokens = min(allowance.tokens + (now - allowance.at) / REFILL_SECONDS, BURST)
        allowance.at = now
        if allowance.tokens < 1:
            return False
        allowance.tokens -= 1
        return True

    async def _send(self, key: _Key, entry: _Entry) -> None:
        pause: float | None = None
        for _ in range(TRIES):
            if pause is not None:
                await self._clock.sleep(pause)
            try:
                await self._store(key, entry)
                return
            except StatusError as error:
                # A namespace that is terminating, a policy, no permission: a retry would fail, too.
                pause, why = error.retry_after if error.passing else None, str(error)
            except ClientError as error:
                pause, why = RETRY_DELAY, str(error)
            self._log.debug("event not sent", error=why)
            if pause is None:
                break
        self.dropped += 1

    async def _store(self, key: _Key, entry: _Entry) -> None:
        namespace = key[2].namespace
        if entry.stored:
            patch = {"count": entry.count, "lastTimestamp": format_time(entry.last)}
            path = objects.object_path("v1", "events", namespace, entry.name)
            response = await self._transport.send(objects.metadata_only(objects.merge(path, patch)))
            if response.status != 404:
                if response.status >= 400:
                    raise response_error(response)
                return
        path = objects.collection_path("v1", "events", namespace)
        response = await self._transport.send(objects.metadata_only(objects.create(path, _manifest(key, entry))))
        # A conflict is our own earlier attempt whose response was lost: the name is unique.
        if response.status >= 400 and response.status != 409:
            raise response_error(response)
        entry.stored = True


def _manifest(key: _Key, entry: _Entry) -> dict[str, Any]:
    component, instance, about, kind, reason, message = key
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": entry.name, "namespace": about.namespace},
        "involvedObject": {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        },
        "type": kind,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": instance,
        "firstTimestamp": format_time(entry.first),
        "lastTimestamp": format_time(entry.last),
        "count": entry.count,
    }
