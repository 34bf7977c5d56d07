"""Optional features in pairs: what each promises holds in the company of each other, whatever happens to the job.

`make pairs` runs all pairs in both orders. The known defects X of `testutil/mutants/known.toml` were crossings of two features;
each, put back, must be found by a promise and not by the test that was written for it.
"""

from itertools import permutations

import pytest

from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.pairs.features import FEATURES
from jobcommon.testutil.pairs.histories import judge

PAIRS = list(permutations(FEATURES, 2))
#: Every fourth, each with another seed.
SAMPLE = [(*pair, number % 7) for number, pair in enumerate(PAIRS)][::4]
SEEDS = 120
#: By defect: two features that meet in it, and the promise that is broken.
FOUND = {
    "X1-stall-forgets": ("kept-logs", "stall-fail", "stall: not noticed"),
    "X2-restart-keeps-the-deadline": ("progress", "crashes", "false-stall: "),
    "X3-deadline-moves-with-words": ("pending-restart", "refusals", "words: "),
    "X4-own-deletion-is-a-disruption": ("gang-v1alpha2", "tolerance", "own-deletion: "),
    "X5-looks-decide": ("attempts", "kept-logs", "permanent: "),
    "X6-words-are-urgent": ("gang", "pending", "words: "),
    "X13-silent-hold": ("kueue", "attempts", "vacancy: "),
    "X14-lost-node-of-a-suspended-job": ("node-loss", "suspension", "lost-node: "),
    "X15-replicas-are-incidents": ("progress", "kept-logs", "no-progress: "),
    "X16-given-up-stays-in-the-gang": ("gang", "tolerance", "end: "),
    "X17-always-is-not-always": ("attempts", "always", "always: "),
    "X18-pending-is-in-vain": ("progress", "pending-restart", "no-progress: "),
    "X19-runs-for-ever": ("tolerance", "backoff-limit", "end: "),
}


@pytest.mark.parametrize("quarter", range(4))
def test_what_a_feature_promises_holds_beside_another(quarter: int) -> None:
    for first, second, seed in SAMPLE[quarter::4]:
        assert judge(first, second, seed) == [], f"make pairs PAIRS='{first} {second} --seed {seed} --seeds 1'"


def test_each_defect_has_its_pair() -> None:
    assert {name for name in known_defects() if name.startswith("X")} == FOUND.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_defect_that_is_put_back_is_found_by_a_promise(name: str) -> None:
    first, second, promise = FOUND[name]
    with known_defects()[name].planted():
        found = next((problems for seed in range(SEEDS) if (problems := judge(first, second, seed))), [])
    assert found, f"none of {SEEDS} seeds finds it"
    assert found[0].startswith(promise)
