"""kubernetes-asyncio is imported as any package is, by what reads credentials and by nothing else."""

import subprocess
import sys

PROGRAM = """
import sys
from jobcommon.client import config, kubernetes_config, transport
assert "kubernetes_asyncio" not in sys.modules, "imported though no credentials are read"
found = kubernetes_config.readers()
import kubernetes_asyncio.config
assert sys.modules["kubernetes_asyncio"].client.V1Pod
assert found.config_exception is kubernetes_asyncio.config.ConfigException
assert found.configuration() is not None
"""


def test_kubernetes_asyncio_is_imported_on_first_use() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=180)
