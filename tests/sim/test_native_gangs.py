"""The oracle of native gangs sees what it is there for, and crashes at each write do not leave a gang half started."""

from dataclasses import replace

import pytest

from jobcommon.reconcile import gang
from jobcommon.testutil.sim.differential import compare
from jobcommon.testutil.sim.faults import Fault
from jobcommon.testutil.sim.lifecycles import LIFECYCLES
from jobcommon.testutil.sim.scenario import SETTINGS
from jobcommon.testutil.sim.simulation import simulate

VERSIONS = pytest.mark.parametrize("version", ["v1beta1", "v1alpha2"])


@VERSIONS
def test_a_min_count_that_is_not_lowered_is_noticed(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: batch Job's rule, which counts the replicas of the spec (kubernetes#142330)."""
    monkeypatch.setattr(gang.Gang, "min_member", property(lambda self: self.job.total_replicas))
    violations = simulate(LIFECYCLES[f"pytorch/L19-replaced-{version}"], 0).violations
    assert [text for text in violations if text.startswith("half-started") and "1 of 2 pods have a node" in text]


def test_two_jobs_that_do_not_fit_beside_each_other_both_run_only_as_gangs() -> None:
    """Without a gang scheduler each of them holds two of four places by seed 4, and waits for the third for ever."""
    gangs = replace(LIFECYCLES["pytorch/L19-two-v1beta1"], room=4)
    alone = replace(gangs, settings=SETTINGS)
    assert {sum(simulate(gangs, seed).runs.values()) for seed in (3, 4)} == {6}
    assert min(sum(simulate(alone, seed).runs.values()) for seed in (3, 4)) == 4


@pytest.mark.slow
@VERSIONS
@pytest.mark.parametrize("crash", ["crash-before", "crash-after"])
def test_a_crash_at_any_write_leaves_one_of_each(version: str, crash: str) -> None:
    for title in ("replaced", "preempted", "suspended"):
        scenario = LIFECYCLES[f"pytorch/L19-{title}-{version}"]
        reference = simulate(scenario, 0)
        for write in range(len(reference.trace)):
            assert compare(reference, simulate(scenario, 0, (Fault(crash, write=write),)), scenario) == [], (title, write)
