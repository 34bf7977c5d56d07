"""`jobcommon simulate`: the jobs of a framework under faults."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from jobcommon.operators.mxnet import MXNET
from jobcommon.testutil.builders import job_manifest
from tests.cli.commands import answered

GOOD = "jobcommon.testutil.frameworks:TEST_JOB"
BROKEN = "tests.cli.broken_frameworks"
CRASH = '[{"kind": "crash-after", "write": 3}]'


@pytest.mark.parametrize(("name", "said"), [("FLIPS", "the job has not failed; its status is"), ("IMPURE", "end-state: ")])
def test_a_mistake_is_found_without_a_fault(name: str, said: str) -> None:
    found = answered("simulate", f"{BROKEN}:{name}")
    assert found.returncode == 1
    assert said in found.stdout
    assert re.fullmatch(r"without faults: 5 runs, [1-5] failures", found.stdout.splitlines()[-1])


def test_a_failure_is_printed_as_the_command_that_repeats_it() -> None:
    found = answered("simulate", f"{BROKEN}:RAISES")
    assert "KeyError: 'no address for it'" in found.stdout
    command = next(line for line in found.stdout.splitlines() if line.startswith("FAILED ")).removeprefix("FAILED ")
    program, *arguments = shlex.split(command)
    assert program == "jobcommon"
    again = answered(*arguments)
    assert (again.returncode, again.stdout.splitlines()[0]) == (1, f"FAILED {command}")
    assert again.stdout.splitlines()[-1] == "replay: 1 runs, 1 failures"


def test_a_single_run_with_faults_is_replayed() -> None:
    found = answered("simulate", GOOD, "--lifecycle", "L2-retryable-exit", "--seed", "3", "--faults", CRASH)
    assert (found.returncode, found.stdout) == (0, "replay: 1 runs, 0 failures\n")


def test_the_job_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job_manifest(MXNET, {"Scheduler": 1, "Server": 1, "Worker": 1})))
    found = answered("simulate", "mxnet", "-f", str(file), "--lifecycle", "L1-success")
    assert (found.returncode, found.stdout) == (0, "replay: 1 runs, 0 failures\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mxnet"], "this MXJob is invalid"),
        (["absent"], "there is no such framework here"),
        (["absent:FRAMEWORK"], "No module named 'absent'"),
        ([GOOD, "--lifecycle", "L0"], "--lifecycle L0: use one of L1-success"),
        ([GOOD, "--lifecycle", "L1-success", "--faults", '[{"kind": "rain", "write": 1}]'], "--faults: "),
        ([GOOD, "--lifecycle", "L1-success", "--faults", "["], "--faults: "),
        ([GOOD, "-f", "examples/pytorch/digits.yaml"], "0 objects of kind TestJob; give a file with one"),
    ],
)
def test_wrong_input_is_said(arguments: list[str], said: str) -> None:
    found = answered("simulate", *arguments)
    assert found.returncode == 2
    assert said in found.stderr
    assert found.stderr.startswith("error: ")


@pytest.mark.slow
def test_a_correct_framework_has_no_failures() -> None:
    found = answered("simulate", GOOD, "--seeds", "12")
    assert found.returncode == 0, found.stdout
    first, points, swarm = found.stdout.splitlines()
    assert first == "without faults: 5 runs, 0 failures"
    assert re.fullmatch(r"write points \(\d{3}\): 1\d\d runs, 0 failures", points)
    assert swarm == "swarm: 12 runs, 0 failures"
