"""What `make bench` measures without each mechanism is there to be taken out."""

import pytest

from benchmarks.ablation import MECHANISMS


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_ablated_mechanism_exists(name: str) -> None:
    what, take_out = MECHANISMS[name]
    assert what
    module, attribute, value = take_out.args
    assert getattr(module, attribute) != value
