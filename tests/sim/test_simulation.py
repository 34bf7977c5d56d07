"""The simulator as such: a run is the same every time, comes to its end, and leaves the world outside alone."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable

import pytest

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.framework_lifecycles import lifecycles_of
from jobcommon.testutil.sim.loop import DeadlockError, OutsideWorldError, SimLoop
from jobcommon.testutil.sim.simulation import simulate

pytestmark = pytest.mark.no_cover
SUCCESS = lifecycles_of(PYTORCH)[0]


def test_a_job_succeeds_without_a_fault() -> None:
    run = simulate(SUCCESS, 1)
    assert compare(run, run, SUCCESS) == []
    assert b'"Succeeded"' in run.end
    assert run.trace
    assert not run.fired


def test_the_same_seed_gives_the_same_history() -> None:
    faults = (Fault("crash-after", write=5), Fault("watch-lag", at=3.0, seconds=10.0, value="5"))
    first, again = simulate(SUCCESS, 7, faults), simulate(SUCCESS, 7, faults)
    assert first.history == again.history
    assert first.fired == again.fired
    assert simulate(SUCCESS, 8, faults).history != first.history


def test_a_crash_at_a_write_is_recovered_from() -> None:
    reference, run = simulate(SUCCESS, 0), simulate(SUCCESS, 0, (Fault("crash-after", write=4),))
    assert run.fired["crash-after"] == 1
    assert {write.writer for write in run.trace} == {"operator-0", "operator-1"}
    assert compare(reference, run, SUCCESS) == []


@pytest.mark.parametrize("reach", [socket.socket, lambda: threading.Thread(target=print).start(), lambda: time.sleep(0)])
def test_the_world_outside_is_out_of_reach(reach: Callable[[], object]) -> None:
    async def main() -> None:
        reach()

    with pytest.raises(OutsideWorldError):
        SimLoop().run(main())


def test_waiting_for_nothing_is_found() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(DeadlockError):
        SimLoop().run(main())


def test_timers_for_one_moment_keep_their_order() -> None:
    loop, order = SimLoop(), list[int]()

    async def main() -> None:
        for number in range(100):
            loop.call_at(5.0, order.append, number)
        await asyncio.sleep(6.0)

    loop.run(main())
    assert order == list(range(100))
    assert loop.time() == 6.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "lifecycle", "oracle"),
    [
        ("R9-act-then-record", 0, "evidence-destroyed"),
        ("R11-the-end-is-not-final", 0, "terminal-for-ever"),
        ("R19-written-when-nothing-changed", 0, "at-rest"),
        ("D9-no-completion-time", 0, "completion-time"),
        ("E15-attempts-overlap", -1, "mixed-attempts"),
    ],
)
def test_a_known_defect_is_complained_of(defect: str, lifecycle: int, oracle: str) -> None:
    scenario = lifecycles_of(PYTORCH)[lifecycle]
    with known_defects()[defect].planted():
        run = simulate(scenario, 0)
    assert any(problem.startswith(oracle) for problem in compare(run, run, scenario))
