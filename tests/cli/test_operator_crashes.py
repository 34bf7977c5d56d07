"""The operator dies at random points of a run and is started again: the end is the same, and no pod runs twice."""

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from jobcommon.api.status import read_status
from jobcommon.client.request import Request, Response, Transport
from jobcommon.operators.pytorch import PYTORCH
from jobcommon.runtime.manager import run_operators
from jobcommon.testutil.cluster import TestCluster, cluster_for, succeeded
from jobcommon.testutil.embedded import SETTINGS
from tests.cli.commands import cluster_up, started
from tests.cli.jobs import shell_job
from tests.runtime.tap import Passing

pytestmark = pytest.mark.cluster

WORKERS = 4
CRASHES = 5


class MortalTransport(Passing):
    """Lets `lives` writes through and then the process is dead: the last one may or may not have arrived."""

    def __init__(self, transport: Transport, lives: int, last_arrives: bool) -> None:
        super().__init__(transport)
        self.lives, self.last_arrives, self.dead = lives, last_arrives, asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.method != "GET":
            self.lives -= 1
            if self.lives == 0 and self.last_arrives:
                await super().send(request)
            if self.lives <= 0:
                self.dead.set()
                await asyncio.Event().wait()
        return await super().send(request)


async def run_until_death_or_success(cluster: TestCluster, transport: MortalTransport) -> None:
    """One life of an operator."""
    life = asyncio.create_task(run_operators(transport, [PYTORCH], SETTINGS))
    dying = asyncio.create_task(transport.dead.wait())
    watching = asyncio.create_task(cluster.until(PYTORCH, "demo", succeeded))
    try:
        await asyncio.wait((life, dying, watching), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (life, dying, watching):
            task.cancel()
        await asyncio.gather(life, dying, watching, return_exceptions=True)


@pytest.mark.parametrize("seed", range(6))
async def test_crashes_change_nothing(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    runs, flag = tmp_path / "runs", tmp_path / "flag"
    command = (
        f"echo $HOSTNAME >> {runs}; sleep 0.$(( $(printf %s $HOSTNAME | tail -c 1) * 2 )); "
        f"case $HOSTNAME in *-2) if [ ! -e {flag} ]; then touch {flag}; exit 137; fi;; esac"
    )
    async with cluster_for(PYTORCH, operators=False) as cluster:
        await cluster.create(PYTORCH, shell_job(command, workers=WORKERS, policy="ExitCode", backoffLimit=1))
        for _ in range(CRASHES):
            mortal = MortalTransport(cluster.cluster.client, chance.randint(1, 12), chance.random() < 0.5)
            await run_until_death_or_success(cluster, mortal)
        operator = asyncio.create_task(run_operators(cluster.cluster.client, [PYTORCH], SETTINGS))
        try:
            job = await cluster.until(PYTORCH, "demo", succeeded)
        finally:
            operator.cancel()
            await asyncio.gather(operator, return_exceptions=True)
    status = read_status(job["status"])
    assert Counter(runs.read_text().split()) == {
        "demo-worker-0": 1, "demo-worker-1": 1, "demo-worker-2": 2, "demo-worker-3": 1,
    }  # fmt: skip
    assert status.restarts == 1
    assert status.replica_statuses["Worker"].succeeded == WORKERS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_process_killed_with_signal_9_is_followed_by_another(tmp_path: Path) -> None:
    runs, flag = tmp_path / "runs", tmp_path / "flag"
    command = f"echo $HOSTNAME >> {runs}; while [ ! -e {flag} ]; do sleep 0.05; done"
    manifest = shell_job(command, workers=3, policy="OnFailure")
    for field_name in ("uid", "resourceVersion", "generation", "creationTimestamp"):
        manifest["metadata"].pop(field_name)
    with cluster_up(tmp_path, "--no-operators") as kubectl:
        operator = ("operator", "--kubeconfig", str(kubectl.kubeconfig), "--metrics-port", "0", "--log-level", "info")
        kubectl("create", "-f", "-", stdin=json.dumps(manifest))
        for expected in ("Created", "Running"):
            with started(*operator, until="serving") as process:
                kubectl("wait", f"--for=condition={expected}", "pytorchjob/demo", "--timeout=180s")
                process.kill()
        flag.touch()
        with started(*operator, until="serving"):
            kubectl("wait", "--for=condition=Succeeded", "pytorchjob/demo", "--timeout=180s")
    assert Counter(runs.read_text().split()) == {f"demo-worker-{index}": 1 for index in range(3)}
