"""No part that costs CPU time has become twice as slow (`python -m benchmarks.micro --write` sets the baseline)."""

import pytest

from benchmarks import micro

# A doubling shows; what another processor or Python version does to the ratios does not.
FACTOR = 1.6


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    return micro.measure(micro.subjects(), limits())


def limits() -> dict[str, float]:
    return {name: FACTOR * ratio for name, ratio in micro.baseline().items()}


def test_every_figure_has_a_baseline() -> None:
    assert set(micro.baseline()) == set(micro.subjects())


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(micro.baseline()))
def test_no_micro_benchmark_takes_twice_its_reference(measured: dict[str, float], name: str) -> None:
    assert measured[name] <= limits()[name], "run `python -m benchmarks.micro` and look for what has grown"


def test_a_doubling_shows() -> None:
    once = micro.subjects()["pods made and encoded: 200"]
    twice = micro.measure({"twice": lambda: (once(), once())})["twice"]
    # What disturbs a measurement only adds to it.
    assert twice > FACTOR * micro.measure({"once": once}, {"once": twice / 2})["once"]


def test_only_what_is_above_its_limit_is_measured_for_longer() -> None:
    calls = {"fast": 0, "slow": 0}

    def called(name: str) -> micro.Subject:
        return lambda: calls.update({name: calls[name] + 1})

    micro.measure({name: called(name) for name in calls}, {"fast": 1.0, "slow": -1.0})
    assert calls == {"fast": micro.TRIES, "slow": micro.TRIES + micro.TRIES_AT_MOST}
