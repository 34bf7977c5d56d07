"""Each mutant is caught by a seed that is known to catch it, on which the code without it is clean.

A change of the code may move what a seed does: then `make mutants` finds the first one that catches it now.
"""

import pytest

from jobcommon.testutil.sim.mutants import MUTANTS
from jobcommon.testutil.sim.mutation import hunt, problems

#: The first seed that catches each (`make mutants` prints them, counted from 1).
SEEDS = {
    "D1-expectations-or": 1,
    "D2-expectations-by-name": 4,
    "D3-tombstone": 0,
    "D4-expectation-after-nothing": 0,
    "D5-raises-on-error-paths": 2,
    "D6-no-pods-no-clean-up": 0,
    "D7-magic-exit-code": 0,
    "D8-timers-do-nothing": 0,
    "D8-backoff-counts-running-pods": 0,
    "D9-no-completion-time": 0,
    "D10-index-label-trusted": 0,
    "D11-service-events-ignored": 0,
    "D12-created-in-the-cache-only": 3,
    "D13-no-uid-in-status-writes": 5,
    "D14-owned-by-labels": 0,
    "D14-launcher-as-worker-off-by-one": 0,
    "D14-watch-refused-is-fatal": 0,
    "R1-delete-by-name": 5,
    "R2-status-without-precondition": 5,
    "R3-no-barrier": 1,
    "R4-no-expectations": 1,
    "R5-listed-first": 1,
    "R6-owned-by-name": 1,
    "R7-no-second-look": 24,
    "R8-no-fence": 1,
    "R8-old-caches": 0,
    "R8-released-in-mid-write": 0,
    "R9-act-then-record": 1,
    "R10-success-forgotten": 0,
    "R11-the-end-is-not-final": 0,
    "R12-no-answer-is-a-success": 6,
    "R13-one-update-for-two-objects": 87,
    "R14-back-off-without-a-cap": 0,
    "R15-first-error-ends-all": 0,
    "R16-a-full-quota-fails-the-job": 0,
    "R16-admission-fails-the-job": 0,
    "R16-a-refused-replacement-fails-the-job": 0,
    "R17-cache-changed-in-place": 0,
    "R18-retry-after-ignored": 0,
    "R19-written-when-nothing-changed": 0,
    "E1-ended-before-the-deletion": 4,
    "E2-deleted-with-the-record": 1,
    "E3-resumed-without-the-terminating": 6,
    "E4-scaled-down-without-a-record": 0,
    "E5-success-forgotten-when-scaled-away": 0,
    "E6-exit-0-before-the-platform": 0,
    "E7-helper-succeeds": 0,
    "E8-sidecars-are-charged": 0,
    "E9-waits-for-the-sidecar": 0,
    "E10-given-up-keeps-restarting": 0,
    "E11-delay-by-a-clock-ahead": 0,
    "E12-half-stopped-runs-on": 2,
    "E15-attempts-overlap": 0,
    "E16-consequences-are-charged": 5,
    "E13-unread-means-unwanted": 0,
    "E14-stopped-at-the-success": 0,
    "F34-orphans-need-an-owner": 0,
    "F41-gives-up-before-admission": 0,
    "F42-any-answer-will-do": 16,
    "F43-dropped-fields-count-as-stored": 2,
    "F44-nothing-without-the-definition": 0,
}


#: What these faults have shown to be wrong.
_FAULTS = ("F34", "F41", "F42", "F43", "F44")


def test_every_rule_and_defect_has_its_mutant() -> None:
    wanted = {f"{letter}{n}" for letter, last in (("D", 14), ("R", 19), ("E", 16)) for n in range(1, last + 1)}
    wanted |= {"F34", "F41", "F42", "F43", "F44"}
    assert {name.partition("-")[0] for name in MUTANTS} == wanted
    assert SEEDS.keys() == MUTANTS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught_and_the_code_without_it_is_clean(name: str) -> None:
    found = hunt(MUTANTS[name], (SEEDS[name],))
    assert found is not None, f"python -m jobcommon.testutil.sim.mutants --only {name}"
    assert problems(MUTANTS[name], SEEDS[name], planted=False) == []
