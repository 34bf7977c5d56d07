"""The bound on requests that is learnt from the server's answers, and the lane of those who can wait."""

import pytest

from jobcommon.controller.lanes import PATIENCE, Lanes
from jobcommon.runtime.fairness import FairGate
from jobcommon.runtime.pace import LONG, SPAN, START, Pace

WORK = 0.001
"""What the modelled server takes for a request, and how long the way there and back is, in seconds."""


def settled(pace: Pace, way: float, hands: int, rounds: int = 4000) -> int:
    """The bound after a while with a server that serves `hands` requests at once; who comes later waits."""
    for _ in range(rounds):
        pace.answered(max(way + WORK, WORK * pace.limit / hands), full=True)
    return pace.limit


@pytest.mark.parametrize("way", [0.0005, 0.002, 0.02])
@pytest.mark.parametrize("hands", [1, 2, 8])
def test_the_server_is_kept_busy_and_its_queue_short(way: float, hands: int) -> None:
    pace = Pace(64)
    # Long enough to look anew at how fast the server is, several times.
    settled(pace, way, hands, 5 * SPAN)
    limit = settled(pace, way, hands, SPAN // 2)
    busy = hands * (way + WORK) / WORK
    assert min(busy, 64) <= limit <= max(busy + LONG + 1, START)


def test_it_shrinks_when_the_server_becomes_slow_and_grows_again() -> None:
    pace = Pace(64)
    before = settled(pace, 0.0, 8, SPAN // 4)
    for _ in range(SPAN // 2):
        pace.answered(1.0, full=True)
    assert pace.limit <= LONG
    assert settled(pace, 0.0, 8) >= before - 1


def test_slow_creates_are_no_queue_beside_quick_reads() -> None:
    """What waits for admission costs the server little: their number grows with each answer, and reads do not lower it."""
    pace = Pace(64)
    for _ in range(20):
        pace.answered(0.002, False)
        pace.answered(6.0, True, "pods")
    assert pace.limit == START + 20


def test_it_does_not_grow_when_nobody_waits() -> None:
    pace = Pace(64)
    for _ in range(SPAN // 2):
        pace.answered(WORK, full=False)
    assert pace.limit == START


@pytest.mark.parametrize("most", [1, 2, 5])
def test_it_stays_within_what_was_asked_for(most: int) -> None:
    assert settled(Pace(most), 0.01, 100) == most


async def test_a_gate_with_a_clock_lets_in_more_as_answers_stay_quick() -> None:
    now = 0.0
    gate = FairGate(64, lambda: now)
    assert gate.limit == START


def test_what_can_wait_gets_each_eighth_turn() -> None:
    lanes: Lanes[str] = Lanes(2)
    for number in range(20):
        lanes.append(("a",), f"first {number}")
    for number in range(3):
        lanes.append(("a",), f"later {number}", 1)
    order = [lanes.pop() for _ in range(23)]
    assert [order.index(f"later {number}") for number in range(3)] == [PATIENCE, 2 * PATIENCE + 1, 22]
    assert len(lanes) == 0


def test_of_three_lanes_none_is_left_to_wait_for_ever() -> None:
    lanes: Lanes[str] = Lanes(3)
    for lane in range(3):
        for _ in range(30):
            lanes.append(("a",), "abc"[lane], lane)
    order = "".join(lanes.pop() for _ in range(90))
    assert order.startswith("aaaaaaabc" + "aaaaaabc")
    assert (order.count("a"), order.count("b"), order.count("c"), len(lanes)) == (30, 30, 30, 0)


def test_one_lane_can_be_passed_by() -> None:
    lanes: Lanes[str] = Lanes(3)
    for lane in (1, 1, 2):
        lanes.append(("a",), "abc"[lane], lane)
    assert (lanes.count(but=1), lanes.pop(but=1), lanes.count(but=1), lanes.count()) == (1, "c", 0, 2)
    with pytest.raises(StopIteration):
        lanes.pop(but=1)
    assert (lanes.pop(), lanes.pop(), len(lanes)) == ("b", "b", 0)


def test_it_can_be_taken_out_of_either_lane() -> None:
    lanes: Lanes[str] = Lanes(2)
    lanes.append(("a",), "first")
    lanes.append(("a",), "later", 1)
    assert lanes.remove(("a",), "later")
    assert lanes.remove(("a",), "first")
    assert not lanes.remove(("a",), "first")
    assert not lanes
