"""Resizes of real programs: the commands of docs/elastic.md, and the examples of other kinds, which meet again in each size."""

import os
import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobcommon.framework import Framework
from jobcommon.operators.jax import JAX
from jobcommon.operators.mpi import MPI
from jobcommon.operators.paddle import PADDLE
from jobcommon.operators.xgboost import XGBOOST
from jobcommon.testutil.cluster import TestCluster, cluster_for
from jobcommon.testutil.polling import polled
from tests.architecture.source import ROOT
from tests.cli.commands import cluster_up
from tests.examples.test_examples import SSHD_STATE, needs_mpi, needs_sshd
from tests.examples.test_tutorial import run_as_typed

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.timeout(1200)]
PAGE = (ROOT / "docs" / "elastic.md").read_text(encoding="utf-8")
UP, *COMMANDS = re.findall(r"^```sh[^\n]*\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1:]


def test_the_commands_of_the_page(tmp_path: Path) -> None:
    """What `make demo-elastic` shows: the loss goes on from the checkpoint in each size."""
    pytest.importorskip("torch")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(tmp_path / "kubeconfig"), "OMP_NUM_THREADS": "1"}
    epochs: list[tuple[int, float]] = []
    ranks: list[int] = []
    with cluster_up(tmp_path, *UP.split()[2:]):
        for command in "".join(COMMANDS).splitlines():
            print(f"$ {command}", flush=True)
            print(output := run_as_typed(command, ROOT, env), flush=True)
            for world, after in re.findall(r"(\d) ranks go on after epoch (\d+)\n", output):
                ranks.append(int(world))
                assert not epochs or int(after) >= epochs[-1][0], "what was seen is in the checkpoint"
            epochs += [(int(epoch), float(loss)) for epoch, loss in re.findall(r"epoch (\d+) loss (\S+)\n", output)]
    assert ranks == [3, 5, 4, 3, 4]
    assert len(epochs) == 2 * len(ranks)
    assert all(later > epoch and less < loss for (epoch, loss), (later, less) in pairwise(epochs))


def meeting(name: str, workers: int) -> str:
    """What the leader of an example prints when all have come."""
    names = [f"{Path(name).stem}-worker-{index}" for index in range(workers)]
    return {
        "jax": f"coordinator of processes {' '.join(map(str, range(1, workers)))}\n",
        "xgboost": f"tracker of {' '.join(f'{rank} {pod}' for rank, pod in enumerate(names, 1))}\n",
        "paddle": f"master of collective with{' one more node' * (workers - 1)}\n",
        "mpi": f"{2 * workers} ranks on {' '.join(names)}: sum 499500, of squares 332833500\n",
    }[name.partition("/")[0]]


def staying(command: list[str], args: list[str] | None) -> tuple[list[str], list[str] | None]:
    """The command of an example as one that stays when it is done, for each host that there is."""
    if args is None:
        return ["sh", "-c", f"{' '.join(command).replace('-np 4 ', '')} && sleep infinity"], None
    return command, [f"{args[0]}\nimport signal\nsignal.pause()\n"]


@pytest.mark.parametrize(
    ("framework", "name", "leader"),
    [
        (JAX, "jax/processes.yaml", "processes-worker-0"),
        (XGBOOST, "xgboost/tracker.yaml", "tracker-master-0"),
        (PADDLE, "paddle/collective.yaml", "collective-worker-0"),
        pytest.param(MPI, "mpi/allreduce-exec.yaml", "allreduce-exec-launcher", marks=needs_mpi),
        pytest.param(MPI, "mpi/allreduce-ssh.yaml", "allreduce-ssh-launcher", marks=[needs_mpi, needs_sshd]),
    ],
)
async def test_programs_meet_again_in_each_size(framework: Framework, name: str, leader: str) -> None:
    *others, job = yaml.safe_load_all((ROOT / "examples" / name).read_text(encoding="utf-8"))
    job["spec"]["runPolicy"] = {"restartScope": "Job", "restartMethod": "Auto"}
    specs = job["spec"][framework.replica_specs]
    for spec in specs.values():
        spec["restartPolicy"] = "OnFailure"
        (main,) = spec["template"]["spec"]["containers"]
        if "command" in main:
            main["command"], main["args"] = staying(main["command"], main.get("args"))
    if framework is MPI:
        SSHD_STATE.mkdir(exist_ok=True)
    async with cluster_for(framework) as cluster:
        for body in others:
            await cluster.create("configmaps", body)
        specs["Worker"]["replicas"] = 2
        path = f"/apis/{job['apiVersion']}/namespaces/default/{framework.plural}"
        await cluster.send("POST", path, job)
        for workers in (2, 4, 3):
            size: dict[str, Any] = {"spec": {framework.replica_specs: {"Worker": {"replicas": workers}}}}
            await cluster.merge(framework, job["metadata"]["name"], size)
            wanted = meeting(name, workers)
            await polled(lambda: said(cluster, leader), lambda text, wanted=wanted: wanted in text)


async def said(cluster: TestCluster, name: str) -> str:
    """What the program of a pod has printed; "" while it does not run."""
    for pod in await cluster.pods():
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        if pod["metadata"]["name"] == name and any("running" in one["state"] for one in statuses):
            return await cluster.logs(pod)
    return ""
