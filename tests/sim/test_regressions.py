"""What the simulator once found stays mended: the cases in regressions/, as data."""

import pytest

from jobcommon.testutil.sim.campaign import judge
from jobcommon.testutil.sim.regressions import Regression, regressions


@pytest.mark.slow
@pytest.mark.parametrize("regression", list(regressions()), ids=lambda regression: regression.why)
def test_each_mended_defect_stays_mended(regression: Regression) -> None:
    verdict = judge(regression.case)
    assert verdict.problems == (), verdict.case.replay
    for fault in regression.faults:
        assert verdict.fired.get(fault.kind), f"{fault} did not strike: the case tests nothing any more"
