"""The fair share, by tables, and by replicas that follow it until nothing changes."""

from itertools import product
from random import Random

import pytest

from jobcommon.runtime.balance import Balance


@pytest.mark.parametrize(
    ("holders", "candidate", "may_take", "in_need", "must_release"),
    [
        ("...", "", True, True, False),  # alone
        ("aa.", "", True, True, False),
        ("aaa", "", False, False, False),
        ("aaa", "b", False, False, True),  # another has come
        ("aa.", "b", False, False, False),  # and this one is for it
        ("aab", "", False, False, False),
        ("aab", "c", False, False, True),
        ("abb", "c", False, False, False),  # b has to
        ("abc", "", False, False, False),
        ("ab.", "", True, False, False),  # c is gone, or has released it
        ("ab.", "c", False, False, False),  # c has come, and is to have it
        (".bb", "", True, True, False),
        ("bbb", "a", True, True, False),
        ("aabb", "c", False, False, False),  # of equals the last releases
        ("bbaa", "B", False, False, False),
        ("ccaa", "b", False, False, False),
        ("BBaa", "c", False, False, True),
        ("bcd", "", True, False, False),  # more replicas than shards
        ("bc.", "", True, True, False),
    ],
)
def test_what_a_replica_does(holders: str, candidate: str, may_take: bool, in_need: bool, must_release: bool) -> None:
    balance = Balance(tuple(holder.strip(".") for holder in holders), candidate, "a")
    assert (balance.may_take, balance.in_need, balance.must_release) == (may_take, in_need, must_release)


def _settle(holders: list[str], replicas: list[str], random: Random) -> int:
    """Let the replicas act by turns, in any order; returns the number of shards that have changed hands."""
    candidate, moves, quiet = "", 0, 0
    while quiet < 3:
        assert moves < 100, holders
        before = (list(holders), candidate)
        for me in random.sample(replicas, len(replicas)):
            for number in [number for number, holder in enumerate(holders) if not holder]:
                if Balance(tuple(holders), candidate, me).may_take:
                    holders[number] = me
                    moves += 1
            in_need = Balance(tuple(holders), candidate, me).in_need
            candidate = me if in_need and not candidate else "" if candidate == me and not in_need else candidate
            if Balance(tuple(holders), candidate, me).must_release:
                holders[max(number for number, holder in enumerate(holders) if holder == me)] = ""
        quiet = quiet + 1 if before == (holders, candidate) else 0
    return moves


@pytest.mark.parametrize(("shards", "most"), [*product(range(2, 9), range(1, 7))])
def test_replicas_that_come_and_go_end_with_fair_shares(shards: int, most: int) -> None:
    random = Random(shards * 10 + most)
    holders = [""] * shards
    replicas: list[str] = []
    for number in range(most):
        replicas.append(f"replica-{number}")
        _settle(holders, replicas, random)
        _is_fair(holders, replicas)
    while len(replicas) > 1:
        gone = replicas.pop(random.randrange(len(replicas)))
        holders = ["" if holder == gone else holder for holder in holders]
        _settle(holders, replicas, random)
        _is_fair(holders, replicas)


def _is_fair(holders: list[str], replicas: list[str]) -> None:
    counts = [holders.count(replica) for replica in replicas]
    assert sum(counts) == len(holders)
    assert max(counts) - min(counts) <= 1, holders
