"""``python -m benchmarks.embedded_server KUBECONFIG [DIRECTORY]``: the embedded API server and its controllers, without a node.

It writes the kubeconfig and runs until SIGTERM. Its state is kept in the directory, else in memory.
"""

import asyncio
import signal
import sys
from pathlib import Path

from localcluster import local_cluster
from localcluster.client import write_secret


async def main(kubeconfig: Path, directory: Path | None = None) -> None:
    """Serve until SIGTERM; a line on stdout says that it is up."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    async with local_cluster(data_dir=directory, node=False) as cluster:
        write_secret(kubeconfig, cluster.kubeconfig().encode())
        print(cluster.url, flush=True)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main(*map(Path, sys.argv[1:])))
