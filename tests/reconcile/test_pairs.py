"""Optional features in pairs: what each promises holds in the company of each other, whatever happens to the job.

`make pairs` runs all pairs in both orders. The known defects X and Y of `testutil/mutants/known.toml` were crossings of two
features; each, put back, must be found by a promise and not by the test that was written for it.
"""

from itertools import permutations

import pytest

from jobcommon.testutil.mutants import known_defects
from jobcommon.testutil.pairs.features import FEATURES
from jobcommon.testutil.pairs.histories import judge

pytestmark = pytest.mark.no_cover
PAIRS = list(permutations(FEATURES, 2))
#: Every fifth, each with another seed.
SAMPLE = [(*pair, number % 7) for number, pair in enumerate(PAIRS)][::5]
#: Every fourth of those with what restarts together, is resized or suspended: ranks and status are those of the kind.
CHOSEN = {"elastic", "elastic-in-place", "in-place", "attempts", "suspension"}
TRAINJOBS = [pair for pair in SAMPLE if CHOSEN & {*pair[:2]}][::4]
FOUND = {name: defect for name, defect in known_defects().items() if defect.features}


@pytest.mark.parametrize("quarter", range(4))
def test_what_a_feature_promises_holds_beside_another(quarter: int) -> None:
    for first, second, seed in SAMPLE[quarter::4]:
        assert judge(first, second, seed) == [], f"make pairs PAIRS='{first} {second} --seed {seed} --seeds 1'"


def test_it_holds_of_a_trainjob_too() -> None:
    for first, second, seed in TRAINJOBS:
        found = judge(first, second, seed, framework="trainjob")
        assert found == [], f"make pairs PAIRS='{first} {second} --framework trainjob --seed {seed} --seeds 1'"


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_defect_that_is_put_back_is_found_by_a_promise(name: str) -> None:
    with FOUND[name].planted():
        found = FOUND[name].broken_promise()
    assert FOUND[name].promise
    assert found.startswith(FOUND[name].promise)
