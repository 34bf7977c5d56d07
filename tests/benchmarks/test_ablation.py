"""What `make bench` measures without each mechanism is there to be taken out."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from benchmarks.ablation import MECHANISMS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", MECHANISMS)
def test_each_ablated_mechanism_exists(name: str) -> None:
    what, take_out = MECHANISMS[name]
    assert what
    if isinstance(take_out, partial):
        module, attribute, value = take_out.args
        assert getattr(module, attribute) != value


@pytest.mark.parametrize(
    ("name", "gone"), [("queue-levels", "JobState().level == 1"), ("background", "not Plan(R).background")]
)
def test_a_mechanism_is_gone_once_it_is_taken_out(name: str, gone: str) -> None:
    program = (
        "from benchmarks.ablation import MECHANISMS; from jobcommon import Plan, RemoveFinalizer;"
        "from jobcommon.controller.job_state import JobState; R = (RemoveFinalizer('a', 'u', ()),);"
        f"assert not ({gone}); MECHANISMS[{name!r}][1](); assert {gone}"
    )
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=120)
