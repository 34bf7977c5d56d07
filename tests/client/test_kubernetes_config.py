"""Credentials are read without kubernetes-asyncio's models, and whoever wants those still gets them."""

import subprocess
import sys

LIGHT = """
import sys
from jobcommon.client.kubernetes_config import readers
found = readers()
assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio")], "left behind"
import kubernetes_asyncio
assert kubernetes_asyncio.client.V1Pod and kubernetes_asyncio.client.ApiClient is not object
assert issubclass(found.config_exception, Exception) and found.configuration() is not None
"""
WHOLE = """
import kubernetes_asyncio.config
from jobcommon.client.kubernetes_config import readers
assert readers().config_exception is kubernetes_asyncio.config.ConfigException
"""


def test_nothing_is_left_of_it_for_others() -> None:
    subprocess.run([sys.executable, "-c", LIGHT], check=True)


def test_one_that_is_there_is_used() -> None:
    subprocess.run([sys.executable, "-c", WHOLE], check=True)
