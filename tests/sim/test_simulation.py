"""The simulator as such: a run is the same every time, comes to its end, and leaves the world outside alone."""

import pytest

from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.framework_lifecycles import lifecycles_of
from jobcommon.testutil.sim.simulation import simulate

pytestmark = pytest.mark.no_cover
SUCCESS = lifecycles_of(PYTORCH)[0]


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
