"""Names and addresses of a job's replicas."""

from functools import lru_cache

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
