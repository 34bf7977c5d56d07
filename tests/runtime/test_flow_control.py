"""Flow control of our own requests: priority levels with their shares of the seats, and flows that take turns."""

import asyncio
from random import Random

import pytest

from jobcommon.controller.fair_queue import MAX_OVERTAKES
from jobcommon.runtime.flow_control import SHARE, FlowController, PriorityLevel
from tests.runtime.fakes import turns

INTERACTIVE, BULK, BACKGROUND = PriorityLevel


@pytest.mark.parametrize("level", [BULK, BACKGROUND])
async def test_a_level_holds_its_share_of_the_seats_and_leaves_the_others_free(level: PriorityLevel) -> None:
    flow_controller, seats = FlowController(4 * SHARE), 4 * SHARE
    big = [asyncio.create_task(flow_controller.seat("big", level=level).__aenter__()) for _ in range(2 * seats)]
    await turns()
    assert [task.done() for task in big] == [True] * 4 + [False] * (len(big) - 4)
    small = [asyncio.create_task(flow_controller.seat(f"small-{n}").__aenter__()) for n in range(seats)]
    await turns()
    assert [task.done() for task in small].count(True) == seats - 4
    for task in (*big, *small):
        task.cancel()


async def test_a_namespace_holds_its_share_of_the_seats_and_leaves_the_others_free() -> None:
    """A webhook that answers slowly for one tenant."""
    flow_controller, seats = FlowController(4 * SHARE), 4 * SHARE
    slow = [asyncio.create_task(flow_controller.seat("slow", job).__aenter__()) for job in range(2 * seats)]
    await turns()
    assert [task.done() for task in slow] == [True] * 4 + [False] * (len(slow) - 4)
    for _ in range(3):
        async with flow_controller.seat("other", "job"):
            assert flow_controller.in_use == 5
    for left in range(4, len(slow)):
        await flow_controller.seat("slow", left - 4).__aexit__()
        await turns()
        assert slow[left].done(), "what waits gets the seats of its own namespace"
    assert flow_controller.in_use == 4
    for task in slow:
        task.cancel()


async def test_a_lower_level_is_served_however_many_interactive_requests_come() -> None:
    flow_controller, order = FlowController(1), []

    async def request(level: PriorityLevel) -> None:
        async with flow_controller.seat("job", level=level):
            order.append(level)
            await turns()

    tasks = [asyncio.create_task(request(level)) for level in (BULK, BACKGROUND) for _ in range(3)]
    tasks += [asyncio.create_task(request(INTERACTIVE)) for _ in range(60)]
    await asyncio.gather(*tasks)
    assert max(i for i, level in enumerate(order) if level is not INTERACTIVE) <= 6 * (MAX_OVERTAKES + 1)


@pytest.mark.parametrize("seed", range(20))
async def test_the_bounds_hold_and_no_seat_is_lost_whatever_is_cancelled(seed: int) -> None:
    random, flow_controller = Random(seed), FlowController(8)
    most = dict.fromkeys(PriorityLevel, 0)
    held = dict.fromkeys(PriorityLevel, 0)

    async def request(flow: int) -> None:
        level = random.choice(tuple(PriorityLevel))
        async with flow_controller.seat(flow, level=level):
            held[level] += 1
            most[level] = max(most[level], held[level])
            assert sum(held.values()) <= 8
            try:
                await turns(random.randrange(5))
            finally:
                held[level] -= 1

    tasks = [asyncio.create_task(request(random.randrange(4))) for _ in range(90)]
    for _ in range(40):
        await turns(random.randrange(4))
        random.choice(tasks).cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most[BULK] <= 8 // SHARE
    assert most[BACKGROUND] <= 8 // SHARE
    assert (flow_controller.in_use, flow_controller.waiting) == (0, 0)
