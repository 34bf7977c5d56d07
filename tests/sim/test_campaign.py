"""Small campaigns over the real thing: each kind of fault once, and the same run in two interpreters."""

import os
import subprocess
import sys

import pytest

from jobcommon.testutil.sim.campaign import Case, judge
from jobcommon.testutil.sim.faults import KINDS, Fault, to_json
from jobcommon.testutil.sim.swarm import case_of
from jobcommon.testutil.sim.sweep import WRITE_FAULTS

QUICK = [kind for kind, facts in KINDS.items() if facts.neutral and not facts.world and kind not in ("two-operators", "flood")]
SPECIAL = {
    "forbidden": Fault("forbidden", write=3, seconds=20.0),
    "unauthorized": Fault("unauthorized", write=3, seconds=20.0),
    "clock-rate": Fault("clock-rate", at=2.0, seconds=30.0, value="1.4"),
    "partition": Fault("partition", at=2.0, seconds=20.0),
    "streamed-list-broken": Fault("streamed-list-broken", at=0.0, seconds=20.0),
    "old-list": Fault("old-list", at=2.0, seconds=60.0),
    "coalesced": Fault("coalesced", at=0.1, seconds=60.0, value="10"),
    "page-expired": Fault("page-expired", at=2.0, seconds=20.0),
    "slow-writes": Fault("slow-writes", at=0.0, seconds=20.0, value="6"),
    "foreign-answer": Fault("foreign-answer", write=5, value="redirect"),
    "rights-revoked": Fault("rights-revoked", at=0.0, seconds=20.0, value="create pods"),
    "replicas-unreadable": Fault("replicas-unreadable", at=5.0, seconds=20.0),
}
#: Whether these meet anything depends on what else happens; the swarm sees to it that they do.
LUCK = ("coalesced", "old-list", "page-expired", "version-too-large", "gone-storm")


@pytest.mark.parametrize("fault", WRITE_FAULTS, ids=lambda fault: fault.kind)
def test_a_write_that_goes_wrong_changes_nothing_in_the_end(fault: Fault) -> None:
    struck = Fault(fault.kind, write=9, seconds=fault.seconds, value=fault.value)
    verdict = judge(Case("mpi/L2-retryable-exit", 0, (struck,)))
    assert verdict.problems == (), verdict.case.replay
    assert verdict.fired[fault.kind] == 1


@pytest.mark.parametrize("kind", QUICK)
def test_each_kind_is_survived(kind: str) -> None:
    usual = Fault(kind, at=2.0, seconds=10.0) if kind not in {f.kind for f in WRITE_FAULTS} else Fault(kind, write=5)
    fault = SPECIAL.get(kind, usual if kind != "crash-in-status" else Fault(kind, write=3))
    verdict = judge(Case("pytorch/L11-recreated", 1, (fault,)))
    assert verdict.problems == (), verdict.case.replay
    assert kind in LUCK or verdict.fired.get(kind), "it did not strike"


@pytest.mark.slow
def test_a_run_is_the_same_in_another_interpreter() -> None:
    """Not even the seed of the interpreter's hashes makes a difference."""
    case = case_of(6)
    arguments = ["replay", "--no-shrink", "--scenario", case.scenario, "--seed", "6", "--faults", to_json(case.faults)]
    command = [sys.executable, "-m", "jobcommon.testutil.sim", *arguments]
    outputs = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=False).stdout
        for seed in ("1", "2")
    ]
    assert b"history" in outputs[0]
    assert outputs[0] == outputs[1]
