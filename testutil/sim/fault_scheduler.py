"""The faults that last, or that affect processes, clocks and the store: their beginning and end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from jobcommon.testutil.sim import definitions
from jobcommon.testutil.sim.bad_edits import BadEdit
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.faulty_network import BROKEN, FaultyNetwork
from jobcommon.testutil.sim.kubelet import node_states
from jobcommon.testutil.sim.loop import SimLoop
from jobcommon.testutil.sim.network import Links, SimStream
from jobcommon.testutil.sim.processes import Deployment, Process
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.snapshots import Snapshot, restore, snapshot
from jobcommon.testutil.sim.user import mark_node
from localcluster import ApiServer
from localcluster.client import ADMIN, MERGE_PATCH, Request
from localcluster.model import Controller

#: The seconds until a silent watch is closed (`jobcommon.cache.informer.WATCH_SILENCE`), and until a lease is taken over.
SILENCE_SECONDS = 155.0
TAKE_OVER_SECONDS = 25.0
#: Lasting faults of `FaultyNetwork`, which checks what is active.
_NETWORK_FAULTS = frozenset({
    "forbidden", "unauthorized", "watch-lag", "coalesced", "missed-deletes", "gone-storm", "old-list", "streamed-list-broken",
    "version-too-large", "page-expired", "partition", "apiserver-restart", "webhook-down",
    "admission-refused", "events-refused", "slow-writes", "rights-revoked",
})  # fmt: skip
_REOPENED = frozenset({"apiserver-restart", "missed-deletes", "gone-storm", "version-too-large"})
_RELISTED = frozenset({"old-list", "page-expired", "streamed-list-broken"})
_GARBAGE = b'{"type":"MODIFIED","object":{"metadata":{"name":"torn'

#: Until the operators are restarted after a restore.
RESTORE_SECONDS = 30.0


class Faultable(Protocol):
    """What the faults of a run act on: the parts of a `Simulation`."""

    server: ApiServer
    loop: SimLoop
    links: Links
    network: FaultyNetwork
    deployment: Deployment
    scenario: Scenario

    @property
    def run(self) -> "Recovering":
        """The record of the run."""
        ...

    @property
    def alive(self) -> list[Process]:
        """The processes that run."""
        ...

    @property
    def actors(self) -> Sequence["HasActor"]:
        """The models of the platform's components and of the user."""
        ...

    def start(self, deployment: Deployment | None = None) -> Process:
        """Start another operator process."""
        ...

    def crash(self, process: str) -> None:
        """Kill a process; another one starts later."""
        ...

    def wake(self) -> None:
        """Have the actors step soon."""
        ...


class Recovering(Protocol):
    """A record of when the last fault is over."""

    recovered_at: float


class HasActor(Protocol):
    """An actor and its state in the simulation."""

    actor: Controller


