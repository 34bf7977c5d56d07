"""Shards: each replica of an operator reconciles a part of the jobs.

A job belongs to one of `SLOTS` slots by the FNV-1a hash of its UID, and a shard is a range of slots. Objects made for a job
carry the slot as a label, not the shard: with another number of shards the labels are still right. The hash is that of the
API server's shardSelector (KEP-5866), so that a server which honours it sends the jobs of one shard only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from jobcommon.api import labels

SLOTS = 64
OF_CANDIDATE, OF_SHARD = "-candidate", "-shard-"
"""What the names of the leases end in; that of a shard is followed by its number."""
_BITS = 64
_OFFSET_BASIS, _PRIME = 0xCBF29CE484222325, 0x100000001B3
_MASK = (1 << _BITS) - 1
_SLOT_SIZE = (1 << _BITS) // SLOTS


@lru_cache(4096)
def slot_of(uid: str) -> int:
    """The slot of the job with this UID, from 0 to `SLOTS` - 1."""
    digest = _OFFSET_BASIS
    for byte in uid.encode():
        digest = (digest ^ byte) * _PRIME & _MASK
    return digest // _SLOT_SIZE


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard number `index` of `count`. Raises ValueError if there is no such shard."""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 0 <= self.index < self.count <= SLOTS:
            raise ValueError(f"there is no shard {self.index} of {self.count}; there are at most {SLOTS}")

    @property
    def slots(self) -> range:
        """The slots of the shard. Those of all shards are all slots, each once."""
        return range(self.index * SLOTS // self.count, (self.index + 1) * SLOTS // self.count)

    def has_job(self, uid: str) -> bool:
        """Whether the job with this UID belongs to the shard."""
        return slot_of(uid) in self.slots

    def has_child(self, owner: str, marks: Mapping[str, str]) -> bool:
        """Whether an object belongs to a job of the shard: by the UID of its owner, and by its labels if it has none ("").

        An object with neither, or with a label that is no slot, belongs to the first shard.
        """
        if owner:
            return self.has_job(owner)
        label = marks.get(labels.SHARD, "")
        slot = int(label) if label.isdecimal() and len(label) <= len(str(SLOTS)) else 0
        return (slot if slot < SLOTS else 0) in self.slots

    @property
    def label_selector(self) -> str:
        """Selects the objects of the shard's jobs, and those without the label, which were made before there were shards."""
        others = [str(slot) for slot in range(SLOTS) if slot not in self.slots]
        return f"{labels.SHARD} notin ({','.join(others)})" if others else ""

    @property
    def shard_selector(self) -> str:
        """Selects the shard's jobs on a server that honours it; others send all jobs."""
        start, stop = self.slots.start * _SLOT_SIZE, self.slots.stop * _SLOT_SIZE
        # The server wants 16 digits, and one more for the end of the last.
        return f"shardRange(object.metadata.uid, '{start:#018x}', '{stop:#018x}')"


def lease_names(name: str, shards: int) -> tuple[str, ...]:
    """The names of all leases of operators whose lease name is `name`."""
    return (name, name + OF_CANDIDATE, *(f"{name}{OF_SHARD}{index}" for index in range(shards))) if shards > 1 else (name,)
