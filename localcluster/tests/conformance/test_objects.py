"""Built-in objects, valid and invalid: what the embedded server answers against what a real one answered, or answers now."""

from collections.abc import AsyncIterator

import pytest

from localcluster.conformance import corpus, real
from localcluster.conformance.comparison import compare
from localcluster.conformance.driver import Driver
from localcluster.conformance.record import difference
from localcluster.conformance.target import embedded


@pytest.fixture
async def ours() -> AsyncIterator[Driver]:
    async with embedded() as target:
        yield Driver(target)


def test_the_known_differences_are_few() -> None:
    recorded = corpus.recorded()
    assert len(corpus.objects()) >= 150
    assert len(corpus.DIFFERENT) <= 0.03 * len(recorded)
    assert sum(answer["code"] >= 400 for answer in recorded.values()) >= 75


async def test_the_recorded_answers(ours: Driver) -> None:
    recorded, found = corpus.recorded(), await corpus.answers(ours)
    assert list(found) == list(recorded), "record the answers again"
    wrong = {name: told for name in found if (told := difference(found[name], recorded[name])) and name not in corpus.DIFFERENT}
    assert wrong == {}


@pytest.mark.timeout(600)
async def test_the_objects_on_a_real_server(ours: Driver) -> None:
    if not real.available():
        pytest.skip(real.WHY_NOT)
    async with real.real() as target:
        assert target is not None
        theirs = Driver(target, "objects")
        outcomes = [await compare(case, ours, theirs) for case in corpus.cases()]
        if target.lasting:
            await theirs.clean_up()
    assert [outcome.report() for outcome in outcomes if not outcome.agrees] == []
