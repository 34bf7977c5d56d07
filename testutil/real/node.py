"""``python -m jobcommon.testutil.real.node KUBECONFIG DIRECTORY``: our kubelet for another control plane."""

import asyncio
import signal
import sys
from pathlib import Path

from jobcommon.client.config import find_cluster
from jobcommon.client.transport import HttpTransport, Timeouts
from jobcommon.testutil.embedded import ServerTransport
from localcluster.kubelet.kubelet import Kubelet
from localcluster.kubelet.options import KubeletOptions


async def main(kubeconfig: str, directory: Path) -> None:
    """Run pods as processes until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    transport = HttpTransport(await find_cluster(kubeconfig), timeouts=Timeouts(read=60.0), user_agent="kubelet")
    volumes = directory / "kubelet"
    volumes.mkdir(exist_ok=True)
    try:
        async with Kubelet(ServerTransport(transport), KubeletOptions(volumes, stop_grace=1.0)):
            await stop.wait()
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
