"""Which replicas decide about a job, for each kind: the tables of the reference's tests, and what they leave out.

The rows are in success.yaml. Where the reference's result is a defect, they expect the sensible one; docs/deviations.md names
those.
"""

from pathlib import Path

import pytest
import yaml

from jobcommon.framework import Framework
from jobcommon.testutil import plans
from jobcommon.testutil.builders import Manifest, job_manifest
from jobcommon.testutil.plans import holding
from tests.kinds import KINDS

ROWS = yaml.safe_load((Path(__file__).parent / "success.yaml").read_text(encoding="utf-8"))
STATES = {"failed": "running,failed 1", "killed": "running,failed 130", "succeeded": "running,succeeded"}
CASES = [(framework, *row) for framework in KINDS for row in ROWS[framework.kind]]


@pytest.mark.parametrize(("framework", "states", "spec", "expected"), CASES, ids=[f"{r[0].name} {r[1]} {r[2]}" for r in CASES])
def test_who_decides(framework: Framework, states: str, spec: Manifest, expected: str) -> None:
    replicas: dict[str, int] = {}
    pods: dict[str, str] = {}
    for part in states.split(", "):
        kind, _, words = part.partition(": ")
        slots = [word for state in words.split() for word in [state.split("*")[0]] * int(state.partition("*")[2] or 1)]
        replicas[kind] = len(slots)
        pods |= {f"{kind}-{index}": STATES.get(word, word) for index, word in enumerate(slots) if word != "-"}
    decision = plans.decide(framework, job_manifest(framework, replicas, **spec), pods)
    assert holding(decision) == ["Created", *([expected] if expected else [])]
