"""Sessions in running pods, and the life of the kubelet itself: no process outlives it, nothing reported is lost."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.kubelet.process import Isolation, detect
from localcluster.pod_backend import PodBackendError
from tests.kubelet.process_cluster import Caller, Cluster, cluster, processes_with, shell, state
from tests.polling import PATIENCE, polled

pytestmark = pytest.mark.cluster

WAIT = "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(params=[None, Isolation(namespaces=False)], ids=["best", "fallback"])
async def local(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    async with cluster(tmp_path, isolation=request.param) as running:
        yield running


async def test_exec(local: Cluster) -> None:
    await local.create(shell("p", WAIT, env=[{"name": "A", "value": "b"}]))
    await local.running("p")
    code, caller = await local.exec("p", "sh", "-c", "echo $A; echo err >&2; exit 7", stderr=True)
    assert (code, caller.out, caller.err) == (7, b"b\n", b"err\n")
    code, caller = await local.exec("p", "sh", "-c", "kill -9 $$")
    assert code == 137
    with pytest.raises(PodBackendError, match="not found"):
        await local.exec("p", "no-such-program")
    data = os.urandom(300_000)
    code, caller = await local.exec("p", "cat", stdin=True, caller=Caller(given=data))
    assert (code, caller.out) == (0, data)
    # The client takes nothing for a while, and the command has left behind what keeps its output open.
    takes = asyncio.Event()

    class Slow(Caller):
        async def write_stdout(self, data: bytes) -> None:
            await takes.wait()
            await super().write_stdout(data)

    running = asyncio.create_task(local.exec("p", "sh", "-c", "sleep 1000 & echo late", caller=Slow()))
    await asyncio.wait((running,), timeout=1)
    takes.set()
    assert (await running)[1].out == b"late\n"


async def test_exec_sees_the_pod_s_own_files_and_name(tmp_path: Path) -> None:
    async with cluster(tmp_path) as local:
        volume = {"volumes": [{"name": "e", "emptyDir": {}}]}
        mount = [{"name": "e", "mountPath": "/only-here"}]
        await local.create(shell("p", "echo x > /only-here/x; " + WAIT, spec=volume, volumeMounts=mount))
        await local.running("p")
        await local.log_with("p", "up")
        _, caller = await local.exec("p", "sh", "-c", "cat /only-here/x; hostname")
        assert caller.out == b"x\np\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may start a pod as another user: run the tests as root")
async def test_a_user_who_may_not_enter_the_directory_of_the_cluster_starts_in_the_root(tmp_path: Path) -> None:
    home, data = tmp_path / "home", tmp_path / "data"
    programs = home / "clone/bin"
    programs.mkdir(parents=True)
    data.mkdir()
    (programs / "of-the-clone").write_text("#!/bin/sh\necho found\n")
    (programs / "of-the-clone").chmod(0o755)
    home.chmod(0o700)
    other = {"securityContext": {"runAsUser": 65534}}
    isolation = await detect()
    if isolation != Isolation(namespaces=True):
        pytest.skip("another user's pod finds the programs in a mount namespace of root's: allow this process to mount")
    async with cluster(data, isolation=isolation, working_dir=home / "clone", python=programs / "python") as local:
        await local.create(shell("p", "pwd; of-the-clone", spec=other))
        await local.ended("p")
        said = f"User 65534 may not enter {home}/clone, where the cluster was started: starting in /"
        assert sorted((await local.logs("p")).splitlines()) == ["/", said, "found"]
        await local.create(shell("chosen", "pwd", spec=other, workingDir=str(home)))
        failed = await local.ended("chosen")
        assert "Permission denied" in state(failed)["state"]["terminated"]["message"]


async def test_process_ids_begin_anywhere(tmp_path: Path) -> None:
    """Open MPI makes the names of its sessions of host name and process id: two mpirun of one job name must not share them."""
    if await detect() != Isolation(namespaces=True):
        pytest.skip("process ids can be chosen in a PID namespace of root's")
    async with cluster(tmp_path) as local:
        await local.create(shell("p", "echo $$$$"))
        await local.ended("p")
        assert int(await local.logs("p")) >= 1000


async def test_a_pod_with_ssh_keys_has_what_images_for_ssh_bring(tmp_path: Path) -> None:
    if await detect() != Isolation(namespaces=True) or not Path("/etc/ssh/ssh_config.d").is_dir():  # noqa: ASYNC240
        pytest.skip("needs mount namespaces of root's and ssh: apt install openssh-client")
    volume = {"volumes": [{"name": "keys", "emptyDir": {}}]}
    script = "test -d /run/sshd && cat /etc/ssh/ssh_config.d/localcluster.conf"
    async with cluster(tmp_path) as local:
        await local.create(shell("p", script, spec=volume, volumeMounts=[{"name": "keys", "mountPath": "/root/.ssh"}]))
        await local.ended("p")
        assert "StrictHostKeyChecking no" in await local.logs("p")


async def test_a_node_that_was_given_up_is_ready_again(tmp_path: Path) -> None:
    """As kube-controller-manager does when it has heard nothing: a machine that slept, or one that is busy."""
    async with cluster(tmp_path, heartbeat=0.02) as local:
        missed = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
        await local.api.patch("/api/v1/nodes/local/status", {"status": {"conditions": missed}})

        def ready(node: dict[str, Any]) -> bool:
            return ("Ready", "True", "KubeletReady") in {
                (c["type"], c["status"], c["reason"]) for c in node["status"]["conditions"]
            }

        await polled(lambda: local.api.call("GET", "/api/v1/nodes/local"), ready)


PROGRAM = """
import asyncio, pathlib, sys
from localcluster.kubelet.process import Isolation
from tests.kubelet.process_cluster import cluster, shell
async def main():
    isolation = Isolation(namespaces=False) if sys.argv[3] == "fallback" else None
    async with cluster(pathlib.Path(sys.argv[1]), isolation=isolation) as local:
        script = f"trap '' TERM; (setsid sh -c 'sleep 1000; : {sys.argv[2]}' &); echo up; while :; do sleep 0.05; done"
        await local.create(shell("p", script))
        await local.running("p")
        await local.log_with("p", "up")
        print("up", flush=True)
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["best", "fallback"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_no_process_outlives_the_cluster(tmp_path: Path, number: signal.Signals, isolation: str) -> None:
    mark = f"tag-{os.getpid()}-{number}-{isolation}"
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), mark, isolation]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        assert len(processes_with(mark)) > 1
        # The whole foreground group gets a Ctrl-C; a SIGKILL hits the cluster alone.
        if number is signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.kill()
    deadline = time.monotonic() + PATIENCE
    while left := processes_with(mark):
        assert time.monotonic() < deadline, left
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
