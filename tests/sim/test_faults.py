"""Faults as values, their shrinking, and the plans of sweep and swarm."""

from random import Random
from unittest.mock import Mock

import pytest

from jobcommon.testutil.sim import swarm
from jobcommon.testutil.sim.faults import KINDS, NUMBERS, Fault, from_json, to_json, unfired
from jobcommon.testutil.sim.faulty_network import FaultyNetwork, replayed_from

FAULTS = (
    Fault("crash-before", write=0),
    Fault("throttled", read=3, value="32"),
    Fault("partition", at=1.5, seconds=20.0, value="replies"),
)


def test_every_number_has_a_kind() -> None:
    assert tuple(f"F{number}" for number in range(1, len(NUMBERS) + 1)) == NUMBERS


@pytest.mark.parametrize(("version", "compacted", "begins"), [(200, 0, 192), (200, 197, 197), (200, 200, 200), (66, 69, 66)])
def test_a_replay_leaves_nothing_out(version: int, compacted: int, begins: int) -> None:
    assert replayed_from(version, compacted) == begins


def test_events_are_merged_past_a_line_that_cannot_be_decoded() -> None:
    odd = b'{"type":"MODIFIED","object":{"metadata":["name"]}}'
    deleted, added = (b'{"type":"%s","object":{"metadata":{"name":"p"}}}' % kind for kind in (b"DELETED", b"ADDED"))
    coming = [odd, deleted]
    stream = Mock(extra=1.0, replace_pending=lambda change: coming.__setitem__(slice(None), change(coming)))
    network = FaultyNetwork(Mock(), ())
    network.links = Mock(loop=Mock(time=lambda: 0.0))
    network.active["coalesced"] = Fault("coalesced", at=0.0, seconds=60.0)
    assert network.line(stream, added) == [(1.0, added.replace(b"ADDED", b"MODIFIED"))]
    assert coming == [odd]


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
    drawn = {fault.kind for seed in range(300) for fault in swarm.faults_of(seed, Random(seed))}
    assert unfired(dict.fromkeys(drawn, 1)) == []
    assert swarm.faults_of(11, Random(11)) == swarm.faults_of(11, Random(11))


def test_every_kind_says_what_it_does() -> None:
    assert all(facts.what for facts in KINDS.values())
