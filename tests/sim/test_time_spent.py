"""The time that a status says a job has spent is that which it has spent, within a second."""

import pytest

from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import Simulation
from jobcommon.testutil.sim.time_truth import TimeTruth
from localcluster.model import Change

FAST = 0
"""A seed by which a watch takes milliseconds."""
NAMES = (
    "A-rank-killed-twice", "A-pod-deleted", "A-backoff-limit", "L2-oom-killed", "L16-preempted-never",
    "L16-preempted-for-long-onfailure",
)  # fmt: skip


class Watched(Simulation):
    """A run that is looked at."""

    def __init__(self, scenario: Scenario) -> None:
        self.truth = TimeTruth(scenario.frameworks[0])
        super().__init__(scenario, FAST, ())

    def noticed(self, at: float, change: Change, writer: str) -> None:
        self.truth.see(at, change)


@pytest.mark.parametrize("name", NAMES)
def test_the_status_tells_where_the_time_went(name: str) -> None:
    simulation = Watched(LIFECYCLES[f"pytorch/{name}"])
    simulation.result()
    truth, told = simulation.truth, simulation.truth.status["timeSpent"]
    for field in ("queued", "starting", "running", "restarting", "stalled"):
        assert told.get(field, 0.0) == pytest.approx(truth.seconds[field], abs=1.0), (field, told, dict(truth.seconds))
