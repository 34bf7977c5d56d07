"""No part that costs CPU time has become twice as slow (`python -m benchmarks.micro --write` sets the baseline)."""

import pytest

from benchmarks import micro

# A doubling shows; what another processor or Python version does to the ratios does not.
FACTOR = 1.6


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return micro.measure(micro.subjects())


def test_every_figure_has_a_baseline() -> None:
    assert set(micro.baseline()) == set(micro.subjects())


@pytest.mark.parametrize("name", sorted(micro.baseline()))
def test_it_is_not_twice_as_slow(measured: dict[str, float], name: str) -> None:
    assert measured[name] <= FACTOR * micro.baseline()[name], "run `python -m benchmarks.micro` and look for what has grown"


def test_a_doubling_shows() -> None:
    once = micro.subjects()["requests encoded: 200 pods"]
    measured = micro.measure({"once": once, "twice": lambda: (once(), once())})
    assert measured["twice"] > FACTOR * measured["once"]
