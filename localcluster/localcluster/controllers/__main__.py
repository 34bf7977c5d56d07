"""``python -m localcluster.controllers KUBECONFIG``: the controllers for an API server that has none."""

import asyncio
import base64
import signal
import ssl
import sys
from pathlib import Path

import yaml

from localcluster.controllers.controllers import Controllers
from localcluster.controllers.mirror import Mirror
from localcluster.http_client import Endpoint


async def main(kubeconfig: str) -> None:
    """Run them until SIGTERM. The kubeconfig is the text of one of `localcluster.kubeconfig`."""
    content = yaml.safe_load(kubeconfig)
    at = content["clusters"][0]["cluster"]
    authority = base64.b64decode(at["certificate-authority-data"]).decode()
    token = content["users"][0]["user"]["token"]
    mirror = Mirror(Endpoint(at["server"], token, ssl.create_default_context(cadata=authority)))
    async with mirror.follow():
        running = asyncio.create_task(Controllers(mirror, root_ca=authority).run())
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
        await asyncio.wait((running,))
        if not running.cancelled():
            running.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]).read_text()))
