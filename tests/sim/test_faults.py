"""Faults as values, and the plans of the swarm."""

from random import Random

import pytest

from jobcommon.testutil.sim import swarm
from jobcommon.testutil.sim.faults import KINDS, Fault, from_json, to_json

FAULTS = (
    Fault("crash-before", write=0),
    Fault("throttled", read=3, value="32"),
    Fault("partition", at=1.5, seconds=20.0, value="replies"),
)


def test_they_survive_json() -> None:
    assert from_json(to_json(FAULTS)) == FAULTS
    assert to_json(FAULTS[:1]) == '[{"kind": "crash-before", "write": 0}]'


@pytest.mark.parametrize(
    "text", ['[{"kind": "nothing", "at": 1}]', '[{"kind": "pause"}]', '[{"kind": "pause", "at": 1, "write": 1}]', "[1]", "{]"]
)
def test_bad_ones_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        from_json(text)


def test_the_swarm_draws_every_kind() -> None:
    assert {fault.kind for seed in range(300) for fault in swarm.faults_of(seed, Random(seed))} == set(KINDS)
    assert swarm.faults_of(11, Random(11)) == swarm.faults_of(11, Random(11))