class FaultScheduler:
    """Begins and ends faults in a simulation. `pending`: some are yet to come."""

    def __init__(self, sim: Faultable, faults: Sequence[Fault]) -> None:
        self._sim = sim
        self._snapshots: dict[Fault, Snapshot] = {}
        self._edits: dict[Fault, BadEdit] = {}
        self._open = 0
        self._begin: Mapping[str, Callable[[Fault, Process | None], bool]] = {
            "watch-closed": self._close_watches,
            "duplicate-events": self._replay,
            "bookmark-only": self._bookmark,
            "silent-watch": self._silence,
            "unreadable-event": self._garble,
            "clock-jump": self._jump,
            "clock-rate": self._set_rate,
            "pause": self._pause,
            "lease-lost": self._take_lease,
            "two-operators": self._second,
            "upgrade": self._upgrade,
            "etcd-restore": self._restore,
            "flood": self._flood,
            "schema-prunes": self._prune,
            "crd-removed": self._remove_definitions,
            "replicas-unreadable": self._edit,
            "spec-unreadable": self._edit,
        }
        for fault in faults:
            if fault.at is not None:
                self._open += 1
                self._at(fault.at, self._due, fault)
                if fault.kind == "etcd-restore":
                    self._at(max(fault.at - float(fault.value or 10.0), 0.0), self._remember, fault)

    @property
    def pending(self) -> bool:
        """Whether a fault has yet to begin or to end."""
        return self._open > 0

    def recovers_by(self, at: float) -> None:
        """Record when the last fault ends, recovery of its direct effects included."""
        self._sim.run.recovered_at = max(self._sim.run.recovered_at, at)

    def restart_after(self, seconds: float) -> None:
        """Start a new process after `seconds`."""
        self._open += 1
        self._at(self._sim.loop.time() + seconds, self._restart, self._sim.deployment)

    def inject(self, fault: Fault, process: str = "") -> None:
        """Begin a fault now."""
        sim = self._sim
        now = sim.loop.time()
        victim = next((p for p in sim.alive if not process or p.name == process), None)
        self.recovers_by(now + fault.seconds)
        begin = self._begin.get(fault.kind)
        if fault.kind in _NETWORK_FAULTS:
            self._close_for(fault.kind)
            sim.network.active[fault.kind] = fault
            sim.network.until[fault.kind] = now + fault.seconds
            sim.network.fresh.add(fault.kind)
            if fault.kind == "slow-writes":
                self.recovers_by(now + fault.seconds + float(fault.value or 6.0))
            if fault.kind in ("watch-lag", "coalesced"):
                self.recovers_by(now + fault.seconds + float(fault.value or 10.0))
        elif begin is not None:
            sim.network.fired[fault.kind] += begin(fault, victim)
        elif fault.facts.world:
            if fault.kind == "slow-start":
                # The pod that is created last may take as long again.
                self.recovers_by(now + 2 * fault.seconds)
            sim.network.fired[fault.kind] += sum(_inject(actor.actor, fault) for actor in sim.actors)
            sim.wake()
        else:
            raise ValueError(f"{fault.kind} is a fault of one request: give its write or read")
        if fault.seconds > 0:
            self._open += 1
            self._at(now + fault.seconds, self._over, fault, victim)

    # -- times ----------------------------------------------------------------------------------------------------------

    def _at(self, when: float, callback: Callable[..., object], *args: object) -> None:
        self._sim.loop.call_at(when, callback, *args, context=self._sim.links.world)

    def _due(self, fault: Fault) -> None:
        self._open -= 1
        self.inject(fault)

    def _restart(self, deployment: Any) -> None:
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
        elif fault.kind == "clock-jump" and victim is not None:
            victim.clock.jump(-float(fault.value or 3600.0))
        elif fault.kind == "clock-rate" and victim is not None:
            victim.clock.set_rate(1.0)
        elif fault.kind in ("schema-prunes", "crd-removed"):
            for framework in sim.scenario.frameworks:
                definitions.restore(sim.server, framework)
        elif fault in self._edits:
            self._edits.pop(fault).undo(sim.server)
        elif fault.kind == "two-operators":
            for process in sim.alive:
                if process.deployment is not sim.deployment:
                    process.stop()
        elif fault.facts.world:
            for actor in sim.actors:
                _recover(actor.actor, fault)
            sim.wake()

    # -- what they do ---------------------------------------------------------------------------------------------------

    def _close_for(self, kind: str) -> None:
        """Close the watches, so that the fault meets one that is opened again, or a list."""
        if kind not in _REOPENED and kind not in _RELISTED:
            return
        if kind == "apiserver-restart":
            self._sim.server.storage.compact(self._sim.server.storage.rv)
        for stream in tuple(self._sim.links.streams):
            if kind in _RELISTED:
                stream.send(BROKEN)
            stream.break_off()

    def _streams(self, victim: Process | None) -> list[SimStream]:
        return [stream for stream in self._sim.links.streams if victim is None or stream.owner == victim.name]

    def _close_watches(self, fault: Fault, victim: Process | None) -> bool:
        del fault
        streams = self._streams(victim)
        for stream in streams:
            stream.break_off()
        return bool(streams)

    def _replay(self, fault: Fault, victim: Process | None) -> bool:
        # It takes effect when they are opened again.
        self._sim.network.replaying |= {stream.request.path for stream in self._streams(victim)}
        self._close_watches(fault, victim)
        return False

    def _bookmark(self, fault: Fault, victim: Process | None) -> bool:
        storage = self._sim.server.storage
        line = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}' % storage.rv
        streams = self._streams(victim)
        for stream in streams:
            stream.send(line)
        self._close_watches(fault, victim)
        storage.compact(storage.rv)
        return bool(streams)

    def _silence(self, fault: Fault, victim: Process | None) -> bool:
        del fault
        streams = self._streams(victim)
        for stream in streams:
            stream.silent = True
        self.recovers_by(self._sim.loop.time() + SILENCE_SECONDS)
        return bool(streams)

    def _garble(self, fault: Fault, victim: Process | None) -> bool:
        streams = self._streams(victim)
        pods = self._sim.server.storage.table("pods").sorted()
        body = b'{"kind":"Pod","apiVersion":"v1",' + pods[0].body if pods else b"{}"
        for stream in streams:
            if fault.value == "type":
                stream.send(b'{"type":"SHUFFLED","object":%s}' % body)
            elif fault.value == "object":
                stream.send(b'{"type":"MODIFIED","object":{"kind":"Odd","apiVersion":"v1","metadata":["name"]}}')
            else:
                stream.send(_GARBAGE)
        return bool(streams)

    def _jump(self, fault: Fault, victim: Process | None) -> bool:
        if victim is not None:
            victim.clock.jump(float(fault.value or 3600.0))
        return victim is not None

    def _set_rate(self, fault: Fault, victim: Process | None) -> bool:
        if victim is not None:
            victim.clock.set_rate(float(fault.value or 1.5))
        return victim is not None

    def _pause(self, fault: Fault, victim: Process | None) -> bool:
        del fault
        if victim is not None:
            self._sim.loop.freeze(victim.name)
        return victim is not None

    def _take_lease(self, fault: Fault, victim: Process | None) -> bool:
        """Another identity takes the lease, and never renews it."""
        del fault, victim
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

    def _second(self, fault: Fault, victim: Process | None) -> bool:
        del fault, victim
        deployment = self._sim.deployment
        self._sim.start(replace(deployment, settings=replace(deployment.settings, leader_elect=False)))
        return True

    def _upgrade(self, fault: Fault, victim: Process | None) -> bool:
        del fault
        if victim is None:
            return False
        victim.stop()
        self.recovers_by(self._sim.loop.time() + TAKE_OVER_SECONDS)
        self.restart_after(0.0)
        return True

    def _prune(self, fault: Fault, victim: Process | None) -> bool:
        del fault, victim
        for framework in self._sim.scenario.frameworks:
            definitions.downgrade(self._sim.server, framework)
        return True

    def _edit(self, fault: Fault, victim: Process | None) -> bool:
        del victim
        of_replicas = fault.kind == "replicas-unreadable"
        edit = BadEdit(self._sim.server, self._sim.scenario.frameworks, int(fault.value or "0"), of_replicas=of_replicas)
        if edit.made:
            self._edits[fault] = edit
        return edit.made

    def _remove_definitions(self, fault: Fault, victim: Process | None) -> bool:
        del fault, victim
        for framework in self._sim.scenario.frameworks:
            definitions.remove(self._sim.server, framework)
        return True

    def _flood(self, fault: Fault, victim: Process | None) -> bool:
        del victim
        server = self._sim.server
        pods = server.storage.table("pods").sorted()
        if not pods:
            return False
        path = f"/api/v1/namespaces/{pods[0].namespace}/pods/{pods[0].name}"
        for number in range(int(fault.value or "500")):
            body = b'{"metadata":{"annotations":{"sim.jobcommon/flood":"%d"}}}' % number
            server.handle(Request("PATCH", path, (), body, MERGE_PATCH), ADMIN)
        server.handle(
            Request("PATCH", path, (), b'{"metadata":{"annotations":{"sim.jobcommon/flood":null}}}', MERGE_PATCH), ADMIN
        )
        return True

    # -- the store goes back --------------------------------------------------------------------------------------------

    def _restart_all(self) -> None:
        self._open -= 1
        for process in tuple(self._sim.alive):
            self._sim.crash(process.name)

    def _remember(self, fault: Fault) -> None:
        self._snapshots[fault] = snapshot(self._sim.server.storage)

    def _restore(self, fault: Fault, victim: Process | None) -> bool:
        del victim
        if fault not in self._snapshots:
            return False
        for stream in tuple(self._sim.links.streams):
            stream.break_off()
        server = self._sim.server
        nodes = node_states(server.storage.table("nodes").items())
        restore(server.storage, self._snapshots[fault])
        for name, state in node_states(server.storage.table("nodes").items()).items():
            if state != nodes[name]:
                # The machine is up or down whatever etcd contains.
                mark_node(server, name, nodes[name] or None)
        # What runs against a restored etcd is to be restarted (Kubernetes' "Operating etcd clusters"): a watch goes on from
        # a version that came twice, and never says what was there in between.
        self._open += 1
        self._at(self._sim.loop.time() + RESTORE_SECONDS, self._restart_all)
        # A watch from a future version is silent, and only the third silence leads to a list.
        self.recovers_by(self._sim.loop.time() + 3 * SILENCE_SECONDS)
        return True


def _inject(actor: Any, fault: Fault) -> bool:
    return fault.kind in getattr(actor, "faults", ()) and bool(actor.inject(fault))


def _recover(actor: Any, fault: Fault) -> None:
    if fault.kind in getattr(actor, "faults", ()):
        actor.recover(fault)
