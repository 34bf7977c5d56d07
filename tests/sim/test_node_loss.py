"""How long a job does not train when a machine dies, with nodeLossSeconds: 30."""

from typing import Any

import pytest

from jobcommon.testutil.sim.kubelet import DOWN, STATE
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.simulation import Simulation
from localcluster.model import Change


class Stopwatch(Simulation):
    """When the machine died, and when the last pod was seen to run for the first time."""

    died_at = trains_at = 0.0

    def noticed(self, at: float, change: Change, writer: str) -> None:
        obj: Any = change.item.obj
        if change.table == "nodes" and (obj["metadata"].get("annotations") or {}).get(STATE) == DOWN:
            self.died_at = self.died_at or at
        before = (change.old.obj.get("status") or {}).get("phase") if change.old is not None else None
        if change.table == "pods" and obj["status"].get("phase") == "Running" != before:
            self.trains_at = at


@pytest.mark.parametrize("kind", ["pytorch", "tensorflow"])
def test_a_job_trains_again_within_110_s_of_the_death_of_a_machine(kind: str) -> None:
    """50 s are the control plane's, 30 s nodeLossSeconds, 10 s the pods' grace period and 10 s the operator's doubt."""
    world = Stopwatch(LIFECYCLES[f"{kind}/A-node-silent"], 0, ())
    assert world.result().violations == []
    assert 100 < world.trains_at - world.died_at < 110
