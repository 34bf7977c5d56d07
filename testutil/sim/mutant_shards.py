"""What a replica must not do when shards change hands, done."""

from typing import Any
from zlib import crc32

from jobcommon.api.shard import SLOTS
from jobcommon.cache.delta import Upserted
from jobcommon.controller.job_controller import JobController
from jobcommon.reconcile import children
from jobcommon.runtime.driver import Driver
from jobcommon.runtime.manager import Manager
from jobcommon.runtime.shard_operator import ShardOperator
from jobcommon.testutil.sim.fault_scheduler import HELD, OF_ONE
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.mutant_rules import NO_FENCE, NO_SECOND_LOOK
from jobcommon.testutil.sim.mutation import Mutant


def _always(_: JobController) -> bool:
    return True


_drivers = Manager.drivers_for


async def _with_old_caches(self: Manager, operator: ShardOperator) -> list[Driver]:
    """A shard that comes back is reconciled with what was cached in the term before."""
    drivers = await _drivers(self, operator)
    old: dict[tuple[str, str], Any] = vars(operator).setdefault("stores", {})
    for driver in drivers:
        controller = driver.controller
        for name, informer in controller.informers.items():
            key = controller.framework.name, name
            for cached in old[key].all() if key in old else ():
                informer.store.apply(Upserted(cached))
            old[key] = informer.store
        controller.resync()
    return drivers


async def _at_once(self: ShardOperator, *_: Any) -> None:
    self.drained = True


def _another_slot(uid: str) -> int:
    return crc32(uid.encode()) % SLOTS


SHARDS = (
    Mutant(
        "S1-acts-after-the-loss",
        "A replica that stood still or was cut off goes on to write for a shard that is another's by then.",
        NO_FENCE,
        where=("pytorch/L2-*", "tensorflow/L2-*", "pytorch/L4-*"),
        faults=(),
        always=(Fault("pause", write=5, seconds=30.0),),
        by=("not-the-holder", "no-shard"),
        shards=3,
    ),
    Mutant(
        "S2-not-listed-again",
        "A shard that comes back is reconciled on what was cached in the term before, as if nothing had happened since.",
        ((Manager, "drivers_for", _with_old_caches), (JobController, "synced", property(_always)), *NO_SECOND_LOOK),
        where=("mpi/L2-*", "mpi/L12-*", "mpi/L1-*"),
        faults=("watch-lag",),
        always=(
            Fault("partition", write=6, seconds=24.0, value=OF_ONE),
            Fault("lease-lost", write=9, value=HELD),
        ),
        pair="The live read of the job before a create finds most of it (R7); so that is taken out, too.",
        shards=3,
    ),
    Mutant(
        "S3-released-in-mid-write",
        "A shard is released while writes are under way, and they are stored when another replica has it.",
        ((ShardOperator, "drain", _at_once),),
        where=("pytorch/*", "tensorflow/*"),
        faults=("upgrade",),
        always=(Fault("slow-writes", at=0.0, seconds=60.0, value="2"),),
        shards=3,
    ),
    Mutant(
        "S4-another-slot-on-the-pods",
        "Pods are labelled with another slot than that of their job, so its replica never sees them.",
        ((children, "slot_of", _another_slot),),
        where=("pytorch/L1-*",),
        faults=(),
        shards=3,
    ),
)
