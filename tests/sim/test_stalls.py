"""A rank that hangs is noticed in time, and steps are recorded in their order, whatever happens to the operator."""

from typing import Any

import pytest

from jobcommon.testutil.builders import START
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.simulation import Simulation
from localcluster.model import Change

FAST = (0, 1)
"""Seeds by which a request takes less than 0.1 s."""


class Watched(Simulation):
    """Remembers when a rank hung, when the job was said to be stalled, and the steps in its status."""

    hung_at = stalled_at = 0.0

    def noticed(self, at: float, change: Change, writer: str) -> None:
        self.steps: list[int] = getattr(self, "steps", [])
        if change.table != f"{self.scenario.frameworks[0].plural}.kubeflow.org" or self.programs is None:
            return
        self.status: dict[str, Any] = change.item.obj.get("status") or {}
        self.steps.append((self.status.get("progress") or {}).get("step") or 0)
        self.hung_at = self.hung_at or (self.programs.hung_at or START) - START
        holding = {one["type"] for one in self.status.get("conditions") or () if one["status"] == "True"}
        if "Stalled" in holding:
            self.stalled_at = self.stalled_at or at


@pytest.mark.parametrize("seed", FAST)
@pytest.mark.parametrize("name", ["S-rank-hangs", "S-rank-hangs-in-place", "S-rank-hangs-for-good"])
@pytest.mark.parametrize("kind", ["pytorch", "mxnet"])
def test_a_rank_that_hangs_is_noticed_within_5_s_of_its_deadline(kind: str, name: str, seed: int) -> None:
    """The deadline is 30 s, and 30 s are allowed for an evaluation."""
    world = Watched(LIFECYCLES[f"{kind}/{name}"], seed, ())
    assert world.result().violations == []
    assert world.status["conditions"][-1]["type"] == ("Failed" if "for-good" in name else "Succeeded")
    assert 60 - 15 <= world.stalled_at - world.hung_at <= 60 + 5


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_after_an_outage_the_steps_are_recorded_in_their_order(seed: int) -> None:
    """A step that waited since before the outage would look like one of another run."""
    world = Watched(LIFECYCLES["pytorch/S-evaluates"], seed, (Fault("partition", at=15.0, seconds=70.0),))
    assert world.result().violations == []
    assert world.steps == sorted(world.steps)
    assert "lostSteps" not in world.status["timeSpent"]
