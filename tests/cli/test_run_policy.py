"""What the run policy promises, kept with real processes."""

import json
from pathlib import Path

import pytest

from jobcommon.api.status import ConditionType, read_status
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.testutil.cluster import cluster_for, failed, has, succeeded
from tests.cli.commands import answered
from tests.cli.jobs import shell_job

pytestmark = pytest.mark.cluster


def once(flag: Path, first: str, then: str) -> str:
    """A command that does one thing in the first run and another in every later one."""
    return f"if [ -e {flag} ]; then {then}; else touch {flag}; {first}; fi"


async def test_exit_code_137_restarts_the_replica_and_is_counted(tmp_path: Path) -> None:
    command = once(tmp_path / "flag", "exit 137", "exit 0")
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job(command, policy="ExitCode", backoffLimit=2))
        status = read_status((await cluster.until(PYTORCH, "demo", succeeded))["status"])
    assert status.restarts == 1
    assert status.failures[0].exit_code == 137
    assert status.failures[0].replica == "Worker-0"


async def test_a_killed_container_counts_as_137(tmp_path: Path) -> None:
    # A manifest's $$ is a single $ (the API's escape for $(NAME)).
    command = once(tmp_path / "flag", "kill -9 $$$$", "exit 0")
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job(f"sh -c '{command}'", policy="ExitCode"))
        status = read_status((await cluster.until(PYTORCH, "demo", succeeded))["status"])
    assert [failure.exit_code for failure in status.failures] == [137]


async def test_exit_code_1_fails_the_job_and_its_message_says_so() -> None:
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job("exit 1", workers=2, policy="ExitCode"))
        status = read_status((await cluster.until(PYTORCH, "demo", failed))["status"])
    last = status.conditions[-1]
    assert (last.type, last.reason) == ("Failed", "PyTorchJobFailed")
    assert "exited with code 1" in last.message
    assert "Worker-" in last.message
    assert not status.restarts


async def test_the_backoff_limit_allows_exactly_so_many_restarts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job(f"echo run >> {runs}; exit 130", policy="ExitCode", backoffLimit=1))
        status = read_status((await cluster.until(PYTORCH, "demo", failed))["status"])
    assert status.conditions[-1].reason == "BackoffLimitExceeded"
    assert runs.read_text().split() == ["run", "run"]


async def test_suspend_takes_the_pods_away_and_resume_brings_them_back(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job(f"[ -e {flag} ] || exec sleep 600", workers=2, policy="OnFailure"))
        await cluster.until(PYTORCH, "demo", has(ConditionType.RUNNING))
        await cluster.merge(PYTORCH, "demo", {"spec": {"runPolicy": {"suspend": True}}})
        suspended = await cluster.until(PYTORCH, "demo", has(ConditionType.SUSPENDED))
        for index in range(2):
            await cluster.until_gone("pods", f"demo-worker-{index}")
        assert suspended["status"]["conditions"][-1]["type"] == "Suspended"
        flag.touch()
        await cluster.merge(PYTORCH, "demo", {"spec": {"runPolicy": {"suspend": False}}})
        status = read_status((await cluster.until(PYTORCH, "demo", succeeded))["status"])
    assert not status.restarts
    assert not status.has(ConditionType.SUSPENDED)


async def test_the_deadline_fails_the_job_and_stops_its_pods() -> None:
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job("exec sleep 600", activeDeadlineSeconds=1))
        job = await cluster.until(PYTORCH, "demo", failed)
        await cluster.until_gone("pods", "demo-worker-0")
    assert job["status"]["conditions"][-1]["reason"] == "DeadlineExceeded"


async def test_the_time_to_live_deletes_the_job_and_what_it_owns() -> None:
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job("true", ttlSecondsAfterFinished=1))
        await cluster.until(PYTORCH, "demo", succeeded)
        await cluster.until_gone(PYTORCH, "demo")
        await cluster.until_gone("pods", "demo-worker-0")
        assert await cluster.pods() == []


async def test_a_finished_pod_is_not_run_again_when_another_is_restarted(tmp_path: Path) -> None:
    runs, flag = tmp_path / "runs", tmp_path / "flag"
    command = f"echo $RANK $HOSTNAME >> {runs}; case $HOSTNAME in *-1) {once(flag, 'exit 200', 'exit 0')};; esac"
    async with cluster_for(PYTORCH) as cluster:
        await cluster.create(PYTORCH, shell_job(command, workers=3, policy="ExitCode"))
        await cluster.until(PYTORCH, "demo", succeeded)
    hosts = sorted(line.split()[-1] for line in runs.read_text().splitlines())
    assert hosts == ["demo-worker-0", "demo-worker-1", "demo-worker-1", "demo-worker-2"]


def test_run_lets_a_worker_end_that_still_saves(tmp_path: Path) -> None:
    """The master ends first, which is the job's success; the command stops its cluster once the worker has ended, too."""
    master = shell_job(f"until [ -e {tmp_path}/works ]; do sleep 0.05; done; touch {tmp_path}/over")
    specs = master["spec"]["pytorchReplicaSpecs"]
    specs["Master"] = specs["Worker"]
    worker = f"touch {tmp_path}/works; until [ -e {tmp_path}/over ]; do sleep 0.05; done; sleep 7; echo has saved"
    specs["Worker"] = shell_job(worker)["spec"]["pytorchReplicaSpecs"]["Worker"]
    (tmp_path / "job.json").write_text(json.dumps(master))
    done = answered("run", "-f", str(tmp_path / "job.json"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "demo-worker-0 | has saved" in done.stdout
