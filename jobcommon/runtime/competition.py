"""The competition of the replicas for the shards: each has a lease, and each replica a fair share of them.

All replicas do the same, and know of each other by the leases alone. A replica with less than its share holds the candidate
lease until it has that; another that has too many then hands one over.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import compress

from jobcommon.runtime.balance import Balance
from jobcommon.runtime.clock import Clock
from jobcommon.runtime.leader import JITTER, LeaderElector
from jobcommon.runtime.shard_operator import ShardOperator, cancelled

# A shard that is found free this many times in a row is taken beyond the fair share: the replica it is meant for may be gone.
TAKE_AFTER_ROUNDS = 3
# Replicas are often started together. In this many first rounds each takes one shard only, chosen at random, so that none loads
# the jobs of all shards first.
FIRST_ROUNDS = 3


class Competition:
    """Takes shards and hands them over. `identity` is this replica's name in the leases, `random` gives floats in [0, 1)."""

    def __init__(
        self,
        shards: Sequence[tuple[ShardOperator, LeaderElector]],
        candidate: LeaderElector,
        identity: str,
        retry_period: float,
        clock: Clock,
        random: Callable[[], float],
    ) -> None:
        self._shards = shards
        self._candidate = candidate
        self._identity = identity
        self._retry_period = retry_period
        self._clock = clock
        self._random = random
        self._terms: dict[int, asyncio.Task[None]] = {}
        self._waiting: asyncio.Task[None] | None = None
        self._rounds = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Compete until `stop`, then wait for the writes in flight; the leases are to be released by the caller.

        Cancelling it cancels the writes in flight. Raises what a driver raises.
        """
        try:
            while not stop.is_set():
                await self._round(stop)
                delay = self._retry_period * (1 + JITTER * self._random())
                await self._clock.wait(stop, self._clock.monotonic() + delay)
            await asyncio.gather(*self._terms.values())
        finally:
            for task in (*self._terms.values(), self._waiting):
                if task is not None:
                    await cancelled(task)
            self._terms.clear()
            self._waiting = None

    async def release(self) -> None:
        """Release all leases whose writes have ended; the others must expire."""
        held = [elector for operator, elector in self._shards if operator.drained]
        await asyncio.gather(*(elector.release() for elector in (*held, self._candidate)))

    async def _round(self, stop: asyncio.Event) -> None:
        for number, term in [*self._terms.items()]:
            if term.done():
                del self._terms[number]
                term.result()
        if self._waiting is not None and self._waiting.done():
            self._waiting = None
        others = [number for number in range(len(self._shards)) if number not in self._terms]
        found = await asyncio.gather(
            *(self._shards[number][1].is_free() for number in others), *(() if self._waiting else (self._candidate.is_free(),))
        )
        wanted = self._wanted([*compress(others, found)])
        claimed = await asyncio.gather(*(self._shards[number][1].claim() for number in wanted))
        for number in compress(wanted, claimed):
            self._terms[number] = asyncio.create_task(self._shards[number][0].term(stop), name=f"shard {number}")
        await self._hold_candidate_lease(free=self._waiting is None and found[-1])
        running = [self._shards[number][0] for number in sorted(self._terms)]
        # One after the other, so that each handover is decided on what the one before has left.
        if running and self._balance().must_release and not any(operator.leaving for operator in running):
            running[-1].hand_over()

    def _wanted(self, free: list[int]) -> list[int]:
        """The free shards to take now."""
        wanted: list[int] = []
        for number in free:
            if self._balance(wanted).may_take or self._shards[number][1].times_free >= TAKE_AFTER_ROUNDS:
                wanted.append(number)
        self._rounds += 1
        return [wanted[int(len(wanted) * self._random())]] if wanted and self._rounds <= FIRST_ROUNDS else wanted

    async def _hold_candidate_lease(self, *, free: bool) -> None:
        """Hold the candidate lease while this replica has less than its share."""
        if self._balance().in_need:
            if free and await self._candidate.claim():
                self._waiting = asyncio.create_task(self._candidate.hold(), name="candidate")
        elif self._waiting is not None:
            await cancelled(self._waiting)
            self._waiting = None
            await self._candidate.release()

    def _balance(self, wanted: Sequence[int] = ()) -> Balance:
        """With `wanted` counted as taken. A shard in handover is this replica's until it is released."""
        holders = tuple(
            self._identity if number in self._terms or number in wanted else elector.holder
            for number, (_, elector) in enumerate(self._shards)
        )
        return Balance(holders, self._candidate.holder, self._identity)
