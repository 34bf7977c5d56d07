"""Which real API server to compare with, if any."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from localcluster import envtest
from localcluster.conformance.target import Target, connected

WHY_NOT = f"no real API server to compare with: set {envtest.ASSETS} to a directory with etcd and kube-apiserver"


def kubeconfig(variable: str, context: str) -> Path | None:
    """The kubeconfig of a cluster that is marked: by `variable`, or by the name of its current context."""
    if marked := os.environ.get(variable):
        return Path(marked)
    plain = os.environ.get("KUBECONFIG", "")
    if plain and Path(plain).is_file():
        content = yaml.safe_load(Path(plain).read_text())
        if isinstance(content, dict) and content.get("current-context") == context:
            return Path(plain)
    return None


def available() -> bool:
    """Whether there is one. Raises envtest.StartError when the variable is set wrongly."""
    return envtest.assets() is not None


@asynccontextmanager
async def control_plane(directory: Path) -> AsyncIterator[Target]:
    """Both programs of `directory`, ready, and connections to them. Raises envtest.StartError."""
    async with envtest.servers(directory) as found, connected("kube-apiserver", found.version, found.endpoint) as target:
        yield target


@asynccontextmanager
async def real() -> AsyncIterator[Target | None]:
    """The real server, started if need be; None when there is none."""
    directory = envtest.assets()
    if directory is None:
        yield None
        return
    async with control_plane(directory) as target:
        yield target
