"""What expectations and the barrier must do, in plain lists."""

from dataclasses import dataclass, field


@dataclass
class ExpectationsModel:
    """A list of (job, what is expected, when it lapses)."""

    timeout: float
    items: list[tuple[str, tuple[str, ...], float]] = field(default_factory=list)

    def expect(self, uid: str, what: tuple[str, ...], now: float) -> None:
        self.settle(uid, what)
        self.items.append((uid, what, now + self.timeout))

    def settle(self, uid: str, what: tuple[str, ...]) -> None:
        self.items = [item for item in self.items if item[:2] != (uid, what)]

    def forget(self, uid: str) -> None:
        self.items = [item for item in self.items if item[0] != uid]

    def of(self, uid: str) -> set[tuple[str, ...]]:
        return {what for owner, what, _ in self.items if owner == uid}

    def lapse(self, uid: str, now: float) -> set[tuple[str, ...]]:
        gone = {what for owner, what, when in self.items if owner == uid and when <= now}
        self.items = [item for item in self.items if item[0] != uid or item[1] not in gone]
        return gone

    def satisfied(self, uid: str, now: float) -> bool:
        return all(when <= now for owner, _, when in self.items if owner == uid)

    def expiry(self, uid: str) -> float | None:
        return max((when for owner, _, when in self.items if owner == uid), default=None)


@dataclass
class BarrierModel:
    """A list of (job, resource, version, when its answer came), of which the highest version of a pair counts."""

    writes: list[tuple[str, str, int, float]] = field(default_factory=list)

    def highest(self, uid: str) -> dict[str, tuple[int, float]]:
        found: dict[str, tuple[int, float]] = {}
        for owner, resource, version, at in self.writes:
            if owner == uid and version > found.get(resource, (0, 0.0))[0]:
                found[resource] = (version, at)
        return found

    def behind(self, uid: str, seen: dict[str, int], written_by: float) -> tuple[str, ...]:
        highest = sorted(self.highest(uid).items())
        return tuple(r for r, (version, at) in highest if at <= written_by and 0 < seen.get(r, 0) < version)

    def drop_seen(self, uid: str, seen: dict[str, int]) -> None:
        """Drop the writes that can never block again, because their store has shown them."""
        shown = [resource for resource, (version, _) in self.highest(uid).items() if seen.get(resource, 0) >= version]
        self.writes = [write for write in self.writes if write[0] != uid or write[1] not in shown]

    def reset(self, resource: str, version: int, requested_at: float) -> tuple[str, ...]:
        owners = sorted({write[0] for write in self.writes})
        newest = {owner: self.highest(owner).get(resource) for owner in owners}
        lost = [o for o in owners if (w := newest[o]) is not None and w[0] > version and w[1] < requested_at]
        self.writes = [write for write in self.writes if write[0] not in lost or write[1] != resource]
        return tuple(lost)
