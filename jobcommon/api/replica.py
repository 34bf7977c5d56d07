"""Names and addresses of a job's replicas."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count, islice

import msgspec

from jobcommon.api.job import ReplicaSpec


class Replica(msgspec.Struct, frozen=True, gc=False):
    """One slot of a job: a replica type, in its canonical spelling, and an index."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{self.type}-{self.index}"


def pod_name(job_name: str, replica: Replica, *, indexed: bool = True) -> str:
    """``<job>-<type in lower case>-<index>``, or without the index; a slash becomes a dash, as in the reference."""
    name = _name_of_type(job_name, replica.type)
    return f"{name}-{replica.index}" if indexed else name


@lru_cache(maxsize=1024)
def _name_of_type(job_name: str, kind: str) -> str:
    """The common prefix of the names of a type's pods. Called for each pod in each pass."""
    return f"{job_name}-{kind.lower()}".replace("/", "-")


def replica_count(spec: ReplicaSpec) -> int:
    """The wanted number of replicas of a spec that has been defaulted or not."""
    return 1 if spec.replicas is None else spec.replicas


class Members:
    """The replicas of a job: of each type those from index 0 on, up to its count, without those that are left out."""

    replica_specs: Mapping[str, ReplicaSpec]
    left_out: Mapping[str, frozenset[int]]

    def count(self, kind: str) -> int:
        """The wanted number of replicas of a type; 0 for one the job does not have."""
        spec = self.replica_specs.get(kind)
        return replica_count(spec) if spec else 0

    @property
    def types(self) -> Sequence[str]:
        """The types that it has replicas of, in declared order: one with 0 replicas is as one that the job does not name."""
        return [kind for kind in self.replica_specs if self.count(kind)]

    @cached_property
    def total_replicas(self) -> int:
        """The wanted number of replicas over all types."""
        return sum(self.count(kind) for kind in self.replica_specs)

    @property
    def replicas(self) -> Iterable[Replica]:
        """All slots, types in declared order and indices ascending."""
        return (Replica(kind, index) for kind in self.replica_specs for index in self.indexes(kind))

    def indexes(self, kind: str) -> Sequence[int]:
        """The indexes of the replicas of a type, ascending: from 0 on without gaps, unless some are left out."""
        return self._with_gaps.get(kind) or range(self.count(kind))

    @cached_property
    def _with_gaps(self) -> Mapping[str, Sequence[int]]:
        gaps = {kind: out for kind, out in self.left_out.items() if out}
        return {kind: [*islice((i for i in count() if i not in out), self.count(kind))] for kind, out in gaps.items()}

    def has(self, replica: Replica) -> bool:
        """Whether that is one of its replicas."""
        members = self.indexes(replica.type)
        at = bisect_left(members, replica.index)
        return at < len(members) and members[at] == replica.index

    def replicas_of(self, kind: str) -> list[Replica]:
        """The replicas of one type, in the order of their ranks."""
        return [Replica(kind, index) for index in self.indexes(kind)]

    def first(self, kind: str) -> Replica:
        """The replica of a type that has rank 0, whose address the others are given."""
        return Replica(kind, next(iter(self.indexes(kind)), 0))

    def rank_of(self, replica: Replica) -> int:
        """The position of a replica among those of its type. It is the index, unless a smaller one is left out."""
        members = self._with_gaps.get(replica.type)
        return replica.index if members is None else bisect_left(members, replica.index)


def format_indexes(indexes: set[int] | frozenset[int]) -> str | None:
    """The indexes as sorted ranges, ``0-3,7``; None for none."""
    ranges: list[str] = []
    ordered = sorted(indexes)
    start = 0
    for position, index in enumerate(ordered):
        if position + 1 < len(ordered) and ordered[position + 1] == index + 1:
            continue
        first = ordered[start]
        ranges.append(str(first) if first == index else f"{first}-{index}")
        start = position + 1
    return ",".join(ranges) or None


def parse_indexes(text: str | None, limit: int) -> frozenset[int]:
    """The indexes below `limit` that ``0-3,7`` names. Total: parts of another form name nothing."""
    ranges: list[tuple[int, int]] = []
    # There are at most `limit` indexes; a forged status may list more.
    for part in (text or "").split(",", limit)[:limit]:
        first, dash, last = part.partition("-")
        if len(part) <= 20 and first.isdecimal() and (last.isdecimal() or not dash):
            ranges.append((int(first), min(int(last or first), limit - 1) + 1))
    found: set[int] = set()
    seen = 0
    for start, end in sorted(ranges):
        found.update(range(max(start, seen), end))
        seen = max(seen, end)
    return frozenset(found)
