"""Faults as values, their shrinking, and the plans of sweep and swarm."""

from unittest.mock import Mock

import pytest

from jobcommon.testutil.sim import swarm, sweep
from jobcommon.testutil.sim.campaign import Case, Verdict
from jobcommon.testutil.sim.faults import KINDS, NUMBERS, Fault, from_json, to_json, unfired
from jobcommon.testutil.sim.faulty_network import FaultyNetwork, replayed_from
from jobcommon.testutil.sim.shrink import shrink

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


def test_the_replay_command_is_one_shell_word_each() -> None:
    replay = Case("pytorch/L1-success", 7, FAULTS).replay
    assert replay.startswith("python -m jobcommon.testutil.sim replay --scenario pytorch/L1-success --seed 7 --faults '[{")


def test_shrinking_finds_the_pair_that_fails() -> None:
    many = tuple(Fault("pause", at=float(number), seconds=40.0) for number in range(20))
    culprits = {3.0, 17.0}
    small = shrink(many, lambda faults: culprits <= {fault.at for fault in faults})
    assert [fault.at for fault in small] == [3.0, 17.0]
    assert all(fault.seconds <= 1.0 for fault in small), "each lasts as short as will do"


def test_shrinking_knows_that_no_fault_is_needed() -> None:
    assert shrink(FAULTS, lambda _: True) == ()


def test_the_swarm_draws_every_kind() -> None:
    drawn = {fault.kind for case in swarm.cases(range(300)) for fault in case.faults}
    assert unfired(dict.fromkeys(drawn, 1)) == []
    assert swarm.case_of(11) == swarm.case_of(11)


def test_the_sweep_strikes_every_point_and_its_sample_is_spread() -> None:
    found = [Verdict(Case("pytorch/L1-success", 0), (), {}, 16, 1, "")]
    every = list(sweep.write_points(found))
    assert len(set(every)) == 16 * len(sweep.WRITE_FAULTS)
    sample = list(sweep.write_points(found, 4))
    assert set(sample) < set(every)
    assert {case.faults[0].kind for case in sample} == {fault.kind for fault in sweep.WRITE_FAULTS}


def test_every_kind_says_what_it_does() -> None:
    assert all(facts.what for facts in KINDS.values())
