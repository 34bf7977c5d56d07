"""The simulator as such: a run is the same every time, and complains of what is wrong."""

import pytest

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.framework_sweep import Trial, Trials
from jobcommon.testutil.sim.lifecycles import lifecycles_of
from jobcommon.testutil.sim.simulation import simulate

pytestmark = pytest.mark.no_cover
SUCCESS = lifecycles_of(PYTORCH)["L1-success"]


def test_the_same_seed_gives_the_same_history() -> None:
    faults = (Fault("crash-after", write=5), Fault("watch-lag", at=3.0, seconds=10.0, value="5"))
    first, again = simulate(SUCCESS, 7, faults), simulate(SUCCESS, 7, faults)
    assert first.history == again.history
    assert first.fired == again.fired
    assert simulate(SUCCESS, 8, faults).history != first.history


def test_a_crash_at_a_write_is_recovered_from() -> None:
    run = simulate(SUCCESS, 0, (Fault("crash-after", write=4),))
    assert run.fired["crash-after"] == 1
    assert {write.writer for write in run.trace} == {"operator-0", "operator-1"}
    assert Trials(PYTORCH).judge(Trial("L1-success", 0, run.faults)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("defect", "lifecycle", "promise"),
    [
        ("R9-act-then-record", "L1-success", "recorded_before_destroyed"),
        ("R11-the-end-is-not-final", "L1-success", "final"),
        ("R19-written-when-nothing-changed", "L1-success", "at-rest"),
        ("D9-no-completion-time", "L1-success", "sound_status"),
        ("E15-attempts-overlap", "L20-resize-in-place", "world"),
    ],
)
def test_a_known_defect_is_complained_of(defect: str, lifecycle: str, promise: str) -> None:
    with known_defects()[defect].planted():
        problems = Trials(PYTORCH).judge(Trial(lifecycle, 0))
    assert any(problem.startswith(promise) for problem in problems)
