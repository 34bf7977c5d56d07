"""What must hold with shards: a job is written only by the replica that holds the lease of its shard (oracle O3).

Judged at every change of the store, with the leases as they are stored. So a replica that is cut off, stands still or hands a
shard over must have sent its last write before the lease went to another. One that holds no shard must send none at all, even
if the server would refuse it.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable

from jobcommon.api import labels
from jobcommon.api.shard import OF_SHARD, Shard, slot_of
from jobcommon.client.transport import LEADER_TIMEOUTS
from jobcommon.framework import Framework
from jobcommon.localcluster.apiserver.storage import ADDED, Change, Item
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.network import Write
from jobcommon.testutil.sim.oracles import owner_of

LEASES = "leases.coordination.k8s.io"
_NOT_JUDGED = ("events", "events.events.k8s.io", LEASES)
#: With these a lease says nothing: it is taken from a replica that is well, the history changes, or a replica acts without one.
_LAWLESS = frozenset({"lease-lost", "etcd-restore", "two-operators", "namespace-deleted"})


class ShardWatch:
    """Gets every change of the store in order, and calls `say` with each violation: its rule, and what happened."""

    def __init__(
        self,
        frameworks: Collection[Framework],
        shards: int,
        lease_name: str,
        faults: Collection[Fault],
        say: Callable[[float, str, str], None],
    ) -> None:
        self._tables = {f"{f.plural}.{f.group}" for f in frameworks}
        self._shards = [Shard(index, shards) for index in range(shards)]
        self._lease_name = lease_name
        self._lawful = not any(fault.kind in _LAWLESS or _outlives_a_lease(fault) for fault in faults)
        self._say = say
        self.holders: dict[int, str] = {}
        """The process that holds each shard, "" for one that is free. The lease of one that crashed has to expire first."""
        self._times: list[float] = []
        self._held_by: list[frozenset[str]] = []

    def see(self, at: float, change: Change, writer: str) -> None:
        """Follow the leases, and hold each write of an operator against them."""
        if change.table == LEASES:
            self._follow(change.item)
            self._times.append(at)
            self._held_by.append(frozenset(self.holders.values()))
        elif writer.startswith("operator") and change.table not in _NOT_JUDGED:
            uid = change.item.uid if change.table in self._tables else owner_of(change.old or change.item)
            if uid:
                self._judge(at, change, writer, uid)

    def judge_sent(self, writes: Iterable[Write]) -> None:
        """Hold the writes that operators have sent, whatever came of them, against the leases of that time."""
        for write in writes if self._lawful else ():
            number = bisect_right(self._times, write.at)
            if number == 0 or write.writer not in self._held_by[number - 1]:
                self._say(write.at, "no-shard", f"{write.writer} sent {write.method} {write.path} and held no shard")

    def _follow(self, lease: Item) -> None:
        for shard in self._shards:
            if lease.name == f"{self._lease_name}{OF_SHARD}{shard.index}":
                holder = str(lease.obj["spec"].get("holderIdentity") or "")
                self.holders[shard.index] = holder.partition("_")[0]

    def _judge(self, at: float, change: Change, writer: str, uid: str) -> None:
        what = f"{change.table}/{change.item.name}"
        shard = next(shard for shard in self._shards if shard.has_job(uid))
        holder = self.holders.get(shard.index, "")
        if self._lawful and holder != writer:
            self._say(at, "not-the-holder", f"{what} by {writer}; shard {shard.index} is held by {holder or 'no replica'}")
        label = (change.item.obj["metadata"].get("labels") or {}).get(labels.SHARD)
        if self._lawful and change.type == ADDED and label != str(slot_of(uid)):
            self._say(at, "wrong-slot", f"{what} is labelled {label}, and its job is in slot {slot_of(uid)}")


def _outlives_a_lease(fault: Fault) -> bool:
    """Whether a write that is sent while the lease is held may be stored when it has expired."""
    return fault.kind == "slow-writes" and float(fault.value) > LEADER_TIMEOUTS.sending
