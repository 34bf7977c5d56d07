"""`jobcommon simulate`: the jobs of a framework under faults."""

import re
import shlex
from dataclasses import replace
from itertools import count
from pathlib import Path

import yaml

from jobcommon.framework import EnvVar
from jobcommon.operators.mxnet import MXNET
from jobcommon.testutil.builders import job_manifest
from jobcommon.testutil.frameworks import TEST_JOB
from tests.cli.commands import answered

_ASKED = count()
IMPURE = replace(TEST_JOB, env=lambda _job, _replica: (EnvVar("NUMBER", str(next(_ASKED))),))
CRASH = '[{"kind": "crash-after", "write": 3}]'


def test_a_failure_is_printed_as_the_command_that_repeats_it() -> None:
    found = answered("simulate", "tests.cli.test_simulate:IMPURE")
    assert found.returncode == 1
    assert "end-state: " in found.stdout
    assert re.fullmatch(r"without faults: 7 runs, [1-7] failures", found.stdout.splitlines()[-1])
    command = next(line for line in found.stdout.splitlines() if line.startswith("FAILED ")).removeprefix("FAILED ")
    program, *arguments = shlex.split(command)
    assert program == "jobcommon"
    again = answered(*arguments)
    assert (again.returncode, again.stdout.splitlines()[0]) == (1, f"FAILED {command}")
    assert again.stdout.splitlines()[-1] == "replay: 1 runs, 1 failures"


def test_a_single_run_with_faults_of_the_job_of_a_file_is_replayed(tmp_path: Path) -> None:
    (file := tmp_path / "job.yaml").write_text(yaml.safe_dump(job_manifest(MXNET, {"Scheduler": 1, "Server": 1, "Worker": 1})))
    found = answered("simulate", "mxnet", "-f", str(file), "--lifecycle", "L1-success", "--seed", "3", "--faults", CRASH)
    assert (found.returncode, found.stdout) == (0, "replay: 1 runs, 0 failures\n")
