"""Every example runs here as it is and does what its comment says."""

import importlib.util
import re
from collections.abc import Sequence

import pytest

from tests.cli.commands import ROOT, answered
from tests.examples.test_frameworks import RUNS as OF_OTHERS
from tests.examples.test_mpi import EXAMPLES as MPI

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

# example -> exit code of `jobcommon run`, and what its output says
RUNS: dict[str, tuple[int, Sequence[str]]] = {
    "pytorch/digits.yaml": (0, [r"digits-master-0 \| test accuracy 0\.9[5-9]", r"Succeeded +True"]),
    "pytorch/numpy-allreduce.yaml": (0, [r"numpy-allreduce-master-0 \| test accuracy 0\.9", r"Succeeded +True"]),
    "pytorch/elastic.yaml": (0, [r"of 2: sum 3", r"Succeeded +True"]),
    "pytorch/recovery.yaml": (
        0,
        [
            r"rank 1 is killed",
            r"Restarting: .* all replicas in place because Worker-0: exited with code 137",
            r"attempt 1 begins with epoch 11\n",
            r"epoch 20 loss 0\.0",
            r"Succeeded +True",
        ],
    ),
    "jax/processes.yaml": (
        0,
        [r"worker-0 \| coordinator of processes 1 2", r"worker-2 \| process 2 of 3 go", r"Succeeded +True"],
    ),
    "xgboost/tracker.yaml": (0, [r"master-0 \| tracker of 1 tracker-worker-0 2 tracker-worker-1", r"Succeeded +True"]),
    "paddle/collective.yaml": (0, [r"worker-0 \| master of collective with one more node", r"Succeeded +True"]),
    "run-policy/restart.yaml": (0, [r"first run: killed", r"Restarting: .* code 137", r"second run: done", r"Succeeded +True"]),
    "run-policy/deadline.yaml": (1, [r"Failed +True .*DeadlineExceeded"]),
    "run-policy/overrides.yaml": (0, [r"worker-0 \| size small", r"worker-1 \| size small", r"worker-2 \| size large"]),
    "run-policy/progress.yaml": (0, [r"all steps are reported", r"Succeeded +True"]),
    "run-policy/ttl.yaml": (0, [r"gone in five seconds", r"Succeeded +True"]),
    "run-policy/suspend.yaml": (1, [r"Suspended +True", r"suspended, and nothing here will resume it"]),
}
# Those that import torch in each of their processes.
SLOW = ("pytorch/digits.yaml", "pytorch/elastic.yaml", "pytorch/recovery.yaml")
# example -> the modules its script imports
NEEDS = {
    "pytorch/digits.yaml": ("torch", "sklearn"),
    "pytorch/numpy-allreduce.yaml": ("numpy",),
    "pytorch/elastic.yaml": ("torch",),
    "pytorch/recovery.yaml": ("torch",),
}


# Their users act while they run: test_resize.py does.
FOR_UP = {"pytorch/resize.yaml"}


def skip_without(name: str) -> None:
    """Skip the test when this environment, whose Python the pods run, lacks what the example imports."""
    missing = [module for module in NEEDS.get(name, ()) if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install 'jobcommon[examples]', or make setup)")


def test_every_example_is_tried_and_listed() -> None:
    tried = RUNS.keys() | FOR_UP | OF_OTHERS.keys() | {*MPI}
    found = {path.relative_to(ROOT / "examples").as_posix() for path in (ROOT / "examples").rglob("*.y*ml")}
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert {name for name in found if not name.startswith(("polyaxon/", "seeds/"))} == tried
    assert [name for name in found if f"({name})" not in listed and not name.startswith("polyaxon/")] == []


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in RUNS])
def test_example(name: str) -> None:
    skip_without(name)
    code, patterns = RUNS[name]
    done = answered("run", "-f", f"examples/{name}")
    assert done.returncode == code, done.stdout + done.stderr
    assert [pattern for pattern in patterns if not re.search(pattern, done.stdout)] == [], done.stdout
