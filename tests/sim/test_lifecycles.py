"""Every lifecycle without a fault comes to the end that its golden text tells, and every oracle is content with it."""

import os
from itertools import groupby
from pathlib import Path

import pytest

from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.job_templates import JOB_TEMPLATES
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.run_summary import run_summary
from jobcommon.testutil.sim.scenario import Scenario
from jobcommon.testutil.sim.simulation import simulate

GOLDEN = Path(__file__).parent / "golden"


def _shape(scenario: Scenario) -> str:
    return scenario.name.partition("/")[0]


BY_TEMPLATE = {template: list(group) for template, group in groupby(sorted(LIFECYCLES.values(), key=_shape), key=_shape)}


@pytest.mark.slow
@pytest.mark.parametrize("template", BY_TEMPLATE)
def test_lifecycles_end_as_they_should(template: str) -> None:
    runs = [(scenario, simulate(scenario, 0)) for scenario in BY_TEMPLATE[template]]
    text = "\n".join(run_summary(scenario, run) for scenario, run in runs)
    path = GOLDEN / f"{template}.txt"
    if os.environ.get("GOLDEN") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert [complaint for scenario, run in runs for complaint in compare(run, run, scenario)] == []


def test_there_are_enough_of_them() -> None:
    assert len(LIFECYCLES) >= 200
    for template in JOB_TEMPLATES:
        scenarios = BY_TEMPLATE[template.name]
        numbers = {scenario.name.partition("/L")[2].partition("-")[0].rstrip("abc") for scenario in scenarios}
        assert {str(number) for number in range(1, 15)} <= numbers, template
