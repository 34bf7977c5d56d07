"""A node with the real kubelet and containerd, where both are found, and root to run them.

Beside the programs of the control plane: ``kubelet`` and ``images.tar``, an archive of the images `SHELL` (with sh, cat and
sleep) and `PAUSE`. On PATH: containerd, its ctr and runc. The usual plug-ins of CNI. There is no registry.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from jobcommon.testutil.polling import polled
from localcluster.conformance import LOOPBACK, Program, StartError, free_port

SHELL, PAUSE = "jobcommon.test/shell:1", "jobcommon.test/pause:1"
# The API server asks for logs at the node's name, and the kubelet listens on this machine only; so it need not ask who that is.
NODE = "localhost"
_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CONTAINERD = """
version = 2
root = "{work}/root"
state = "{work}/state"
[grpc]
  address = "{work}/c.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  # Where root lacks CAP_SYS_RESOURCE, as in many containers and virtual machines.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{work}/cni"
"""


@dataclass(frozen=True)
class ContainerNode:
    """The node while it is up; its containers outlive its kubelet. `settings` is the kubelet's file."""

    kubelet: Program
    settings: Path

    async def press(self, on: bool) -> None:
        """Start the kubelet anew, with next to all of the memory to be kept free, or none.

        A pod without requests that a kubelet under pressure finds at its start is refused (Failed, Evicted), not evicted.
        """
        settings = json.loads(self.settings.read_text())
        settings["evictionSoft"] = {"memory.available": "99%"} if on else {}
        settings["evictionSoftGracePeriod"] = {"memory.available": "5s"} if on else {}
        await self.kubelet.kill()
        self.settings.write_text(json.dumps(settings))
        await self.kubelet.start()


def container_node(assets: Path, directory: Path, kubeconfig: Path) -> AbstractAsyncContextManager[ContainerNode] | None:
    """The node, to be started; None where something of it is missing."""
    plugins = next((path for path in _PLUGINS if (path / "ptp").exists()), None)
    found = all((assets / name).exists() for name in ("kubelet", "images.tar", "kube-scheduler"))
    found = found and all(shutil.which(name) for name in ("containerd", "ctr", "runc")) and os.geteuid() == 0
    if plugins is None or not found:
        return None
    return _running(assets, directory, kubeconfig, plugins)


@asynccontextmanager
async def _running(assets: Path, directory: Path, kubeconfig: Path, plugins: Path) -> AsyncIterator[ContainerNode]:
    work = directory / "node"
    (work / "cni").mkdir(parents=True)
    (work / "config.toml").write_text(_CONTAINERD.format(work=work, pause=PAUSE, plugins=plugins))
    (work / "cni" / "10-pods.conflist").write_text(json.dumps(_network(work)))
    (work / "kubelet.json").write_text(json.dumps(_settings(work)))
    async with AsyncExitStack() as stack:
        containerd = Program(Path(str(shutil.which("containerd"))), work, ["--config", str(work / "config.toml")])
        stack.callback(_unmount, work)
        await stack.enter_async_context(containerd)
        await _import(work, assets / "images.tar", containerd)
        stack.push_async_callback(_clear, work)
        kubelet = Program(assets / "kubelet", work, [
            f"--kubeconfig={kubeconfig}", f"--config={work / 'kubelet.json'}", f"--root-dir={work / 'kubelet'}",
            f"--cert-dir={work / 'certificates'}", f"--hostname-override={NODE}",
        ])  # fmt: skip
        await stack.enter_async_context(kubelet)
        yield ContainerNode(kubelet, work / "kubelet.json")


def _network(work: Path) -> dict[str, object]:
    addresses = {"type": "host-local", "ranges": [[{"subnet": "10.187.0.0/16"}]], "dataDir": str(work / "addresses")}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}]}


def _settings(work: Path) -> dict[str, object]:
    """Of this machine it takes no more than it must: it evicts nothing, and knows cgroups of version 1."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": LOOPBACK,
        "port": free_port(),
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{work}/c.sock",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "evictionMaxPodGracePeriod": 1,
        "evictionPressureTransitionPeriod": "1s",
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "1s",
        "nodeLeaseDurationSeconds": 4,
        "resolvConf": "",
        "podLogsDir": str(work / "logs"),
    }


async def _import(work: Path, images: Path, containerd: Program) -> None:
    async def imported() -> bool:
        if why := containerd.ended:
            raise StartError(why)
        return await _ctr(work, "images", "import", str(images)) is not None

    await polled(imported, seconds=30.0)
    # An imported image has no digest of its repository; one that was pulled has.
    lines = [line.split() for line in (await _ctr(work, "images", "ls") or "").splitlines()]
    for digest in [fields[2] for fields in lines if fields[0] == SHELL]:
        await _ctr(work, "images", "tag", SHELL, f"{SHELL.rpartition(':')[0]}@{digest}")


async def _clear(work: Path) -> None:
    """Kill what still runs: a container outlives kubelet and containerd."""
    for name in (await _ctr(work, "tasks", "ls", "-q") or "").split():
        await _ctr(work, "tasks", "rm", "--force", name)


async def _ctr(work: Path, *arguments: str) -> str | None:
    """What it prints; None when it fails."""
    process = await asyncio.create_subprocess_exec(
        "ctr", "--address", str(work / "c.sock"), "--namespace", "k8s.io", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    output, _ = await process.communicate()
    return output.decode() if process.returncode == 0 else None


def _unmount(work: Path) -> None:
    """Volumes, root file systems and network namespaces of pods are mounts; the innermost comes off first."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((m for m in mounts if m.startswith(f"{work}/")), reverse=True):
        with contextlib.suppress(OSError):
            os.system(f"umount --lazy {mount}")  # noqa: S605  a path of our own temporary directory
