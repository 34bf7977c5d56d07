"""The fair share: how many shards a replica may hold, as far as it knows from the leases."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Balance:
    """The shards' holders as the replica `me` knows them, "" for a shard that is free, and the holder of the candidate lease.

    A replica with less than its share holds the candidate lease until it has that. So the holders of all leases are all the
    replicas that count, and one of them is known to be in need.
    """

    holders: tuple[str, ...]
    candidate: str
    me: str

    @property
    def replicas(self) -> int:
        """The number of replicas known."""
        return len({self.me, self.candidate, *self.holders} - {""})

    @property
    def least(self) -> int:
        """The shards that each replica is to have."""
        return len(self.holders) // self.replicas

    @property
    def most(self) -> int:
        """The shards that a replica may have."""
        return -(-len(self.holders) // self.replicas)

    @property
    def in_need(self) -> bool:
        """Whether this replica has less than its share."""
        return self._count(self.me) < self.least

    @property
    def may_take(self) -> bool:
        """Whether this replica may take a free shard: not one that a replica in need waits for."""
        return self.in_need or (self._count(self.me) < self.most and not self._another_in_need)

    @property
    def must_release(self) -> bool:
        """Whether this replica has to release a shard: it has too many, or it has the most, and what is free is too few for
        another in need.
        """
        mine = self._count(self.me)
        if mine > self.most:
            return True
        fullest = max((self._count(holder), holder) for holder in (self.me, *self.holders) if holder)
        enough = self._count(self.candidate) + self._count("") >= self.least
        return self._another_in_need and not enough and mine > self.least and fullest == (mine, self.me)

    @property
    def _another_in_need(self) -> bool:
        return self.candidate not in ("", self.me) and self._count(self.candidate) < self.least

    def _count(self, replica: str) -> int:
        return self.holders.count(replica)
