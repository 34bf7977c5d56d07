"""``python -m jobcommon.testutil.real.node KUBECONFIG DIRECTORY SERVERS``: our kubelet for another control plane.

The directory of its servers has the certificate by which they know each other.
"""

import asyncio
import signal
import sys
from pathlib import Path

from jobcommon.cli.embedded import ServerTransport
from jobcommon.client.config import find_cluster
from jobcommon.client.transport import HttpTransport, Timeouts
from localcluster import Kubelet
from localcluster.client import Certificate
from localcluster.conformance import LOOPBACK, NODE
from localcluster.model import KubeletOptions, serve_node


async def main(kubeconfig: str, directory: Path, servers: Path) -> None:
    """Run pods as processes until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    transport = HttpTransport(await find_cluster(kubeconfig), timeouts=Timeouts(read=60.0), user_agent="kubelet")
    volumes = directory / "kubelet"
    volumes.mkdir(exist_ok=True)
    certificate = Certificate(*((servers / f"{NODE}.{suffix}").read_bytes() for suffix in ("crt", "key")))
    try:
        async with serve_node(certificate, LOOPBACK) as served:
            options = KubeletOptions(volumes, stop_grace=1.0, port=served.port, heartbeat=2.0)
            async with Kubelet(ServerTransport(transport), options) as kubelet:
                served.find, served.backend = kubelet.pod, kubelet.backend
                await stop.wait()
    finally:
        await transport.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], *map(Path, sys.argv[2:])))
