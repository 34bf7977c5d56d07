"""The diagnosis names the cause: a table of seeded failures, by exact reason."""

import pytest

from jobcommon.diagnosis import diagnose
from tests.diagnosis.scenarios import SCENARIOS, Scenario


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_the_cause_is_named(scenario: Scenario) -> None:
    made = diagnose(scenario.found, scenario.now)
    assert made.reason == scenario.reason, made
    for word in scenario.words:
        assert word in made.sentence, made
    assert made.well or made.advice or made.then, made
