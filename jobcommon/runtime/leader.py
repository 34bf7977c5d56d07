"""Leader election by a coordination.k8s.io Lease.

Whether another holder's lease has expired is measured by our own monotonic clock, from our last observation of a change; the
times in the record are informative only. A lease is not a fence: `held` is whether this process may still write, and becomes
False `lease_duration - renew_deadline` seconds before another process may acquire the lease (rule R8).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec

from jobcommon.client import objects
from jobcommon.client.errors import ClientError
from jobcommon.client.request import OuterTransport, Request, Response, Transport
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.logging import Log


class FencedError(ClientError):
    """The write was not tried: this process does not hold the lease."""


class FencedTransport(OuterTransport):
    """Refuses writes unless the lease is `held`. It is the innermost transport, after everything that may wait, such as a rate
    limit.
    """

    def __init__(self, transport: Transport, held: Callable[[], bool]) -> None:
        super().__init__(transport)
        self._held = held

    async def send(self, request: Request) -> Response:
        """See `Transport.send`. Raises FencedError."""
        if request.method != "GET" and not self._held():
            raise FencedError("this process does not hold the lease")
        return await self._transport.send(request)


API_VERSION = "coordination.k8s.io/v1"
# Jitter spreads the attempts of the replicas; more of it would delay the take-over after a graceful shutdown to 5 s.
JITTER = 0.5
# The Lease's schema does not limit the identity; this keeps one with a long host name readable.
MAX_HOST = 63


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Which lease, who we are (unique per process), and the times in seconds; a Lease stores its duration as an integer."""

    namespace: str
    name: str
    identity: str
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease_duration > self.renew_deadline > self.retry_period * (1 + JITTER) > 0:
            raise ValueError(
                f"the lease duration ({self.lease_duration} s) must exceed the renew deadline ({self.renew_deadline} s), "
                f"and that {1 + JITTER} times the retry period ({self.retry_period} s)"
            )
        if self.lease_duration % 1:
            raise ValueError(f"the lease duration must be a whole number of seconds, not {self.lease_duration}; round it up")


def holder_identity(host: str, unique: str) -> str:
    """A name no other process has."""
    return f"{host[:MAX_HOST]}_{unique}"


class LeaderElector:
    """Acquires, renews and releases a lease by `transport`, which nothing else should use, so that load cannot lose it.

    `random` gives floats in [0, 1).
    """

    def __init__(
        self, transport: Transport, settings: LeaseSettings, clock: Clock, random: Callable[[], float], log: Log
    ) -> None:
        self._transport = transport
        self._settings = settings
        self._clock = clock
        self._random = random
        self._log = log
        self._renewed_at: float | None = None
        self._seen: dict[str, Any] | None = None
        self._seen_at = 0.0
        self.leader = ""
        """The holder of the lease as last read; "" before the first read."""

    def held(self) -> bool:
        """Whether we hold the lease, and a write begun now ends before another process may acquire it."""
        return self._renewed_at is not None and self._clock.monotonic() < self._renewed_at + self._settings.renew_deadline

    async def acquire(self) -> None:
        """Return once the lease is acquired."""
        while not await self.attempt():
            delay = self._settings.retry_period * (1 + JITTER * self._random())
            await self._clock.sleep(delay)
        self._log.info("leading", lease=self._settings.name, identity=self._settings.identity)

    async def hold(self) -> None:
        """Renew the lease; return when it is lost, at the latest at the renew deadline: writes in flight are cancelled then."""
        while self._renewed_at is not None and self.held():
            deadline = self._renewed_at + self._settings.renew_deadline
            await self._clock.sleep_until(min(self._clock.monotonic() + self._settings.retry_period, deadline))
            if self.held():
                await self._clock.bounded(self.attempt(), deadline)
        self._renewed_at = None
        self._log.warning("lost the lease", lease=self._settings.name, leader=self.leader)

    async def release(self) -> None:
        """Release the lease, so that another process can acquire it at once. Only after the last guarded write has ended."""
        if not self.held():
            return
        self._renewed_at = None
        try:
            # A renewal may have been cancelled half-way, so our copy may be stale.
            lease = await self._look()
            spec = (lease or {}).get("spec") or {}
            if lease is not None and spec.get("holderIdentity") == self._settings.identity:
                free = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._time()}
                await self._put({**lease, "spec": free})
        except Exception as error:  # it expires by itself
            self._log.warning("could not release the lease", error=str(error))

    async def attempt(self) -> bool:
        """One attempt to acquire or renew; any error is a failed attempt."""
        started = self._clock.monotonic()
        try:
            lease = self._seen if self._renewed_at is not None else None
            won = await self._claim(lease if lease is not None else await self._look())
        except Exception as error:
            self._log.warning("could not get or renew the lease", error=str(error))
            # Our copy may be stale; the next attempt reads the lease.
            if self._renewed_at is not None:
                await self._refresh()
            return False
        if won:
            # The time before the request: the server may have stored the renewal at any moment since.
            self._renewed_at = started
        return won

    async def _refresh(self) -> None:
        """Read the lease, and give it up if it is certainly not ours."""
        try:
            found = await self._look()
        except Exception as error:
            self._log.debug("could not read the lease", error=str(error))
            return
        if found is None or found.get("spec", {}).get("holderIdentity") != self._settings.identity:
            self._renewed_at = None

    async def _look(self) -> dict[str, Any] | None:
        request = objects.get(self._path())
        response = await self._transport.send(request)
        if response.status == 404:
            self._seen, self.leader = None, ""
            return None
        objects.check_answer(request, response)
        return self._observe(response.body)

    def _observe(self, body: bytes) -> dict[str, Any]:
        lease = msgspec.json.decode(body, type=dict[str, Any])
        if self._seen is None or lease.get("spec") != self._seen.get("spec"):
            self._seen_at = self._clock.monotonic()
        self._seen = lease
        self.leader = str((lease.get("spec") or {}).get("holderIdentity") or "")
        return lease

    async def _claim(self, lease: dict[str, Any] | None) -> bool:
        settings = self._settings
        ours = {
            "holderIdentity": settings.identity,
            "leaseDurationSeconds": int(settings.lease_duration),
            "renewTime": self._time(),
        }
        if lease is None:
            spec = {**ours, "acquireTime": ours["renewTime"], "leaseTransitions": 0}
            manifest = {
                "apiVersion": API_VERSION,
                "kind": "Lease",
                "metadata": {"name": settings.name, "namespace": settings.namespace},
                "spec": spec,
            }
            path = objects.collection_path(API_VERSION, "leases", settings.namespace)
            await self._write(objects.create(path, manifest))
            return True
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") == settings.identity:
            await self._put({**lease, "spec": {**spec, **ours}})
            return True
        duration = spec.get("leaseDurationSeconds")
        good_for = float(duration) if isinstance(duration, int) and duration > 0 else settings.lease_duration
        if self.leader and self._clock.monotonic() < self._seen_at + good_for:
            return False
        transitions = spec.get("leaseTransitions")
        count = transitions + 1 if isinstance(transitions, int) else 1
        changed = {**spec, **ours, "acquireTime": ours["renewTime"], "leaseTransitions": count}
        await self._put({**lease, "spec": changed})
        return True

    async def _put(self, lease: dict[str, Any]) -> None:
        await self._write(objects.replace(self._path(), lease))

    def _path(self) -> str:
        return objects.object_path(API_VERSION, "leases", self._settings.namespace, self._settings.name)

    async def _write(self, request: Request) -> None:
        self._observe((await objects.sent(self._transport, request)).body)

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
