"""Converted jobs run: the examples on the embedded cluster, and the command as a user meets it."""

import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from tests.cli.commands import answered

SSHD_STATE = Path("/run/sshd")
needs_ssh = pytest.mark.skipif(
    shutil.which("mpirun") is None or not Path("/usr/sbin/sshd").exists() or os.geteuid() != 0,
    reason="mpirun over ssh needs openmpi-bin, openssh-server, and root to run sshd",
)
# Of the others only the leader is sure to be heard: the job is over with it.
RUNS: dict[str, Sequence[str]] = {
    "pytorch.yml": [r"ranks-master-0 \| hello from master 0 rank 0 of 4", r"master is at ranks-master-0\.ranks:23456"],
    "tensorflow.yml": [r"roles-chief-0 \| chief 0 of \['chief', 'ps', 'worker'\]"],
    "mxnet.yml": [r"kvstore-scheduler-0 \| scheduler of 2 workers and 1 servers, dist_sync"],
    "horovod.yml": [rf"ring-launcher \| \[1,{rank}\]<stdout>:{rank}" for rank in range(4)],
}
PLAIN = "version: 1\nframework: pytorch\nbuild: {image: i}\nrun: {cmd: echo hello}\n"


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[needs_ssh] if name == "horovod.yml" else []) for name in RUNS])
def test_example_runs(name: str) -> None:
    if name == "horovod.yml":
        # Where sshd puts itself when it separates privileges; a machine whose init does not start it may lack it.
        SSHD_STATE.mkdir(exist_ok=True)
    done = answered("run", "-f", f"examples/polyaxon/{name}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [pattern for pattern in (*RUNS[name], r"Succeeded +True") if not re.search(pattern, done.stdout)] == [], done.stdout
    assert done.stderr == ""


def test_convert_writes_the_manifest_and_warns_on_standard_error(tmp_path: Path) -> None:
    source = tmp_path / "polyaxonfile.yml"
    source.write_text(PLAIN + "colour: red\n", encoding="utf-8")
    done = answered("convert", str(source), "--name", "named", "--image", "other")
    assert done.returncode == 0
    assert done.stderr == f"warning: {source}: colour: has no meaning here and is omitted\n"
    manifest = yaml.safe_load(done.stdout)
    assert manifest["metadata"]["name"] == "named"
    assert manifest["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] == "other"
    assert answered("convert", str(source), "-o", str(tmp_path)).returncode == 2


def test_a_nameless_job_is_called_by_its_file_or_directory(tmp_path: Path) -> None:
    directory = tmp_path / "My Digits"
    directory.mkdir()
    for name, called in (("polyaxonfile.yml", "my-digits"), ("Fit_all.yaml", "fit-all")):
        (directory / name).write_text(PLAIN, encoding="utf-8")
        assert f"  name: {called}\n" in answered("convert", str(directory / name)).stdout
    assert "  name: experiment\n" in answered("convert", "-", stdin=PLAIN).stdout


def test_plan_and_run_take_a_polyaxonfile() -> None:
    planned = answered("plan", "-f", "-", stdin=PLAIN + "colour: red\n")
    assert "create pods/" in planned.stdout
    assert planned.stderr == "warning: <stdin>: colour: has no meaning here and is omitted\n"
    done = answered("run", "-f", "-", stdin=PLAIN + "matrix: {lr: {values: [1]}}\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "error: <stdin>: matrix: describes many experiments" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("run: !!set {a}", "set is not supported"), ("a: 1\n---\nb: 2", "<stdin>: has 2 documents"),
        ("- 1", "<stdin>: is not a polyaxonfile, which is a mapping"), ("", "is not a polyaxonfile"),
        ("a: [", "<stdin>:1:5: not valid YAML"), ("a: 1", "is not a polyaxonfile"),
    ],
)  # fmt: skip
def test_a_text_that_is_no_polyaxonfile_is_refused(text: str, message: str) -> None:
    done = answered("convert", "-", stdin=text)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
