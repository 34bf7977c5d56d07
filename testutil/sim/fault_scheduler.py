"""The faults that last, or that affect processes and watches: their beginning and end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.faulty_network import FaultyNetwork
from jobcommon.testutil.sim.loop import SimLoop
from jobcommon.testutil.sim.network import Links, SimStream
from jobcommon.testutil.sim.processes import Deployment, Process
from localcluster import ApiServer
from localcluster.client import ADMIN, MERGE_PATCH, Request

#: The seconds until a silent watch is closed (`jobcommon.cache.informer.WATCH_SILENCE`), and until a lease is taken over.
SILENCE_SECONDS = 155.0
TAKE_OVER_SECONDS = 25.0
#: Lasting faults of `FaultyNetwork`, which checks what is active.
_NETWORK_FAULTS = frozenset({
    "forbidden", "admission-refused", "slow-writes", "watch-lag", "missed-deletes", "gone-storm", "partition",
})  # fmt: skip
#: Watches are closed, so that the fault meets one that is opened again, or a list.
_REOPENED = frozenset({"missed-deletes", "gone-storm"})


class Faulted(Protocol):
    """What the faults of a run act on: the parts of a `Simulation`."""

    server: ApiServer
    loop: SimLoop
    links: Links
    network: FaultyNetwork
    deployment: Deployment

    @property
    def alive(self) -> list[Process]: ...
    def start(self, deployment: Deployment | None = None) -> Process: ...


class FaultScheduler:
    """Begins and ends faults in a simulation. `pending`: some are yet to come."""

    def __init__(self, sim: Faulted, faults: Sequence[Fault]) -> None:
        self._sim = sim
        self.recovered_at = 0.0
        """When the last fault ends, recovery of its direct effects included."""
        self._open = 0
        self._begin: Mapping[str, Callable[[Fault, Process | None], bool]] = {
            "watch-closed": self._close_watches,
            "silent-watch": self._silence,
            "pause": self._pause,
            "lease-lost": self._take_lease,
            "two-operators": self._second,
            "upgrade": self._upgrade,
        }
        for fault in faults:
            if fault.at is not None:
                self._open += 1
                self._at(fault.at, self._due, fault)

    @property
    def pending(self) -> bool:
        """Whether a fault has yet to begin or to end."""
        return self._open > 0

    def recovers_by(self, at: float) -> None:
        """A fault ends, or is recovered from, at that time."""
        self.recovered_at = max(self.recovered_at, at)

    def restart_after(self, seconds: float) -> None:
        """Start a new process after `seconds`."""
        self._open += 1
        self._at(self._sim.loop.time() + seconds, self._restart, self._sim.deployment)

    def inject(self, fault: Fault, process: str = "") -> None:
        """Begin a fault now."""
        sim, now = self._sim, self._sim.loop.time()
        victim = next((p for p in sim.alive if not process or p.name == process), None)
        self.recovers_by(now + fault.seconds)
        if fault.kind in _NETWORK_FAULTS:
            if fault.kind in _REOPENED:
                for stream in tuple(sim.links.streams):
                    stream.break_off()
            sim.network.active[fault.kind] = fault
            sim.network.until[fault.kind] = now + fault.seconds
            sim.network.fresh.add(fault.kind)
            if fault.kind in ("slow-writes", "watch-lag"):
                self.recovers_by(now + fault.seconds + float(fault.value or 10.0))
        elif fault.kind in self._begin:
            sim.network.fired[fault.kind] += self._begin[fault.kind](fault, victim)
        else:
            raise ValueError(f"{fault.kind} is a fault of one request: give its write")
        if fault.seconds > 0:
            self._open += 1
            self._at(now + fault.seconds, self._over, fault, victim)

    # -- times ----------------------------------------------------------------------------------------------------------

    def _at(self, when: float, callback: Callable[..., object], *args: object) -> None:
        self._sim.loop.call_at(when, callback, *args, context=self._sim.links.world)

    def _due(self, fault: Fault) -> None:
        self._open -= 1
        self.inject(fault)

    def _restart(self, deployment: Deployment) -> None:
        self._open -= 1
        self._sim.start(deployment)

    def _over(self, fault: Fault, victim: Process | None) -> None:
        """End a fault."""
        sim = self._sim
        self._open -= 1
        if sim.network.active.get(fault.kind) is fault:
            del sim.network.active[fault.kind]
            if fault.kind == "missed-deletes":
                sim.server.storage.compact(sim.server.storage.rv)
            for stream in sim.links.streams:
                stream.extra = -1.0
        if fault.kind == "pause" and victim is not None:
            sim.loop.thaw(victim.name)
        elif fault.kind == "two-operators":
            for process in sim.alive:
                if process.deployment is not sim.deployment:
                    process.stop()

    # -- what they do ---------------------------------------------------------------------------------------------------

    def _streams(self, victim: Process | None) -> list[SimStream]:
        return [stream for stream in self._sim.links.streams if victim is None or stream.owner == victim.name]

    def _close_watches(self, _fault: Fault, victim: Process | None) -> bool:
        streams = self._streams(victim)
        for stream in streams:
            stream.break_off()
        return bool(streams)

    def _silence(self, _fault: Fault, victim: Process | None) -> bool:
        streams = self._streams(victim)
        for stream in streams:
            stream.silent = True
        self.recovers_by(self._sim.loop.time() + SILENCE_SECONDS)
        return bool(streams)

    def _pause(self, _fault: Fault, victim: Process | None) -> bool:
        if victim is not None:
            self._sim.loop.freeze(victim.name)
        return victim is not None

    def _take_lease(self, _fault: Fault, _victim: Process | None) -> bool:
        """Another identity takes the lease, and never renews it."""
        sim = self._sim
        settings = sim.deployment.settings
        patch = {"spec": {"holderIdentity": "intruder", "leaseDurationSeconds": int(settings.lease_duration)}}
        body = msgspec.json.encode(patch)
        self.recovers_by(sim.loop.time() + TAKE_OVER_SECONDS)
        taken = False
        for lease in sim.server.storage.table("leases.coordination.k8s.io").sorted():
            if lease.name == settings.lease_name:
                path = f"/apis/coordination.k8s.io/v1/namespaces/{lease.namespace}/leases/{lease.name}"
                taken |= sim.server.handle(Request("PATCH", path, (), body, MERGE_PATCH), ADMIN).status == 200
        return taken

    def _second(self, _fault: Fault, _victim: Process | None) -> bool:
        deployment = self._sim.deployment
        self._sim.start(replace(deployment, settings=replace(deployment.settings, leader_elect=False)))
        return True

    def _upgrade(self, _fault: Fault, victim: Process | None) -> bool:
        if victim is None:
            return False
        victim.stop()
        self.recovers_by(self._sim.loop.time() + TAKE_OVER_SECONDS)
        self.restart_after(0.0)
        return True
