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


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(micro.baseline()))
def test_no_micro_benchmark_takes_twice_its_reference(measured: dict[str, float], name: str) -> None:
    assert measured.keys() == micro.baseline().keys()
    assert measured[name] <= limits()[name], "run `python -m benchmarks.micro` and look for what has grown"


@pytest.mark.slow
def test_what_programs_printed_costs_a_plan_at_most_half_of_it(measured: dict[str, float]) -> None:
    of_failures = {name: ratio for name, ratio in measured.items() if "have failed" in name}
    assert max(of_failures.values()) <= 1.5 * of_failures["plan, 1,000 replicas have failed: without text"], of_failures
